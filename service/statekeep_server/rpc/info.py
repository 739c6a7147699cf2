"""Admin.GetInfo: what a client can know of a server before it relies on it."""

import time
from collections.abc import Iterable
from dataclasses import asdict
from importlib.metadata import version

from google.protobuf.message import Message
from statekeep.v1 import admin_pb2 as pb

from statekeep_server.core import clock
from statekeep_server.core.journal import Limits
from statekeep_server.engines import Engine


class Info:
    """Admin.GetInfo. `capabilities` are those that the server's settings give it; the engine's own are added."""

    def __init__(self, engine: Engine, limits: Limits, capabilities: Iterable[str] = ()) -> None:
        self._began = time.monotonic()
        self._known = pb.AdminGetInfoResponse(
            version=version("statekeep"),
            engine=engine.name,
            limits=[pb.InfoLimit(name=name, value=value) for name, value in sorted(asdict(limits).items())],
            capabilities=sorted({*capabilities, *(["durable"] if engine.durable else [])}),
        )
        clock.stamp(self._known.start_time, time.time_ns() // 1000)

    async def get(self, request: Message) -> bytes:
        """Answer with all there is to know."""
        answer = pb.AdminGetInfoResponse()
        answer.CopyFrom(self._known)
        answer.uptime.FromNanoseconds(round((time.monotonic() - self._began) * 1e9))
        return answer.SerializeToString()
