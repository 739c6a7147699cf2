"""`statekeep serve`: from settings to a server that answers, until a signal ends it."""

import asyncio
import gc
import json
import os
import signal
import sys
from typing import TYPE_CHECKING

from statekeep_server.config import ConfigError, Settings
from statekeep_server.core.journal import Limits
from statekeep_server.engines import open_engine
from statekeep_server.machine import memory_limit
from statekeep_server.rpc.access import access_of
from statekeep_server.server import ListenError, Server
from statekeep_server.telemetry.logs import configure
from statekeep_server.tls import certificates_of

if TYPE_CHECKING:
    from statekeep_server.telemetry.endpoint import Endpoint
    from statekeep_server.telemetry.traces import Traces

_SHARE = 0.7  # of a container's memory: the rest is for Python, gRPC's buffers, and what is sent


async def serve(settings: Settings) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP, then drain.

    Raises ConfigError where certificates or tokens cannot be taken, a setting needs what is not installed, or an
    address would let anyone in, StoreError where the store cannot be used, and ListenError where an address cannot be
    had.
    """
    certificates = certificates_of(settings)
    access = access_of(settings)
    engine = open_engine(settings.store)
    try:
        traces = _traces(settings.traces)
        server = Server(
            engine,
            scratch_idle_ttl=settings.scratch_idle_ttl,
            access=access,
            certificates=certificates,
            insecure=settings.insecure,
            slow_call=settings.slow_call,
            capabilities=_capabilities(settings),
            wrap=traces.wrap if traces else None,
            limits=limits_of(settings),
            thread_ttl=settings.thread_ttl,
            sweep_every=settings.sweep_every,
        )
        addresses = [server.listen(address) for address in settings.listen]
        probed = server.listen_for_probes(settings.health_listen) if settings.health_listen else None
        endpoint = _endpoint(settings, server)
    except BaseException:
        await engine.close()
        raise
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            loop.add_signal_handler(number, stopping.set)
    await server.start()
    # What was made up to here stays for good: the collector need not look at it again.
    gc.collect()
    gc.freeze()
    # A burst of deliveries makes thousands of futures that are gone a moment later, and no garbage.
    gc.set_threshold(10_000, 20, 50)
    others = {"metrics": endpoint.address if endpoint else None, "health": probed}
    _say({"event": "ready", "listen": addresses, **{name: address for name, address in others.items() if address}})
    await stopping.wait()
    await server.stop(settings.grace)
    if endpoint:
        await endpoint.close()
    if traces:
        await traces.close()


def _capabilities(settings: Settings) -> list[str]:
    """Return what the settings turn on that a client may want to know of."""
    on = {
        "metrics": settings.metrics != "off",
        "tls": bool(settings.tls_cert),
        "tokens": bool(settings.token_file or settings.token),
        "traces": settings.traces != "off",
    }
    return [name for name, there in on.items() if there]


def _traces(url: str) -> "Traces | None":
    if url == "off":
        return None
    try:
        from statekeep_server.telemetry.traces import Traces, sending
    except ImportError as error:
        raise ConfigError(f"traces need OpenTelemetry ({error}); install statekeep[otel]") from error
    return Traces(sending(url))


def _endpoint(settings: Settings, server: Server) -> "Endpoint | None":
    if settings.metrics == "off":
        return None
    from statekeep_server.telemetry import endpoint, metrics, sources

    about = server.sources
    try:
        return endpoint.Endpoint(
            settings.metrics,
            lambda: metrics.read(about),
            lambda: sources.unready(about),
            anywhere=settings.insecure,
        )
    except endpoint.EndpointError as error:
        raise ListenError(str(error)) from error


def limits_of(settings: Settings) -> Limits:
    """Return the limits that the settings name."""
    memory = settings.max_memory if isinstance(settings.max_memory, int) else round(_SHARE * memory_limit())
    return Limits(
        record=settings.max_record,
        request=settings.max_request,
        batch=settings.max_batch,
        max_versions=settings.max_versions,
        scope_keys=settings.max_scope_keys,
        scope_versions=settings.max_scope_versions,
        thread_events=settings.max_thread_events,
        scratch_instances=settings.max_scratch_instances,
        scratch_bytes=settings.max_scratch_bytes,
        memory=memory,
        followers=settings.max_followers,
        connection_followers=settings.max_connection_followers,
        calls=settings.max_calls,
        stream_age=settings.max_stream_age,
    )


def _say(line: dict[str, object]) -> None:
    try:
        print(json.dumps(line), flush=True)
    except BrokenPipeError:
        # Nobody reads it; a server serves all the same. Without this Python complains of it when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run(settings: Settings) -> None:
    """Run `serve` on uvloop where there is one, and write the log as the settings say."""
    configure(settings.log_level, settings.log_format)
    try:
        from uvloop import new_event_loop as loop_factory
    except ImportError:
        loop_factory = asyncio.new_event_loop  # type: ignore[assignment]  # both make a loop
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(serve(settings))
