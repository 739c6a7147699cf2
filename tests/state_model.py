"""A plain model of one thread of StateStore, written from the contract: what each call must answer."""

from dataclasses import dataclass, field

from statekeep.v1 import state_store_pb2 as pb

MAIN = "main"


class RefusedError(Exception):
    """The reason for which a call must be refused."""


@dataclass
class BranchModel:
    """What a branch holds, as the server answered it, in the order stored."""

    events: list[pb.Event] = field(default_factory=list)
    checkpoints: list[pb.Checkpoint] = field(default_factory=list)
    born: int = 0

    def last(self) -> int:
        return max((event.sequence for event in self.events), default=0)

    def event(self, event_id: str) -> pb.Event | None:
        return next((event for event in self.events if event.id == event_id), None)


class ThreadModel:
    """One life of a thread."""

    def __init__(self) -> None:
        self.branches: dict[str, BranchModel] = {}
        self.forks: dict[str, pb.Branch] = {}
        self.revisions: list[int] = []

    def branch(self, name: str) -> BranchModel:
        return self.branches.get(name or MAIN, BranchModel())

    def exists(self) -> bool:
        return bool(self.revisions)

    def saw(self, revision: int) -> None:
        assert not self.revisions or revision > self.revisions[-1]
        self.revisions.append(revision)

    def _begun(self, name: str, revision: int) -> BranchModel:
        branch = self.branches.setdefault(name or MAIN, BranchModel())
        branch.born = branch.born or revision
        return branch

    def known(self, sent: pb.Event, *, with_sequence: bool) -> pb.Event | None:
        """Return the stored event that this one repeats; RefusedError where it says something else."""
        stored = self.branch(sent.branch_id).event(sent.id) if sent.id else None
        if stored is None:
            return None
        if said(sent, with_sequence) != said(stored, with_sequence):
            raise RefusedError("EVENT_EXISTS")
        return stored

    def known_batch(self, sent: list[pb.Event]) -> list[pb.Event]:
        known = [self.known(event, with_sequence=False) for event in sent]
        found = [event for event in known if event is not None]
        if not found:
            return []
        numbers = [event.sequence for event in found]
        if len(found) == len(sent) and numbers == list(range(numbers[0], numbers[0] + len(found))):
            return found
        raise RefusedError("EVENT_EXISTS")

    def check_last(self, branch: str, expected: int | None) -> None:
        if expected is not None and self.branch(branch).last() != expected:
            raise RefusedError("SEQUENCE_MISMATCH")

    def store_event(self, event: pb.Event) -> None:
        self.saw(event.revision)
        branch = self._begun(event.branch_id, event.revision)
        assert branch.event(event.id) is None
        branch.events.append(event)

    def store_checkpoint(self, checkpoint: pb.Checkpoint) -> None:
        self.saw(checkpoint.revision)
        branch = self._begun(checkpoint.branch_id, checkpoint.revision)
        branch.checkpoints = [one for one in branch.checkpoints if one.id != checkpoint.id]
        branch.checkpoints.append(checkpoint)

    def check_fork(self, parent: str, event_id: str, name: str | None) -> None:
        if not self.exists():
            raise RefusedError("THREAD_NOT_FOUND")
        parent = parent or MAIN
        if parent != MAIN and parent not in self.branches and parent not in self.forks:
            raise RefusedError("BRANCH_NOT_FOUND")
        if self.branch(parent).event(event_id) is None:
            raise RefusedError("EVENT_NOT_FOUND")
        if name is not None and (name == MAIN or name in self.branches or name in self.forks):
            raise RefusedError("BRANCH_EXISTS")

    def store_fork(self, branch: pb.Branch) -> None:
        self.saw(branch.revision)
        self.forks[branch.id] = branch

    def latest(self, branch: str, at_event: str | None) -> pb.Checkpoint | None:
        held = self.branch(branch)
        bound = None
        if at_event is not None:
            event = held.event(at_event)
            if event is None:
                raise RefusedError("EVENT_NOT_FOUND")
            bound = event.sequence
        found: pb.Checkpoint | None = None
        for one in held.checkpoints:
            if (bound is None or one.sequence <= bound) and (found is None or one.sequence >= found.sequence):
                found = one
        return found

    def line(self, branch: str, ancestors: bool) -> list[pb.Event]:
        """Return the events of a branch, what it inherits first."""
        branch = branch or MAIN
        own = list(self.branch(branch).events)
        if not ancestors or branch not in self.forks:
            return own
        fork = self.forks[branch]
        inherited = self.line(fork.parent_branch_id, ancestors=True)
        upto = next(
            place
            for place, event in enumerate(inherited)
            if event.branch_id == fork.parent_branch_id and event.id == fork.from_event_id
        )
        return inherited[: upto + 1] + own

    def unforked(self) -> list[str]:
        """Return what include_unforked adds, oldest first; main is there whatever it holds."""
        others = {name: branch.born for name, branch in self.branches.items() if name not in self.forks}
        others.setdefault(MAIN, 0)
        return sorted(others, key=others.__getitem__)


def said(event: pb.Event, with_sequence: bool) -> pb.Event:
    """Return what an event says, and so what a repetition must say too."""
    copy = pb.Event()
    copy.CopyFrom(event)
    copy.branch_id = copy.branch_id or MAIN
    copy.ClearField("create_time")
    copy.ClearField("revision")
    if not with_sequence:
        copy.ClearField("sequence")
    return copy


def saved(checkpoint: pb.Checkpoint) -> pb.Checkpoint:
    """Return what a checkpoint says once its defaults are filled in."""
    copy = pb.Checkpoint()
    copy.CopyFrom(checkpoint)
    copy.branch_id = copy.branch_id or MAIN
    copy.status = copy.status or "running"
    if not copy.HasField("active"):
        copy.active.json = "[]"
    copy.ClearField("create_time")
    copy.ClearField("revision")
    return copy
