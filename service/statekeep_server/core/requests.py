"""Request ids: a write that is sent again gets its first answer, and writes nothing."""

from google.protobuf.message import Message
from statekeep.v1.admin_pb2 import ExportedAnswer

from statekeep_server.core.errors import Reason, StatekeepError, invalid
from statekeep_server.core.fingerprints import Normalise, as_it_is, fingerprint
from statekeep_server.core.identifiers import identifier
from statekeep_server.core.journal import REQUESTS, Record, View

REMEMBERED = 10_000
"""How many writes with a request id are known at least, in each partition."""
_PRINT_BYTES = 16


class Request:
    """A write's request id, and what tells the same request from another. An empty id is never known."""

    def __init__(self, request: Message, request_id: str, normalise: Normalise = as_it_is) -> None:
        self.id = identifier(request_id, "request_id") if request_id else ""
        self._print = fingerprint(request, "request_id", normalise=normalise) if request_id else b""

    def known(self, view: View) -> bytes | None:
        """Return the answer that was given before; None where the request is new."""
        record = view.find(REQUESTS, self.id) if self.id else None
        if record is None:
            return None
        if record.frame[:_PRINT_BYTES] != self._print:
            raise StatekeepError(
                Reason.REQUEST_ID_REUSED,
                "request_id '{request_id}' was used for another request; use a new one for each",
                field="request_id",
                request_id=self.id,
            )
        return record.frame[_PRINT_BYTES:]

    def remember(self, view: View, revision: int, answer: bytes) -> tuple[list[Record], list[Record]]:
        """Return the record that keeps the answer, and the old ones it pushes out. Only for one with an id."""
        record = Record(REQUESTS, revision, 1, self._print + answer, self.id)
        return [record], _oldest(view)


def parted(record: Record) -> tuple[bytes, bytes]:
    """Return what a remembered answer's record holds: the fingerprint of its request, and the answer."""
    return record.frame[:_PRINT_BYTES], record.frame[_PRINT_BYTES:]


def restored(answer: ExportedAnswer, path: str) -> Record:
    """Return the record of an answer that another server remembered."""
    if len(answer.fingerprint) != _PRINT_BYTES:
        raise invalid(f"{path}.fingerprint", "has not {bytes} bytes", bytes=_PRINT_BYTES)
    return Record(REQUESTS, answer.revision, 1, answer.fingerprint + answer.response, answer.request_id)


def _oldest(view: View) -> list[Record]:
    # Many at once and seldom, so that a write costs the same however many there are.
    if view.count(REQUESTS) < 2 * REMEMBERED:
        return []
    records = list(view.scan(REQUESTS))
    return records[:-REMEMBERED]
