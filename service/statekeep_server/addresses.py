"""Which addresses only this machine can reach."""

import ipaddress


def is_local(address: str) -> bool:
    """Return whether HOST:PORT or unix:PATH is out of reach for other machines.

    A host that is no IP address counts as reachable, but for localhost: what it resolves to may change.
    """
    if address.startswith("unix:"):
        return True
    host = address.rpartition(":")[0].strip("[]")
    if host.lower() == "localhost":
        return True
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return (mapped or ip).is_loopback
