"""TLS: the server's certificate and key, and whose clients it takes, read again when the files change."""

import logging
import ssl
import threading
from pathlib import Path

import grpc

from statekeep_server.config import ConfigError, Settings
from statekeep_server.files import Stamp, UnreadableError, read, stamp, warn_where_open

log = logging.getLogger(__name__)


class Certificates:
    """A server's certificate and key, and with `client_ca` whose clients it takes: none without a certificate then.

    ConfigError where the files cannot be taken. Later, files that cannot leave in force what was, and are logged, once.
    """

    def __init__(self, cert: Path, key: Path, client_ca: Path | None = None) -> None:
        self._cert = cert
        self._key = key
        self._client_ca = client_ca
        self._lock = threading.Lock()
        self._stamps = self._look()
        self._unreadable = False
        self._pems = self._read()
        self.reloads = 0
        """How many times the files changed and were taken."""
        self.failures = 0
        """How many times they changed and could not be."""

    @property
    def tells_clients(self) -> bool:
        """Whether every client has to show a certificate."""
        return self._client_ca is not None

    def credentials(self) -> grpc.ServerCredentials:
        """Return what one port takes. Connections that are there go on as they began, whatever the files become."""
        seen = self.reloads

        def fetch() -> grpc.ServerCertificateConfiguration | None:
            """Return what a connection that begins gets, None for what there was before. A thread of gRPC calls it."""
            nonlocal seen
            with self._lock:
                self._reload()
                if seen == self.reloads:
                    return None
                seen = self.reloads
                return _configuration(*self._pems)

        return grpc.dynamic_ssl_server_credentials(
            _configuration(*self._pems),
            fetch,  # type: ignore[arg-type]  # the stubs do not know of None
            self.tells_clients,
        )

    def _reload(self) -> None:
        if (now := self._look()) == self._stamps:
            return
        try:
            self._pems = self._read()
        except UnreadableError as error:  # what may pass is tried again at the next connection, and told once
            self.failures += 1
            if not self._unreadable:
                log.error("the certificates stay as they were, and are read again: %s", error)
            self._unreadable = True
            return
        except ConfigError as error:
            self._stamps = now
            self.failures += 1
            log.error("the certificates stay as they were: %s", error)
            return
        self._stamps, self._unreadable = now, False
        self.reloads += 1
        log.info("the certificates were read again")

    def _look(self) -> tuple[Stamp, ...]:
        return tuple(stamp(path) for path in (self._cert, self._key, self._client_ca) if path)

    def _read(self) -> tuple[bytes, bytes, bytes | None]:
        """Return the certificate, the key, and the authority of clients."""
        warn_where_open(self._key, "--tls-key")
        cert, key = read(self._cert, "--tls-cert"), read(self._key, "--tls-key")
        ca = read(self._client_ca, "--tls-client-ca") if self._client_ca else None
        # gRPC says of bad ones only in its own log that something is wrong.
        check_pair(self._cert, self._key)
        if self._client_ca:
            check_authority(self._client_ca, "--tls-client-ca")
        return cert, key, ca


def _configuration(cert: bytes, key: bytes, ca: bytes | None) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(key, cert)], ca)


def certificates_of(settings: Settings) -> Certificates | None:
    """Return the certificates that the settings name; None where they name none, ConfigError where one is missing."""
    if not (settings.tls_cert or settings.tls_key or settings.tls_client_ca):
        return None
    if not (settings.tls_cert and settings.tls_key):
        missing = "--tls-key" if settings.tls_cert else "--tls-cert"
        raise ConfigError(f"TLS needs {missing} too; give --tls-cert and --tls-key")
    client_ca = Path(settings.tls_client_ca) if settings.tls_client_ca else None
    return Certificates(Path(settings.tls_cert), Path(settings.tls_key), client_ca)


def check_pair(cert: Path, key: Path) -> None:
    """Refuse with ConfigError what --tls-cert and --tls-key name unless it is a certificate and its key."""
    try:
        # Without a password it would ask for one at the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password="")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ConfigError(f"--tls-key: {key} is not the key of the certificate in {cert}") from error
        raise ConfigError(
            f"--tls-cert: {cert} and {key} must hold a certificate and its key, not encrypted, as PEM"
            f" ({error.reason or error.strerror or error})"
        ) from error
    except OSError as error:
        raise ConfigError(f"--tls-cert: {cert} or {key} cannot be read: {error.strerror}") from error


def check_authority(path: Path, flag: str) -> None:
    """Refuse with ConfigError a file without certificates."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(path)
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(f"{flag}: {path} holds no certificates as PEM") from error
