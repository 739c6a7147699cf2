"""What the contests of the in-memory engine need: the servers, running side by side for as long as they go on."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import NamedTuple

import grpc

from bench import etcd, valkey
from bench.bare import EMPTY, STREAM
from bench.contest import Effort, Side, attempt, each_in_turn, timed
from bench.etcd import Etcd
from bench.load import Load, Prepared, Shape
from bench.process import BARE, Process, running, statekeep
from bench.valkey import Valkey
from bench.workloads import Stubs, constant_stream, empty

BOUNDED = [("grpc.service_config", '{"methodConfig": [{"name": [{}], "timeout": "60s"}]}')]  # for every call
CASTS = 5
"""How many processes of one kind have turns."""


class Cast(NamedTuple):
    """A server under load with a client, and a bare one."""

    server: Process
    stubs: Stubs
    bare: Process


class Stage(NamedTuple):
    """The servers under load; a peer that could not be started is None.

    What a stage's own floors measure, and what `load_each` does, has a turn in each cast: of the same program one
    process is faster than the next by up to a fifth, for as long as it runs.
    """

    casts: Sequence[Cast]
    etcd: Etcd | None
    valkey: Valkey | None
    effort: Effort

    @property
    def server(self) -> Process:
        """The server of the first cast."""
        return self.casts[0].server

    @property
    def stubs(self) -> Stubs:
        """The client of the first cast."""
        return self.casts[0].stubs

    def load(self, shape: Shape, method: str, prepare: Callable[[int], Prepared], units: int = 1) -> Side:
        """Return the subject: calls of Statekeep, in the first cast."""
        return Load(self.server, shape, method, prepare, units).side("Statekeep")

    def load_each(self, shape: Shape, method: str, prepare: Callable[[Stubs, int], Prepared], units: int = 1) -> Side:
        """Return the subject: calls of Statekeep, in each cast."""
        return each_in_turn(
            [
                Load(cast.server, shape, method, partial(prepare, cast.stubs), units).side("Statekeep")
                for cast in self.casts
            ]
        )

    def beside_empty(self, shape: Shape, size: int, goal: float | None = None, units: int = 1) -> list[Side]:
        """Return the floor of a unary call whose request has so many bytes."""
        name = "empty call, bare server"
        return [self._floor(name, shape, EMPTY, lambda number: empty(size), units)._replace(goal=goal)]

    def beside_constant(self, shape: Shape, sizes: list[int], units: int, goal: float | None = None) -> list[Side]:
        """Return the floor of a stream: messages of the same sizes, from a constant."""
        name = "constant stream, bare"
        return [self._floor(name, shape, STREAM, lambda number: constant_stream(sizes), units)._replace(goal=goal)]

    def _floor(self, name: str, shape: Shape, method: str, prepare: Callable[[int], Prepared], units: int) -> Side:
        return each_in_turn([Load(cast.bare, shape, method, prepare, units).side(name) for cast in self.casts])

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
        casts = [_cast(stack) for _ in range(1 if effort.quick else CASTS)]
        etcds = attempt("all rows beside etcd", lambda: stack.enter_context(etcd.running()))
        valkeys = attempt("all rows beside Valkey", lambda: stack.enter_context(valkey.running()))
        yield Stage(casts, etcds[0] if etcds else None, valkeys[0] if valkeys else None, effort)


def _cast(stack: ExitStack) -> Cast:
    server = stack.enter_context(running(statekeep()))
    channel = stack.enter_context(grpc.insecure_channel(server.address, BOUNDED))
    return Cast(server, Stubs(channel), stack.enter_context(running(BARE)))
