"""Why a call failed, for whoever typed a command: gRPC does not know what a command can be given."""

import argparse
import os
import re
from typing import TYPE_CHECKING

from statekeep_server.cli.connecting import speaks_tls

if TYPE_CHECKING:
    from statekeep.errors import StatekeepError

_NOT_REACHED = re.compile(r"failed to connect|errors resolving")
_LAST = re.compile(r".*last error: \w+: (?:ipv4:|ipv6:|unix:)\S+: (.*)", re.DOTALL)

# What gRPC says of a connection, and what may be missing: without TLS, with it, and with a certificate of one's own.
_CERTIFICATE = "if it asks for a certificate, give --tls-cert and --tls-key"
_OTHER = "it may not know who signed --tls-cert"
_NO_TLS = "it seems to speak no TLS: leave out --tls, its other options, and their variables"
_AUTHORITY = "--tls-ca has to name the file of who signed its certificate"
_NAME = "its certificate is for another name: give that with --tls-server-name"
_HINTS = {
    "Socket closed": ("if it speaks TLS, give --tls or --tls-ca", _CERTIFICATE, _OTHER),
    "WRONG_VERSION_NUMBER": ("", _NO_TLS, _NO_TLS),
    "CERTIFICATE_VERIFY_FAILED": ("", _AUTHORITY, _AUTHORITY),
    "Hostname Verification": ("", _NAME, _NAME),
}
_RUNNING = "is it running there? --address or STATEKEEP_ADDRESS says where"


def why(error: "StatekeepError", options: argparse.Namespace) -> str:
    """Return in one line why a call failed, and what to give where that helps."""
    from statekeep import errors

    if isinstance(error, errors.DeadlineExceededError):
        return f"no answer came within {options.timeout:g} s; --timeout says how long to wait"
    if isinstance(error, errors.UnauthenticatedError):
        if os.environ.get("STATEKEEP_TOKEN", "").strip():
            return "the token in STATEKEEP_TOKEN is none that is in force on the server"
        return "the server wants a token; give it in STATEKEEP_TOKEN"
    if isinstance(error, errors.PartitionExistsError):
        return f"{error}; --skip-existing passes over it"
    if isinstance(error, errors.UnavailableError) and not error.reason:
        return _unreachable(str(error), options)
    return str(error)


def _unreachable(said: str, options: argparse.Namespace) -> str:
    if not _NOT_REACHED.match(said):
        return f"the connection to {options.address} broke ({said}); try again"
    last = _LAST.fullmatch(said)
    cause = last[1] if last else said
    hint = next((hints[_stage(options)] for part, hints in _HINTS.items() if part in cause), "")
    return f"no server can be reached at {options.address} ({cause}); {hint or _RUNNING}"


def _stage(options: argparse.Namespace) -> int:
    """Return how much of TLS the options turn on: 0 nothing, 1 TLS, 2 also a certificate of one's own."""
    return 0 if not speaks_tls(options) else 2 if options.tls_cert else 1
