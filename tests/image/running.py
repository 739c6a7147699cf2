"""Runs the image's command as a container engine would, in namespaces of its own, on a read-only root file system."""

import json
import os
import select
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

COMMANDS = ("unshare", "nsenter", "setpriv", "chroot", "mount", "ip", "kill")
START_WITHIN = 60.0  # seconds

_UNSHARE = ["unshare", "--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child"]
# $1 is the image's files, $2 the user, then the volumes as a folder and its place, up to --; the rest is the command,
# which process 1 becomes.
_ENTER = """
root=$1 user=$2
shift 2
mount --bind "$root" "$root"
while [ "$1" != -- ]; do
  mkdir -p "$root$2"
  mount --bind "$1" "$root$2"
  shift 2
done
shift
mount -o remount,bind,ro "$root"
mount --bind /dev "$root/dev"
mount -t proc proc "$root/proc"
ip link set lo up
exec setpriv --no-new-privs chroot --userspec="$user" --groups= "$root" "$@"
"""


class Container:
    """A running container of the image, ready when it is made. `volumes` are the folders that lie at some places."""

    def __init__(
        self,
        files: Path,
        config: Mapping[str, Any],
        volumes: Mapping[str, Path],
        environment: Mapping[str, str],
        *arguments: str,
    ) -> None:
        self._config = config
        self._environment = environment
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed by stop)
        command = self._within([*config["Entrypoint"], *(arguments or config["Cmd"])])
        mounts = [part for place, folder in volumes.items() for part in (str(folder), place)]
        self._unshare = subprocess.Popen(
            [*_UNSHARE, "sh", "-euc", _ENTER, "sh", str(files), config["User"], *mounts, "--", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
        )
        try:
            self.ready: dict[str, Any] = json.loads(self._first_line())
            (self.pid,) = self._children()
        except BaseException:
            self.stop()
            raise

    def status(self, name: str) -> str:
        """Return a line of the status that the kernel tells of process 1."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith(f"{name}:"))

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run one more command in the container, as its user."""
        user, _, group = self._config["User"].partition(":")
        enter = ["nsenter", f"--target={self.pid}", "--mount", "--pid", "--net", "--ipc", "--uts", "--root"]
        return subprocess.run(
            [*enter, f"--setuid={user}", f"--setgid={group}", *self._within(command)],
            capture_output=True,
            text=True,
            timeout=START_WITHIN,
            check=False,
        )

    def terminate(self) -> int:
        """Send the signal of the image that stops it, and return the exit code."""
        subprocess.run(["kill", f"-{self._config['StopSignal']}", str(self.pid)], check=True)
        return self._unshare.wait(START_WITHIN)

    def stop(self) -> None:
        """End it by force, if it is there still."""
        self._kill()
        if self._unshare.stdout:
            self._unshare.stdout.close()
        self._stderr.close()

    def _kill(self) -> None:
        if self._unshare.poll() is not None:
            return
        # Not unshare alone: its --kill-child is void once the child has become another user.
        children = self._children()
        for child in children:
            os.kill(child, signal.SIGKILL)  # process 1: the kernel kills all others with it
        if not children:
            self._unshare.kill()
        self._unshare.wait(START_WITHIN)
        assert not [child for child in children if Path(f"/proc/{child}").exists()]

    def _children(self) -> list[int]:
        """Return the processes that unshare has begun: one, process 1 of the container."""
        return [
            int(pid) for pid in Path(f"/proc/{self._unshare.pid}/task/{self._unshare.pid}/children").read_text().split()
        ]

    def _within(self, command: tuple[str, ...] | list[str]) -> list[str]:
        variables = [*self._config["Env"], *(f"{name}={value}" for name, value in self._environment.items())]
        return ["env", "-i", f"--chdir={self._config['WorkingDir']}", *variables, *command]

    def _first_line(self) -> str:
        assert self._unshare.stdout
        readable, _, _ = select.select([self._unshare.stdout], [], [], START_WITHIN)
        line = self._unshare.stdout.readline().decode() if readable else ""
        if not line:
            self._kill()
            self._stderr.seek(0)
            raise AssertionError(f"the container did not come up: {self._stderr.read().decode(errors='replace')}")
        return line
