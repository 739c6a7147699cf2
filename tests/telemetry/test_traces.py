"""A span for each call, under the caller's where it has one; and nothing of it where it is not asked for."""

import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind
from rpc_support import PATIENCE, Stubs, connected, key_of, next_of, refused, set_of, stream_of, until, until_caught_up
from server_process import COMMAND, ServerProcess, environment, run_to_its_end
from statekeep.v1 import scratch_pb2 as scratch
from statekeep_server.engines.memory import MemoryEngine
from statekeep_server.telemetry.traces import Traces

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.fixture
def spans() -> InMemorySpanExporter:
    """Give where the spans go."""
    return InMemorySpanExporter()


@pytest.fixture
def stubs(serve: Callable[..., str], spans: InMemorySpanExporter) -> Iterator[Stubs]:
    """Give the services of a server with traces."""
    traces = Traces(SimpleSpanProcessor(spans))
    with connected(serve(wrap=traces.wrap)) as stubs:
        yield stubs


def finished(spans: InMemorySpanExporter, count: int) -> list[ReadableSpan]:
    """Wait for so many spans, and return them: a client has its answer before the span ends."""
    until(f"{count} spans", lambda: len(spans.get_finished_spans()) >= count)
    return list(spans.get_finished_spans())


def test_each_call_is_a_span_named_after_its_method(stubs: Stubs, spans: InMemorySpanExporter) -> None:
    stubs.memory.Set(set_of("s", "k"))
    (span,) = finished(spans, 1)
    assert (span.name, span.kind, span.parent) == ("statekeep.v1.Memory/Set", SpanKind.SERVER, None)
    assert dict(span.attributes or {}) == {
        "rpc.system": "grpc",
        "rpc.service": "statekeep.v1.Memory",
        "rpc.method": "Set",
        "rpc.grpc.status_code": 0,
    }
    assert span.resource.attributes["service.name"] == "statekeep"
    assert span.end_time
    assert span.start_time
    assert span.end_time > span.start_time


def test_the_span_is_a_child_of_the_callers(stubs: Stubs, spans: InMemorySpanExporter) -> None:
    stubs.memory.Get(key_of("s", "k"), metadata=[("traceparent", f"00-{TRACE}-{PARENT}-01")])
    (span,) = finished(spans, 1)
    assert span.parent
    assert span.context
    assert f"{span.context.trace_id:032x}" == TRACE
    assert f"{span.parent.span_id:016x}" == PARENT


@pytest.mark.parametrize("given", ["", "00-0-0-00", f"00-{'0' * 32}-{'0' * 16}-01"])
def test_a_traceparent_that_is_none_begins_a_new_trace(stubs: Stubs, spans: InMemorySpanExporter, given: str) -> None:
    stubs.memory.Get(key_of("s", "k"), metadata=[("traceparent", given)])
    (span,) = finished(spans, 1)
    assert span.parent is None


def test_a_refused_calls_span_has_its_status_and_reason_and_is_no_error_of_the_server(
    stubs: Stubs, spans: InMemorySpanExporter
) -> None:
    refused("VERSION_MISMATCH", stubs.memory.Set, set_of("s", "k", expected_version=5))
    (span,) = finished(spans, 1)
    attributes = span.attributes or {}
    assert attributes["rpc.grpc.status_code"] == grpc.StatusCode.ABORTED.value[0]
    assert attributes["error.type"] == "VERSION_MISMATCH"
    assert span.status.is_unset
    assert not span.events


def test_a_fault_of_the_server_is_an_error(serve: Callable[..., str], spans: InMemorySpanExporter) -> None:
    class Faulty(MemoryEngine):
        async def read(self, partition: str, query: Any) -> Any:
            raise ValueError("inner workings")

    traces = Traces(SimpleSpanProcessor(spans))
    with connected(serve(Faulty(), wrap=traces.wrap)) as stubs, pytest.raises(grpc.RpcError):
        stubs.memory.Get(key_of("s", "k"))
    (span,) = finished(spans, 1)
    assert not span.status.is_ok
    assert not span.status.is_unset
    assert (span.attributes or {})["rpc.grpc.status_code"] == grpc.StatusCode.INTERNAL.value[0]


