"""What our own code takes of a call: the handlers of some methods in a loop, without gRPC and without a wait.

`python -m bench.rules` prints, for each, the least of some rounds, in microseconds. Within a server the same code
takes longer: see docs/performance.md.
"""

import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import grpc
from google.protobuf.message import Message
from statekeep.v1 import memory_pb2 as memory
from statekeep.v1 import state_store_pb2 as state
from statekeep_server.core.journal import Limits
from statekeep_server.core.scratch import Scratch
from statekeep_server.engines import open_engine
from statekeep_server.rpc.batches import Batches
from statekeep_server.rpc.handlers import Traffic, method_handlers
from statekeep_server.rpc.services import MEMORY, STATE_STORE, Services
from statekeep_server.rpc.streams import Followers

from bench.workloads import BATCH, EVENT_SIZE, SCOPE, VALUE, event

_ROUNDS, _CALLS = 9, 3_000
Handle = Callable[[bytes, Any], Coroutine[Any, Any, bytes]]


class _AtOnce(Batches):
    """No call waits for others."""

    def join(self) -> None:
        return None


def main() -> None:
    """Measure and print."""
    limits, engine = Limits(), open_engine("memory:")
    services = Services(engine, Scratch(60), Followers(engine, limits), limits)
    handlers: Mapping[str, grpc.RpcMethodHandler[Any, Any]] = {
        **method_handlers(MEMORY, services.memory(), Traffic(), _AtOnce()),
        **method_handlers(STATE_STORE, services.state_store(), Traffic(), _AtOnce()),
    }
    calls: Mapping[str, tuple[Message, int]] = {
        "Set": (memory.MemorySetRequest(scope=SCOPE, key="key", value=VALUE), 1),
        "Get": (memory.MemoryGetRequest(scope=SCOPE, key="key"), 1),
        "AppendNextEvent": (state.AppendNextEventRequest(event=event(EVENT_SIZE, "one")), 1),
        "AppendEvents": (state.AppendEventsRequest(thread_id="many", events=[event(EVENT_SIZE)] * BATCH), BATCH),
    }
    for name, (request, units) in calls.items():
        handle: Handle = handlers[name].unary_unary  # type: ignore[assignment]  # all of these are unary
        taken = min(_round(handle, request.SerializeToString(), _CALLS // units) for _ in range(_ROUNDS))
        print(f"{name:16}{taken / units * 1e6:6.2f} µs{' an event' if units > 1 else ''}")


def _round(handle: Handle, request: bytes, calls: int) -> float:
    """Return the seconds that one call takes."""
    started = time.perf_counter()
    for _ in range(calls):
        try:
            handle(request, None).send(None)
        except StopIteration:
            continue
        raise AssertionError("the call waits for something")
    return (time.perf_counter() - started) / calls


if __name__ == "__main__":
    main()
