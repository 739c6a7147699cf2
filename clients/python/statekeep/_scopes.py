"""Which memory scope a program is in: the process's, a running flow's, or none."""

from contextvars import ContextVar
from dataclasses import dataclass

from statekeep.errors import ContextError, StateError
from statekeep.records import ScopeType


@dataclass(frozen=True, slots=True)
class Scope:
    """A memory scope."""

    name: str
    type: ScopeType


@dataclass(frozen=True, slots=True)
class Running:
    """A flow that runs: with the scope configured for it, and the flow it runs inside of."""

    name: str
    flow_id: str | None
    execution_id: str | None
    scope: Scope | None
    outer: "Running | None"

    @property
    def id(self) -> str:
        """What tells it from other flows: its id, or without one its name."""
        return self.flow_id or self.name


class Process:
    """The process's default scope. Assigning it is atomic, and so needs no lock."""

    scope: Scope | None = None


# Context variables: flows on other threads and tasks have their own.
running: ContextVar[Running | None] = ContextVar("statekeep_running_flow", default=None)
checkpoints: ContextVar[int] = ContextVar("statekeep_checkpoint_depth", default=0)


def refuse_in_checkpoint(call: str) -> None:
    """Raises ContextError inside a checkpoint."""
    if checkpoints.get():
        raise ContextError(
            f"statekeep.memory.{call}() cannot be called inside a @checkpoint: call it in the flow's own body"
        )


def current(call: str) -> Scope:
    """The scope a memory call works in.

    Raises:
        StateError: There is none: no flow runs, and the process configured none.
    """
    flow = running.get()
    if flow is not None:
        return flow.scope or Scope(flow.id, "flow")
    if Process.scope is None:
        raise StateError(
            f"statekeep.memory.{call}() outside a @flow requires an explicit scope: "
            "call statekeep.memory.configure(scope=...) first"
        )
    return Process.scope


def inferred(scope_type: ScopeType) -> str:
    """The name that a scope of that type has in the running flow.

    Raises:
        ContextError: No flow runs.
        StateError: The running flow has no execution id.
    """
    flow = running.get()
    if flow is None:
        raise ContextError(
            "statekeep.memory.configure() can only infer flow or execution scopes inside a @flow: "
            "provide an explicit scope= outside flows"
        )
    if scope_type == "flow":
        return flow.id
    if not flow.execution_id:
        raise StateError("statekeep.memory.configure(scope_type='execution') requires a flow with an execution_id")
    return flow.execution_id