def test_a_stream_is_one_span_that_ends_with_it(stubs: Stubs, spans: InMemorySpanExporter) -> None:
    stubs.state.AppendNextEvent(next_of("t"))
    follower = stubs.state.StreamHistory(stream_of("t", follow=True), timeout=PATIENCE)
    until_caught_up(follower)
    attached = stubs.scratch.Attach(scratch.ScratchAttachRequest(), timeout=PATIENCE)
    next(attached)
    assert [span.name for span in finished(spans, 1)] == ["statekeep.v1.StateStore/AppendNextEvent"]
    follower.cancel()
    attached.cancel()
    ended = finished(spans, 3)[1:]
    assert {span.name for span in ended} == {"statekeep.v1.StateStore/StreamHistory", "statekeep.v1.Scratch/Attach"}
    codes = {(span.attributes or {})["rpc.grpc.status_code"] for span in ended}
    assert codes == {grpc.StatusCode.CANCELLED.value[0]}


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """An OpenTelemetry collector."""

    def __init__(self) -> None:
        self.exports: SimpleQueue[Any] = SimpleQueue()

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.exports.put(request)
        return trace_service_pb2.ExportTraceServiceResponse()


@contextmanager
def collecting() -> Iterator[tuple[Collector, str]]:
    """Give a collector and its address."""
    collector = Collector()
    with ThreadPoolExecutor(2) as threads:
        server = grpc.server(threads)
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(collector, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        yield collector, f"127.0.0.1:{port}"
        server.stop(None).wait()


@pytest.mark.parametrize("how", ["flag", "environment"])
def test_spans_arrive_at_a_collector_the_last_ones_when_the_server_ends(
    start_server: Callable[..., ServerProcess], how: str
) -> None:
    with collecting() as (collector, address):
        if how == "flag":
            process = start_server("--traces", f"otlp://{address}")
        else:
            named = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{address}", "OTEL_SERVICE_NAME": "mine"}
            process = start_server("--traces", "otlp:", extra=named)
        with connected(process.address) as stubs:
            stubs.memory.Set(set_of("s", "k"))
        process.stop()
        assert process.process.returncode == 0
        export = collector.exports.get(timeout=PATIENCE)
    (resource,) = export.resource_spans
    names = {one.key: one.value.string_value for one in resource.resource.attributes}
    assert names["service.name"] == ("statekeep" if how == "flag" else "mine")
    assert [span.name for scope in resource.scope_spans for span in scope.spans] == ["statekeep.v1.Memory/Set"]


def test_a_collector_that_is_not_there_keeps_nobody_waiting(start_server: Callable[..., ServerProcess]) -> None:
    process = start_server("--traces", "otlp://127.0.0.1:1")
    with connected(process.address) as stubs:
        stubs.memory.Set(set_of("s", "k"))
        process.process.terminate()
    assert process.wait(25) == 0


@pytest.mark.parametrize("url", ["http://127.0.0.1:4317", "otlp://", "otlp://nowhere", "on"])
def test_what_is_no_place_for_traces_is_wrong_use(url: str) -> None:
    ended = run_to_its_end("--traces", url)
    assert ended.returncode == 2
    assert ended.stderr.startswith("statekeep serve: --traces: ")
    assert "HOST:PORT" in ended.stderr


def test_without_opentelemetry_the_setting_says_what_to_install() -> None:
    program = (
        "import sys\nsys.modules['opentelemetry'] = None\nfrom statekeep_server.cli import main\n"
        "sys.exit(main(['serve', '--listen', '127.0.0.1:0', '--traces', 'otlp:']))"
    )
    done = subprocess.run(
        [COMMAND[0], "-c", program], env=environment(), capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "install statekeep[otel]" in line


def test_where_it_is_off_neither_traces_nor_metrics_are_imported() -> None:
    program = "import statekeep_server.serve, sys\nprint(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run(
        [COMMAND[0], "-c", program], env=environment(), capture_output=True, text=True, timeout=PATIENCE
    )
    loaded = set(done.stdout.split())
    assert "statekeep_server" in loaded
    assert not loaded & {"opentelemetry", "prometheus_client"}
