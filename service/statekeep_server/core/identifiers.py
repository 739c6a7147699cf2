"""The names that clients choose: how each is normalised, and which are refused."""

import re

from statekeep_server.core.errors import StatekeepError, invalid
from statekeep_server.core.journal import MAX_NUMBER

# Unicode's White_Space. str.strip() without an argument also takes U+001C to U+001F, which are controls.
WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
RESERVED_PREFIX = "_compaction/"
SCOPE_CHARACTERS = 256
ID_BYTES = 256
SCRATCH_KEY_BYTES = 512

_SCOPE = re.compile(r"[A-Za-z0-9._\-/]{1,256}")
_KEY = re.compile(r"[A-Za-z0-9._\-/]{1,512}")
_PLAIN_ID = re.compile(r"[!-~](?:[ -~]{0,254}[!-~])?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def is_scope_name(text: str) -> bool:
    """Whether a text is a scope's name as it is, without blanks around it."""
    return bool(_SCOPE.fullmatch(text))


def scope_name(text: str, field: str) -> str:
    """Return a scope's name, trimmed."""
    return text if _SCOPE.fullmatch(text) else _trimmed(text, field, _SCOPE, SCOPE_CHARACTERS)


def memory_key(text: str, field: str) -> str:
    """Return a memory key, trimmed."""
    return text if _KEY.fullmatch(text) else _trimmed(text, field, _KEY, 512)


def writable_key(text: str, field: str) -> str:
    """Return a memory key that may be written, trimmed."""
    key = memory_key(text, field)
    if key.startswith(RESERVED_PREFIX):
        raise invalid(field, "keys under {reserved} are reserved; choose another", reserved=RESERVED_PREFIX)
    return key


def scratch_key(text: str, field: str = "key") -> str:
    """Return a scratch key, trimmed."""
    key = text.strip(WHITE_SPACE)
    if not key:
        raise invalid(field, "is empty or blank; give a key of 1 to {max} bytes", max=SCRATCH_KEY_BYTES)
    _check_text(key, field, SCRATCH_KEY_BYTES)
    return key


def identifier(text: str, field: str) -> str:
    """Return an id as it is: ids are never trimmed."""
    if _PLAIN_ID.fullmatch(text):
        return text
    if not text:
        raise invalid(field, "is empty; give an id of 1 to {max} bytes", max=ID_BYTES)
    if text.strip(WHITE_SPACE) != text:
        raise invalid(field, "begins or ends with a blank; ids are not trimmed, so send it without")
    _check_text(text, field, ID_BYTES)
    return text


def sequence(number: int, field: str) -> int:
    """Return a sequence number that a client gave."""
    if not 0 <= number <= MAX_NUMBER:
        raise invalid(field, "is {number}; give a number from 0 to {max}", number=number, max=MAX_NUMBER)
    return number


def version(number: int, field: str) -> int:
    """Return a version that a client expects to find."""
    if number < 0:
        raise invalid(field, "is {number}; give 0 for no value, or a version from 1", number=number)
    return number


def _trimmed(text: str, field: str, pattern: re.Pattern[str], longest: int) -> str:
    trimmed = text.strip(WHITE_SPACE)
    if pattern.fullmatch(trimmed):
        return trimmed
    raise _refused(trimmed, field, longest)


def _refused(trimmed: str, field: str, longest: int) -> StatekeepError:
    if not trimmed:
        return invalid(field, "is empty or blank; give 1 to {max} characters", max=longest)
    if len(trimmed) > longest:
        return invalid(
            field, "is {length} characters long; at most {max} are allowed", length=len(trimmed), max=longest
        )
    return invalid(field, "may hold only letters A-Z and a-z, digits, and . _ - /")


def _check_text(text: str, field: str, longest: int) -> None:
    size = len(text.encode())
    if size > longest:
        raise invalid(field, "is {size} bytes long; at most {max} are allowed", size=size, max=longest)
    if _CONTROL.search(text):
        raise invalid(field, "holds a control character; remove it")
