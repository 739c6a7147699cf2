"""What is counted of the calls of a method, and what is logged of a single one."""

import logging
import re
from bisect import bisect_left
from collections import Counter
from secrets import token_hex
from time import perf_counter_ns
from typing import Any

from google.protobuf.descriptor import MethodDescriptor

from statekeep_server.core.errors import Reason
from statekeep_server.counting import Distribution
from statekeep_server.rpc.errors import CODES

MILLISECOND = 1_000_000  # nanoseconds
BOUNDS = tuple(
    round(bound * MILLISECOND)
    for bound in (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000)
)
"""Of the buckets of how long calls take, in nanoseconds."""
CANCELLED = "CANCELLED"
"""The outcome of a call whose client went away or whose deadline passed, which has no reason."""
FAULTS = frozenset({Reason.INTERNAL, Reason.STORE_UNAVAILABLE})
"""Reasons that are no fault of the client's: such a call is logged, whatever it asked for."""

_NEVER = 2**63
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")

log = logging.getLogger("statekeep_server.calls")


class MethodCalls:
    """The calls of one method that have ended: how, and after how long.

    `slow` is in seconds: a unary call that takes as long is logged; 0 for none.
    """

    __slots__ = ("_log_above", "method", "outcomes", "times")

    def __init__(self, method: MethodDescriptor, slow: float) -> None:
        self.method = method
        self.times = Distribution(BOUNDS)
        """How long they took, in nanoseconds; of a stream, how long it was open."""
        self.outcomes: Counter[str] = Counter()
        """How many were refused, by reason, or `CANCELLED`. All others were answered."""
        unary = not method.server_streaming
        # One comparison at each call decides of both: all are logged, or those that are slow.
        self._log_above = 0 if log.isEnabledFor(logging.DEBUG) else slow * 1e9 if unary and slow else _NEVER

    def end(self, began: int, outcome: str | None, context: Any) -> None:
        """Count a call that ends, and that began at this reading of `perf_counter_ns`; None: it was answered."""
        took = perf_counter_ns() - began
        times = self.times  # what Distribution.note does, without the cost of one more call
        times.counts[bisect_left(times.bounds, took)] += 1
        times.total += took
        if outcome is not None:
            self.outcomes[outcome] += 1
        if took >= self._log_above and outcome not in FAULTS:
            self._say(took, outcome, context)

    def say_fault(self, began: int, reason: Reason, context: Any, error: Exception | None) -> None:
        """Log a call that the server failed, with the traceback of the error that nobody expected."""
        about = self._about(perf_counter_ns() - began, reason, context)
        log.log(logging.ERROR if error else logging.WARNING, "call failed", exc_info=error, extra=about)

    def _say(self, took: int, outcome: str | None, context: Any) -> None:
        about = self._about(took, outcome, context)
        if log.isEnabledFor(logging.DEBUG):
            log.debug("call", extra=about)
        else:
            log.warning("slow call", extra=about)

    def _about(self, took: int, outcome: str | None, context: Any) -> dict[str, object]:
        """Return what may be told of a call: nothing that it brought but an id for this."""
        refused = isinstance(outcome, Reason)
        return {
            "request_id": request_id(context),
            "method": f"{self.method.containing_service.full_name}/{self.method.name}",
            "code": code_of(outcome),
            **({"reason": str(outcome)} if refused else {}),
            "duration_ms": round(took / MILLISECOND, 3),
            "peer": context.peer(),
        }


def code_of(outcome: str | None) -> str:
    """Return the gRPC status of an outcome."""
    return CODES[outcome].name if isinstance(outcome, Reason) else outcome or "OK"


def request_id(context: Any) -> str:
    """Return a call's `x-request-id` where it is printable and short, or a new one."""
    for key, value in context.invocation_metadata() or ():
        if key == "x-request-id" and isinstance(value, str) and _REQUEST_ID.fullmatch(value):
            return value
    return token_hex(8)
