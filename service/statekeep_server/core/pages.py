"""Pages: their size, and tokens that hold where the next one begins and fit only the request they came from."""

import base64
import binascii
from hashlib import blake2b

from statekeep.v1 import memory_pb2, state_store_pb2

from statekeep_server.core.errors import StatekeepError, invalid
from statekeep_server.core.fingerprints import Normalise, as_it_is, fingerprint
from statekeep_server.core.journal import Limits
from statekeep_server.core.wire import field

_SEAL_BYTES = 16

PagedRequest = (
    memory_pb2.MemoryListRequest
    | memory_pb2.MemoryListPurgesRequest
    | memory_pb2.MemoryListScopesRequest
    | state_store_pb2.ListCheckpointsRequest
    | state_store_pb2.ListBranchesRequest
    | state_store_pb2.ListThreadsRequest
)


class Page:
    """One page: how many items it may hold, and the cursor it begins after ("" for the first page)."""

    def __init__(self, request: PagedRequest, limits: Limits, normalise: Normalise = as_it_is) -> None:
        self.size = _size(request.page_size, limits)
        self._print = fingerprint(request, "page_size", "page_token", normalise=normalise)
        self.cursor = self._read(request.page_token) if request.page_token else ""
        self._room = limits.record
        self._frames: list[bytes] = []
        self._last = ""
        self._more = False

    def take(self, frame: bytes, cursor: str) -> bool:
        """Put an item on the page, with the cursor that leads on from it; False where the page is full without it."""
        if len(self._frames) >= self.size or (self._frames and len(frame) > self._room):
            self._more = True
            return False
        self._frames.append(frame)
        self._room -= len(frame)
        self._last = cursor
        return True

    def answer(self) -> bytes:
        """Return the response: the items in field 1, the next page's token in field 2."""
        token = self._token() if self._more else b""
        return b"".join((*self._frames, token))

    def _token(self) -> bytes:
        cursor = self._last.encode()
        return field(b"\x12", base64.urlsafe_b64encode(self._seal(cursor) + cursor))

    def _read(self, token: str) -> str:
        try:
            raw = base64.urlsafe_b64decode(token.encode())
            seal, cursor = raw[:_SEAL_BYTES], raw[_SEAL_BYTES:]
            if seal == self._seal(cursor) and base64.urlsafe_b64encode(raw).decode() == token:
                return cursor.decode()
        except (binascii.Error, ValueError):
            pass
        raise _foreign_token()

    def _seal(self, cursor: bytes) -> bytes:
        """Return what ties a cursor to the request. It keeps mistakes out, not malice: a cursor gives no rights."""
        return blake2b(cursor, key=self._print, digest_size=_SEAL_BYTES).digest()


def revision_cursor(page: Page, suffix: str = "") -> int | None:
    """Return a page's cursor where it is a revision, with or without a suffix; None on the first page."""
    if not page.cursor:
        return None
    revision = page.cursor.removesuffix(suffix)
    if not (revision.isascii() and revision.isdecimal() and len(revision) < 20):
        raise _foreign_token()
    return int(revision)


def _foreign_token() -> StatekeepError:
    return invalid("page_token", "is not one that this request gave; leave it empty to begin at the first page")


def _size(asked: int, limits: Limits) -> int:
    if asked < 0:
        raise invalid("page_size", "is {size}; give 0 for the default, or up to {max}", size=asked, max=limits.max_page)
    return min(asked or limits.page, limits.max_page)
