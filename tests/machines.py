"""How state machines run here: bounded, with a blob to run a failure again, and shrunk within a minute or two."""

from collections.abc import Callable

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test
from server_process import ServerProcess

# Phase.explain traces every line and runs for minutes; a shrunk list of steps says enough.
_PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)


def examples(server: ServerProcess, count: int) -> int:
    """Return how many examples to run: all of them from memory, a third where each write waits for a disk."""
    return count if server.store == "memory:" else count // 3


def run_machine(machine: Callable[[], RuleBasedStateMachine], examples: int) -> None:
    """Run a state machine's rules in any order, `examples` times."""
    how = settings(
        max_examples=examples,
        stateful_step_count=40,
        deadline=None,
        print_blob=True,
        phases=_PHASES,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=how)  # type: ignore[no-untyped-call]
