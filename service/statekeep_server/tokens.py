"""Bearer tokens: what each may do, and the file they stand in, which may change while the server runs."""

import difflib
import logging
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import Any

from statekeep_server.config import ConfigError
from statekeep_server.files import UnreadableError, read, stamp, warn_where_open

SHORTEST = 16  # characters of a token
MOST = 1000  # tokens: each call is compared with every one
PREFIXES = ("scopes", "threads", "instances")

_FLAG = "--token-file"
_KEYS = ("name", "value", "sha256", "rights", *PREFIXES)
_SECRET = re.compile(r"[!-~]+")
_DIGEST = re.compile(r"[0-9A-Fa-f]{64}")
_NAME = re.compile(r"[A-Za-z0-9._\-/@ ]{1,64}")
_PREFIX = {
    "scopes": (re.compile(r"[A-Za-z0-9._\-/]{0,200}"), "at most 200 of A-Z, a-z, 0-9 and . _ - /, as a scope's name"),
    "threads": (re.compile(r"(?! )[^\x00-\x1f\x7f-\x9f]{0,50}"), "at most 50 characters that an id may begin with"),
    "instances": (re.compile(r"(?! )[^\x00-\x1f\x7f-\x9f]{0,50}"), "at most 50 characters that an id may begin with"),
}

log = logging.getLogger(__name__)


class Right(StrEnum):
    """What a token may do; `write` includes `read`."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class Token:
    """A token, without the token itself: its digest tells it.

    `scopes`, `threads` and `instances` are what the names it may touch begin with: "" is every one, None is none.
    """

    name: str
    digest: bytes
    right: Right = Right.WRITE
    scopes: str | None = ""
    threads: str | None = ""
    instances: str | None = ""

    @property
    def everywhere(self) -> bool:
        """Whether it may touch all there is."""
        return (self.scopes, self.threads, self.instances) == ("", "", "")


def secret(given: Any) -> str:
    """Return a token without the white space around it, as clients send it; ValueError where it is no good one."""
    token = given.strip() if isinstance(given, str) else ""
    if not _SECRET.fullmatch(token) or len(token) < SHORTEST:
        # Without the token itself, which is a secret.
        raise ValueError(f"give a token of at least {SHORTEST} printable ASCII characters without blanks")
    return token


def digest_of(token: str) -> bytes:
    """Return the digest by which a token is kept and compared."""
    return sha256(token.encode()).digest()


class Tokens:
    """The tokens in force: those of a file, and `own`, which has all rights.

    ConfigError where the file cannot be taken. Later, one that cannot leaves in force what was, and is logged, once.
    """

    def __init__(self, file: Path | None, own: str = "") -> None:
        self._file = file
        self._own = (Token("STATEKEEP_TOKEN", digest_of(own)),) if own else ()
        self._stamp = stamp(file) if file else None
        self._unreadable = False
        self._in_force: tuple[Token, ...] = (*self._own, *self._read())
        self.reloads = 0
        """How many times the file changed and was taken."""
        self.failures = 0
        """How many times it changed and could not be."""

    def find(self, given: str) -> Token | None:
        """Return the token that a call carries; None where it is not in force."""
        digest = digest_of(given)
        found = None
        for token in self._in_force:  # to the last, so that the time tells nothing of which one it was
            if compare_digest(token.digest, digest):
                found = token
        return found

    def reload(self) -> Sequence[Token]:
        """Look whether the file changed, take it where it did, and return the tokens that are not in force any more."""
        if self._file is None or (now := stamp(self._file)) == self._stamp:
            return ()
        try:
            taken = (*self._own, *self._read())
        except UnreadableError as error:  # what may pass is tried again at the next look, and told once
            self.failures += 1
            if not self._unreadable:
                log.error("the tokens stay as they were, and are read again: %s", error)
            self._unreadable = True
            return ()
        except ConfigError as error:
            self._stamp = now
            self.failures += 1
            log.error("the tokens stay as they were: %s", error)
            return ()
        self._stamp, self._unreadable = now, False
        ended = [token for token in self._in_force if token not in taken]
        self._in_force = taken
        self.reloads += 1
        log.info("%d tokens are in force, %d of before are not any more", len(taken), len(ended))
        return ended

    def _read(self) -> list[Token]:
        if self._file is None:
            return []
        warn_where_open(self._file, _FLAG)
        try:
            return parse(read(self._file, _FLAG))
        except ValueError as error:
            raise ConfigError(f"{_FLAG}: {self._file}: {error}") from error


def parse(content: bytes) -> list[Token]:
    """Return the tokens of a token file; ValueError, which never tells a token, where it is not as it must be."""
    try:
        tree = tomllib.loads(content.decode())
    except UnicodeDecodeError as error:
        raise ValueError("is no UTF-8 text") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ValueError(f"is not TOML: {error}") from error
    _check_keys(tree, ("token",), "the file")
    tables = tree.get("token")
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise ValueError("holds no token; give each as a table that begins with [[token]]")
    if len(tables) > MOST:
        raise ValueError(f"holds {len(tables)} tokens; at most {MOST} are allowed")
    tokens = [_token(table, place) for place, table in enumerate(tables, 1)]
    _check_different(tokens)
    return tokens


def _token(table: dict[str, Any], place: int) -> Token:
    name = table.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"token {place}: name is missing or not 1 to 64 of A-Z, a-z, 0-9, blanks and . _ - / @")
    where = f"token {place} ({name})"
    _check_keys(table, _KEYS, where)
    rights = table.get("rights")
    if rights not in list(Right):
        raise ValueError(f'{where}: rights must be "read" or "write"')
    return Token(name, _digest(table, where), Right(rights), **_prefixes(table, where))


def _digest(table: dict[str, Any], where: str) -> bytes:
    if ("value" in table) == ("sha256" in table):
        raise ValueError(f"{where}: give one of the two, sha256 (of the token, in hex) or value (the token itself)")
    if "value" in table:
        try:
            return digest_of(secret(table["value"]))
        except ValueError as error:
            raise ValueError(f"{where}: value: {error}") from error
    digest = table["sha256"]
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise ValueError(f"{where}: sha256 must be the 64 hex digits of the token's SHA-256")
    return bytes.fromhex(digest)


def _prefixes(table: dict[str, Any], where: str) -> dict[str, str | None]:
    if not any(kind in table for kind in PREFIXES):
        return {}
    prefixes: dict[str, str | None] = dict.fromkeys(PREFIXES)
    for kind in PREFIXES:
        if kind in table:
            pattern, right = _PREFIX[kind]
            if not isinstance(table[kind], str) or not pattern.fullmatch(table[kind]):
                raise ValueError(f"{where}: {kind} must be a prefix: {right}")
            prefixes[kind] = table[kind]
    return prefixes


def _check_keys(table: dict[str, Any], known: Sequence[str], where: str) -> None:
    for key in table:
        if key not in known:
            # The key itself is not shown: whoever mistook the format may have put a token there.
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise ValueError(f"{where} has an unknown key; {hint}")


def _check_different(tokens: Sequence[Token]) -> None:
    names: set[str] = set()
    digests: dict[bytes, str] = {}
    for token in tokens:
        if token.name in names:
            raise ValueError(f"two tokens are named {token.name}; give each a name of its own")
        if token.digest in digests:
            raise ValueError(f"{digests[token.digest]} and {token.name} are the same token; give each its own")
        names.add(token.name)
        digests[token.digest] = token.name
