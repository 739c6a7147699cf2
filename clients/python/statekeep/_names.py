"""The names a program may give keys and scopes, checked before anything is sent."""

import re

from statekeep.errors import UsageError

# What Unicode calls White_Space, which is what the server trims: str.strip() would take U+001C to U+001F too.
WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029"
    "\u202f\u205f\u3000"
)

_ALLOWED = re.compile(r"[A-Za-z0-9._\-/]+")


def memory_name(kind: str, name: str) -> str:
    """A memory key or scope, trimmed.

    Raises:
        UsageError: It is blank, or has other characters than letters, digits and ``._-/``.
    """
    if not isinstance(name, str):
        raise UsageError(f"Memory {kind} must be a string, not {type(name).__name__}.")
    trimmed = name.strip(WHITE_SPACE)
    if not trimmed:
        raise UsageError(f"Memory {kind} must be non-empty and may not be whitespace-only.")
    if not _ALLOWED.fullmatch(trimmed):
        raise UsageError(
            f"Memory {kind} {trimmed!r} may only contain letters, numbers, '.', '_', '-', and '/'. "
            "Colons are not allowed."
        )
    return trimmed


def memory_key(name: str) -> str:
    """A memory key, trimmed. Raises UsageError also where it is reserved."""
    key = memory_name("key", name)
    if key.startswith("_compaction/"):
        raise UsageError("Memory key prefix '_compaction/' is reserved for compaction audit logs.")
    return key
