"""StateStore against a model of one thread, by hypothesis: any calls in any order."""

from typing import Any

import grpc
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, multiple, rule
from machines import examples, run_machine
from rpc_support import PATIENCE, Stubs, items, refusal_of, stream_of
from server_process import ServerProcess
from state_model import MAIN, RefusedError, ThreadModel, said, saved
from statekeep.v1 import state_store_pb2 as pb
from statekeep.v1.value_pb2 import Value

EVENT_IDS = st.sampled_from(["", "", "e1", "e2", "e3", "e4", "e5"])
KNOWN_EVENT_IDS = st.sampled_from(["e1", "e2", "e3", "e4", "e5"])
BRANCHES = st.sampled_from(["", "", "main", "b1", "b2", "b3"])
DATA = st.sampled_from([None, "1", "1.0"])
EXPECTED = st.sampled_from(["none", "none", "last", "zero", "wrong"])
LABELS = st.sampled_from([{}, {"x": "1"}, {"x": "1", "y": "2"}])


class StateMachine(RuleBasedStateMachine):
    """Calls on one thread."""

    replayable: Bundle[Any] = Bundle("replayable")
    runs = 0

    def __init__(self, stubs: Stubs, name: str) -> None:
        super().__init__()
        StateMachine.runs += 1
        self.stub = stubs.state
        self.thread = f"{name}-{StateMachine.runs}"
        self.model = ThreadModel()
        self.life = 0
        self.old_revisions: list[int] = []
        self.requests = 0

    # --- calls

    def call(self, method: Any, request: Any) -> Any:
        """Return the answer, or raise RefusedError."""
        try:
            return method(request)
        except grpc.RpcError as error:
            raise RefusedError(refusal_of(error).reason) from error

    def refused_as(self, refused: RefusedError, method: Any, request: Any) -> None:
        with pytest.raises(RefusedError, match=str(refused)):
            self.call(method, request)

    def event(self, event_id: str, branch: str, data: str | None) -> pb.Event:
        event = pb.Event(id=event_id, thread_id=self.thread, branch_id=branch, type="note")
        if data is not None:
            event.data.json = data
        return event

    def expected(self, branch: str, how: str) -> int | None:
        last = self.model.branch(branch).last()
        return {"none": None, "last": last, "zero": 0, "wrong": last + 1}[how]

    def stored(self, sent: pb.Event, answer: pb.Event, sequence: int) -> None:
        assert answer.sequence == sequence
        assert answer.id
        assert answer.HasField("create_time")
        expected = said(sent, with_sequence=False)
        expected.id = expected.id or answer.id
        assert said(answer, with_sequence=False) == expected
        self.model.store_event(answer)

    @initialize(events=st.integers(0, 5), forks=st.integers(0, 2))
    def begin(self, events: int, forks: int) -> None:
        """Begin with a few events and forks, as calls in any order seldom would."""
        for number in range(1, events + 1):
            self.append_next(f"e{number}", "", None, "none")
        for number in range(1, min(forks, events) + 1):
            self.fork("", f"e{number}", f"b{number}", with_event=False, with_checkpoint=number == 2, with_id=False)

    # --- events

    @rule(event_id=EVENT_IDS, branch=BRANCHES, data=DATA, how=EXPECTED)
    def append_next(self, event_id: str, branch: str, data: str | None, how: str) -> None:
        event = self.event(event_id, branch, data)
        expected = self.expected(branch, how)
        request = pb.AppendNextEventRequest(event=event)
        if expected is not None:
            request.expected_last_sequence = expected
        try:
            known = self.model.known(event, with_sequence=False)
            if known is not None:
                assert self.call(self.stub.AppendNextEvent, request).event == known
                return
            self.model.check_last(branch, expected)
        except RefusedError as refused:
            self.refused_as(refused, self.stub.AppendNextEvent, request)
            return
        sequence = self.model.branch(branch).last() + 1
        self.stored(event, self.call(self.stub.AppendNextEvent, request).event, sequence)

    @rule(event_id=EVENT_IDS, branch=BRANCHES, data=DATA, sequence=st.integers(0, 6))
    def append_given(self, event_id: str, branch: str, data: str | None, sequence: int) -> None:
        event = self.event(event_id, branch, data)
        event.sequence = sequence
        request = pb.AppendEventRequest(event=event)
        try:
            known = self.model.known(event, with_sequence=True)
        except RefusedError as refused:
            self.refused_as(refused, self.stub.AppendEvent, request)
            return
        answer = self.call(self.stub.AppendEvent, request).event
        if known is not None:
            assert answer == known
        else:
            self.stored(event, answer, sequence)

    @rule(
        sent=st.lists(st.tuples(EVENT_IDS, DATA), min_size=1, max_size=3, unique_by=lambda one: one[0] or object()),
        branch=BRANCHES,
        how=EXPECTED,
    )
    def append_batch(self, sent: list[tuple[str, str | None]], branch: str, how: str) -> None:
        events = [self.event(event_id, branch, data) for event_id, data in sent]
        request = pb.AppendEventsRequest(thread_id=self.thread, branch_id=branch, events=events)
        expected = self.expected(branch, how)
        if expected is not None:
            request.expected_last_sequence = expected
        try:
            known = self.model.known_batch(events)
            if not known:
                self.model.check_last(branch, expected)
        except RefusedError as refused:
            self.refused_as(refused, self.stub.AppendEvents, request)
            return
        first = known[0].sequence if known else self.model.branch(branch).last() + 1
        answer = self.call(self.stub.AppendEvents, request)
        assert (answer.first_sequence, answer.last_sequence) == (first, first + len(events) - 1)
        held = self.stub.GetHistory(pb.GetHistoryRequest(thread_id=self.thread, branch_id=branch)).history.events
        by_id = {event.id: event for event in held}
        assert answer.revision == by_id[answer.ids[-1]].revision
        if known:
            assert list(answer.ids) == [event.id for event in known]
            return
        for place, (event, event_id) in enumerate(zip(events, answer.ids, strict=True)):
            self.stored(event, by_id[event_id], first + place)

    # --- checkpoints

    @rule(
        checkpoint_id=st.sampled_from(["", "c1", "c2", "c3"]),
        branch=BRANCHES,
        sequence=st.integers(0, 4),
        content=st.sampled_from(["{}", "[1]"]),
        status=st.sampled_from(["", "running", "done"]),
        labels=LABELS,
    )
    def save_checkpoint(
        self, checkpoint_id: str, branch: str, sequence: int, content: str, status: str, labels: dict[str, str]
    ) -> None:
        checkpoint = pb.Checkpoint(
            id=checkpoint_id,
            thread_id=self.thread,
            branch_id=branch,
            sequence=sequence,
            state=Value(json=content),
            status=status,
            labels=labels,
        )
        answer = self.call(self.stub.SaveCheckpoint, pb.SaveCheckpointRequest(checkpoint=checkpoint)).checkpoint
        held = [one for one in self.model.branch(branch).checkpoints if checkpoint_id and one.id == checkpoint_id]
        if held and saved(held[0]) == saved(checkpoint):
            assert answer == held[0]
            return
        checkpoint.id = checkpoint.id or answer.id
        assert checkpoint.id
        assert saved(answer) == saved(checkpoint)
        self.model.store_checkpoint(answer)

    @rule(branch=BRANCHES, at_event=st.one_of(st.none(), KNOWN_EVENT_IDS))
    def latest_checkpoint(self, branch: str, at_event: str | None) -> None:
        request = pb.LatestCheckpointRequest(thread_id=self.thread, branch_id=branch, at_event_id=at_event)
        try:
            expected = self.model.latest(branch, at_event)
        except RefusedError as refused:
            self.refused_as(refused, self.stub.LatestCheckpoint, request)
            return
        assert self.call(self.stub.LatestCheckpoint, request) == pb.LatestCheckpointResponse(checkpoint=expected)

    @rule(branch=BRANCHES, labels=LABELS, size=st.sampled_from([0, 1, 2]))
    def list_checkpoints(self, branch: str, labels: dict[str, str], size: int) -> None:
        request = pb.ListCheckpointsRequest(thread_id=self.thread, branch_id=branch, labels=labels, page_size=size)
        held = [one for one in self.model.branch(branch).checkpoints if labels.items() <= dict(one.labels).items()]
        assert items(self.stub.ListCheckpoints, request, "checkpoints") == held[::-1]

    # --- branches

    @rule(
        target=replayable,
        parent=BRANCHES,
        event_id=KNOWN_EVENT_IDS,
        name=st.sampled_from([None, "main", "b1", "b2", "b3"]),
        with_event=st.booleans(),
        with_checkpoint=st.booleans(),
        with_id=st.booleans(),
    )
    def fork(
        self, parent: str, event_id: str, name: str | None, with_event: bool, with_checkpoint: bool, with_id: bool
    ) -> Any:
        self.requests += 1
        request = pb.ForkRequest(
            thread_id=self.thread,
            branch_id=parent,
            from_event_id=event_id,
            name=name,
            request_id=f"r{self.requests}" if with_id else "",
        )
        if with_event:
            request.event.CopyFrom(pb.Event(id="e1", type="forked"))
        if with_checkpoint:
            request.checkpoint.CopyFrom(pb.Checkpoint(id="c1", state=Value(json="1")))
        try:
            self.model.check_fork(parent, event_id, name)
        except RefusedError as refused:
            self.refused_as(refused, self.stub.Fork, request)
            return multiple()
        answer = self.call(self.stub.Fork, request)
        branch = answer.branch
        assert (branch.parent_branch_id, branch.from_event_id) == (parent or MAIN, event_id)
        assert branch.id == name or (name is None and branch.id not in self.model.branches)
        self.model.store_fork(branch)
        assert (answer.HasField("checkpoint"), answer.HasField("event")) == (with_checkpoint, with_event)
        if with_checkpoint:
            self.model.store_checkpoint(answer.checkpoint)
        if with_event:
            assert answer.event.sequence == 1
            self.model.store_event(answer.event)
        return (self.life, request, answer) if with_id else multiple()

    @rule(forked=replayable)
    def fork_again(self, forked: Any) -> None:
        life, request, answer = forked
        if life == self.life:
            assert self.call(self.stub.Fork, request) == answer
            other = pb.ForkRequest()
            other.CopyFrom(request)
            other.name = "unlike"
            self.refused_as(RefusedError("REQUEST_ID_REUSED"), self.stub.Fork, other)

    @rule(size=st.sampled_from([0, 1, 2]))
    def list_branches(self, size: int) -> None:
        request = pb.ListBranchesRequest(thread_id=self.thread, page_size=size)
        assert items(self.stub.ListBranches, request, "branches") == list(self.model.forks.values())

    @rule(size=st.sampled_from([0, 1, 2]))
    def list_all_branches(self, size: int) -> None:
        request = pb.ListBranchesRequest(thread_id=self.thread, page_size=size, include_unforked=True)
        found = items(self.stub.ListBranches, request, "branches")
        forked = [branch for branch in found if branch.from_event_id]
        assert forked == list(self.model.forks.values())
        others = [branch.id for branch in found if not branch.from_event_id]
        assert others == (self.model.unforked() if self.model.exists() else [])
        assert [branch.revision for branch in found] == sorted(branch.revision for branch in found)

    # --- reading

    @rule(branch=BRANCHES)
    def get_history(self, branch: str) -> None:
        answer = self.stub.GetHistory(pb.GetHistoryRequest(thread_id=self.thread, branch_id=branch))
        held = self.model.branch(branch)
        assert answer.history == pb.History(
            thread_id=self.thread, branch_id=branch or MAIN, events=held.events, checkpoints=held.checkpoints
        )

    @rule(
        branch=BRANCHES,
        ancestors=st.booleans(),
        checkpoints=st.booleans(),
        place=st.one_of(st.none(), st.floats(0, 1)),
        reach=st.sampled_from(["all", "one", "one less", "as many", "one more"]),
    )
    def stream(self, branch: str, ancestors: bool, checkpoints: bool, place: float | None, reach: str) -> None:
        known = self.model.revisions
        after = known[int(place * (len(known) - 1))] if known and place is not None else 0
        line = [event for event in self.model.line(branch, ancestors) if event.revision > after]
        count = len(line)
        limit = {"all": 0, "one": 1, "one less": max(0, count - 1), "as many": count, "one more": count + 1}[reach]
        request = stream_of(
            self.thread,
            branch_id=branch,
            include_ancestors=ancestors,
            include_checkpoints=checkpoints,
            after_revision=after,
            limit=limit,
        )
        messages = list(self.stub.StreamHistory(request, timeout=PATIENCE))
        cut_short = 0 < limit < len(line)
        assert [event for message in messages for event in message.events] == line[: limit or None]
        assert [message.caught_up for message in messages].count(True) == int(not cut_short)
        found = [one for message in messages for one in message.checkpoints]
        held = [one for one in self.model.branch(branch).checkpoints if checkpoints and one.revision > after]
        upto = messages[-1].revision
        assert found == [one for one in held if one.revision <= upto]
        if cut_short:
            rest = stream_of(
                self.thread,
                branch_id=branch,
                include_ancestors=ancestors,
                include_checkpoints=checkpoints,
                after_revision=upto,
            )
            messages += list(self.stub.StreamHistory(rest, timeout=PATIENCE))
            assert [event for message in messages for event in message.events] == line
            assert [one for message in messages for one in message.checkpoints] == held

    @rule(branch=BRANCHES, ancestors=st.booleans(), last=st.integers(1, 6))
    def stream_last(self, branch: str, ancestors: bool, last: int) -> None:
        request = stream_of(self.thread, branch_id=branch, include_ancestors=ancestors, last=last)
        messages = list(self.stub.StreamHistory(request, timeout=PATIENCE))
        line = self.model.line(branch, ancestors)
        assert [event for message in messages for event in message.events] == line[-last:]
        assert [message.caught_up for message in messages].count(True) == 1

    # --- the thread

    @rule()
    def list_threads(self) -> None:
        threads = items(self.stub.ListThreads, pb.ListThreadsRequest(prefix=self.thread), "threads")
        threads = [thread for thread in threads if thread.id == self.thread]
        if not self.model.exists():
            assert threads == []
            return
        held = self.model.branches.values()
        assert [(one.event_count, one.checkpoint_count, one.branch_count) for one in threads] == [
            (
                sum(len(branch.events) for branch in held),
                sum(len(branch.checkpoints) for branch in held),
                len(self.model.forks),
            )
        ]

    @rule(sure=st.integers(0, 3))
    def delete_thread(self, sure: int) -> None:
        if sure:
            return
        answer = self.stub.DeleteThread(pb.DeleteThreadRequest(thread_id=self.thread))
        held = self.model.branches.values()
        assert answer.events_deleted == sum(len(branch.events) for branch in held)
        assert answer.checkpoints_deleted == sum(len(branch.checkpoints) for branch in held)
        self.old_revisions += self.model.revisions
        self.model = ThreadModel()
        self.life += 1

    @rule(place=st.floats(0, 1))
    def stream_from_an_earlier_life(self, place: float) -> None:
        if self.old_revisions:
            after = self.old_revisions[int(place * (len(self.old_revisions) - 1))]
            stream = self.stub.StreamHistory(stream_of(self.thread, after_revision=after), timeout=PATIENCE)
            with pytest.raises(grpc.RpcError) as caught:
                next(stream)
            assert refusal_of(caught.value).reason == "REVISION_GONE"


@pytest.mark.timeout(300)  # where it fails, hypothesis looks for the shortest way there
def test_any_calls_in_any_order_answer_as_the_model_says(stubs: Stubs, server: ServerProcess, name: str) -> None:
    run_machine(lambda: StateMachine(stubs, name), examples=examples(server, 150))
