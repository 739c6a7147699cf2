"""The Python client's followers, while the server is killed and comes back on its file: no gap, no repeat."""

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import statekeep
from server_process import ServerProcess
from statekeep import errors

StartServer = Callable[..., ServerProcess]

WRITES = 300
KILLED_AFTER = (40, 110, 200)  # records that a follower has seen
PATIENCE = 60.0  # seconds
TRIES = 100  # of one write


def write(client: statekeep.Client, number: int) -> None:
    """Append an event and set a key, each until it is answered: an event's id makes that safe."""
    for _ in range(TRIES):
        with suppress(errors.UnavailableError):
            client.state.append_next("thread", statekeep.NewEvent("step", number, id=f"e{number}"), timeout=PATIENCE)
            client.memory.set(f"k{number}", number, scope="scope", timeout=PATIENCE)
            return
    raise AssertionError(f"write {number} was never answered")


def test_a_follower_misses_and_repeats_nothing_while_its_server_is_killed(
    start_server: StartServer, tmp_path: Path
) -> None:
    server = start_server("--store", f"sqlite:{tmp_path}/state.db")
    address = server.address
    watched: list[str] = []
    with statekeep.Client(address) as client, statekeep.Client(address) as writer:
        writing = threading.Thread(target=lambda: [write(writer, number) for number in range(WRITES)])
        tail = client.state.tail("thread", retry_for=PATIENCE)
        watch = client.memory.watch(scope="scope", retry_for=PATIENCE)

        def follow_keys() -> None:
            for entry in watch:
                if entry.key not in watched[-1:]:
                    watched.append(entry.key)
                if entry.key == f"k{WRITES - 1}":
                    return

        watching = threading.Thread(target=follow_keys)
        writing.start()
        watching.start()
        seen: list[tuple[str, int]] = []
        for event in tail:
            seen.append((event.id, event.sequence))
            if len(seen) in KILLED_AFTER:
                server.process.kill()
                server.wait(10)
                server = start_server("--store", f"sqlite:{tmp_path}/state.db", listen=(address,))
            if len(seen) == WRITES:
                break
        writing.join(PATIENCE)
        watching.join(PATIENCE)
        assert not writing.is_alive()
        assert not watching.is_alive()
    assert seen == [(f"e{number}", number + 1) for number in range(WRITES)]
    assert watched == [f"k{number}" for number in range(WRITES)]
