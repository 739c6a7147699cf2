"""A server in a process of its own, started and ended as an operator would."""

import json
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from os import environ
from pathlib import Path
from typing import IO

COMMAND = (sys.executable, "-m", "statekeep_server", "serve")
LOOPBACK = "127.0.0.1:0"
START_WITHIN = 30.0  # seconds


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment without what would set the server up."""
    return {name: value for name, value in environ.items() if not name.startswith("STATEKEEP_")} | dict(extra or {})


def run_to_its_end(
    *flags: str, extra: Mapping[str, str] | None = None, within: float = START_WITHIN
) -> subprocess.CompletedProcess[str]:
    """Run `statekeep serve` that is expected to end by itself."""
    return subprocess.run(
        [*COMMAND, *flags], env=environment(extra), capture_output=True, text=True, timeout=within, check=False
    )


class ServerProcess:
    """A running server. It is ready when the object is made; `stop` ends it, whatever it does."""

    def __init__(
        self, *flags: str, listen: Sequence[str] = (LOOPBACK,), extra: Mapping[str, str] | None = None
    ) -> None:
        self.store = flags[flags.index("--store") + 1] if "--store" in flags else "memory:"
        addresses = [part for address in listen for part in ("--listen", address)]
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed by stop)
        self.process = subprocess.Popen(
            [*COMMAND, *addresses, *flags],
            env=environment(extra),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
        )
        try:
            self.ready_line: str = self._first_line()
            self.ready = json.loads(self.ready_line)
            self.addresses: list[str] = self.ready["listen"]
        except BaseException:
            self.stop()
            raise

    @property
    def address(self) -> str:
        """The first address."""
        return self.addresses[0]

    @property
    def stderr(self) -> str:
        """What the server has written to stderr so far."""
        self._stderr.seek(0)
        return self._stderr.read().decode(errors="replace")

    def rss(self) -> int:
        """Return the resident memory in bytes."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("the server is gone")

    def fds(self) -> int:
        """Return how many file descriptors are open."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def wait(self, within: float) -> int:
        """Wait for the end, and return the exit code."""
        return self.process.wait(within)

    def stop(self) -> None:
        """End the server, by force where it does not go."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)
        if self.process.stdout:
            self.process.stdout.close()
        self._stderr.close()

    def _first_line(self) -> str:
        assert self.process.stdout
        readable, _, _ = select.select([self.process.stdout], [], [], START_WITHIN)
        line = self.process.stdout.readline().decode() if readable else ""
        if not line:
            self.process.kill()
            self.process.wait(10)
            raise AssertionError(f"the server did not come up: {self.stderr}")
        return line
