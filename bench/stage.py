"""What the contests of the in-memory engine need: the servers, running side by side for as long as they go on."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import grpc

from bench import etcd, valkey
from bench.bare import EMPTY, STREAM
from bench.contest import Effort, Side, attempt, timed
from bench.etcd import Etcd
from bench.load import Load, Prepared, Shape
from bench.process import BARE, Process, running, statekeep
from bench.valkey import Valkey
from bench.workloads import Stubs, constant_stream, empty

BOUNDED = [("grpc.service_config", '{"methodConfig": [{"name": [{}], "timeout": "60s"}]}')]  # for every call


class Stage(NamedTuple):
    """The servers under load, with a client; a peer that could not be started is None."""

    server: Process
    stubs: Stubs
    bare: Process
    etcd: Etcd | None
    valkey: Valkey | None
    effort: Effort

    def load(self, shape: Shape, method: str, prepare: Callable[[int], Prepared], units: int = 1) -> Side:
        """Return the subject: calls of Statekeep."""
        return Load(self.server, shape, method, prepare, units).side("Statekeep")

    def beside_empty(self, shape: Shape, size: int, goal: float | None = None, units: int = 1) -> list[Side]:
        """Return the floor of a unary call whose request has so many bytes."""
        return [Load(self.bare, shape, EMPTY, lambda number: empty(size), units).side("empty call, bare server", goal)]

    def beside_constant(self, shape: Shape, sizes: list[int], units: int, goal: float | None = None) -> list[Side]:
        """Return the floor of a stream: messages of the same sizes, from a constant."""
        floor = Load(self.bare, shape, STREAM, lambda number: constant_stream(sizes), units)
        return [floor.side("constant stream, bare", goal)]

    def beside_etcd(
        self,
        name: str,
        shape: Shape,
        method: str,
        make: Callable[[Etcd], Callable[[int], Prepared]],
        units: int = 1,
        goal: float | None = None,
    ) -> list[Side]:
        """Return calls of etcd, where it runs. `make` puts there what they need, and returns what prepares a turn."""
        if not (peer := self.etcd):
            return []
        return attempt(f"beside {name}", lambda: Load(peer.process, shape, method, make(peer), units).side(name, goal))

    def beside_valkey(
        self, name: str, make: Callable[[Valkey], Callable[[], int]], goal: float | None = None
    ) -> list[Side]:
        """Return commands of Valkey, where it runs. `make` puts there what they need, and returns what sends them."""
        if not (peer := self.valkey):
            return []
        return attempt(f"beside {name}", lambda: timed(name, make(peer), goal))


@contextmanager
def opened(effort: Effort) -> Iterator[Stage]:
    """Start everything, and end it with the block. A peer that does not start is left out, and said."""
    with ExitStack() as stack:
        server = stack.enter_context(running(statekeep()))
        channel = stack.enter_context(grpc.insecure_channel(server.address, BOUNDED))
        bare = stack.enter_context(running(BARE))
        etcds = attempt("all rows beside etcd", lambda: stack.enter_context(etcd.running()))
        valkeys = attempt("all rows beside Valkey", lambda: stack.enter_context(valkey.running()))
        yield Stage(server, Stubs(channel), bare, etcds[0] if etcds else None, valkeys[0] if valkeys else None, effort)
