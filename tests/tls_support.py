"""The files of a server's certificate and key, and connections with TLS."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import grpc
import trustme
from rpc_support import Stubs


class Files(NamedTuple):
    """Where a server reads its certificate and key."""

    cert: Path
    key: Path

    def hold(self, issued: trustme.LeafCert) -> None:
        """Put a certificate and its key in place, each at once, and the certificate first."""
        for path, pems in ((self.cert, issued.cert_chain_pems), (self.key, [issued.private_key_pem])):
            new = path.with_suffix(".new")
            new.write_bytes(b"".join(pem.bytes() for pem in pems))
            new.chmod(0o600)
            new.replace(path)

    @property
    def flags(self) -> tuple[str, ...]:
        return ("--tls-cert", str(self.cert), "--tls-key", str(self.key))


def credentials(authority: trustme.CA, issued: trustme.LeafCert | None = None) -> grpc.ChannelCredentials:
    """Return what a client trusts, and shows where it has a certificate."""
    shown = ()
    if issued:
        shown = (issued.private_key_pem.bytes(), b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    return grpc.ssl_channel_credentials(authority.cert_pem.bytes(), *shown)


@contextmanager
def over_tls(address: str, authority: trustme.CA, issued: trustme.LeafCert | None = None) -> Iterator[Stubs]:
    """Give the services on a connection of its own, to a server that the authority vouches for."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.secure_channel(address, credentials(authority, issued), options) as channel:
        yield Stubs(channel)
