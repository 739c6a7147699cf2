"""How much memory of the server a follower takes that waits for events."""

import grpc
from statekeep.v1 import state_store_pb2 as pb
from statekeep.v1.state_store_pb2_grpc import StateStoreStub

from bench.process import Process, resident

_WARM = 100


def idle_follower(server: Process, count: int) -> float:
    """Return the bytes for each of `count` followers on one connection. The server should be fresh."""
    with grpc.insecure_channel(server.address) as channel:
        follow = StateStoreStub(channel).StreamHistory
        calls = []
        before = 0
        for place in range(_WARM + count):
            if place == _WARM:
                before = resident(server.pid)
            call = follow(pb.StreamHistoryRequest(thread_id=f"idle-{place}", follow=True), timeout=60)
            assert next(call).caught_up
            calls.append(call)
        return (resident(server.pid) - before) / count
