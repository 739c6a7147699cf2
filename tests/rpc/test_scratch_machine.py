"""Scratch against a dictionary of dictionaries, by hypothesis: any calls in any order."""

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from machines import examples, run_machine
from rpc_support import Stubs, refused, until
from server_process import ServerProcess
from statekeep.v1 import scratch_pb2 as pb
from statekeep.v1.value_pb2 import Value

INSTANCES = st.sampled_from(["one", "two"])
KEYS = st.sampled_from(["a", "a b", "é", "_compaction/x"])
BLANKS = st.sampled_from(["", " ", "\t\u3000"])
VALUES = st.one_of(
    st.builds(lambda text: Value(text=text), st.text(max_size=5)),
    st.builds(lambda data: Value(data=data), st.binary(max_size=5)),
    st.sampled_from([Value(json="null"), Value(json="1.0"), Value(json=' {"a":1e999} ')]),
)


class ScratchMachine(RuleBasedStateMachine):
    """Calls on two instances."""

    runs = 0

    def __init__(self, stubs: Stubs, name: str) -> None:
        super().__init__()
        ScratchMachine.runs += 1
        self.stub = stubs.scratch
        self.prefix = f"{name}-{ScratchMachine.runs}-"
        self.model: dict[str, dict[str, Value]] = {}
        self.attached: dict[str, Any] = {}

    def id(self, instance: str) -> str:
        return self.prefix + instance

    def keys(self, instance: str) -> list[str]:
        return sorted(self.model.get(instance, {}), key=str.encode)

    @rule(instance=INSTANCES)
    def open(self, instance: str) -> None:
        answer = self.stub.Open(pb.ScratchOpenRequest(instance_id=self.id(instance)))
        assert (answer.instance_id, list(answer.cleared)) == (self.id(instance), self.keys(instance))
        self.model[instance] = {}

    @rule(instance=INSTANCES, key=KEYS, value=VALUES, before=BLANKS, after=BLANKS)
    def put(self, instance: str, key: str, value: Value, before: str, after: str) -> None:
        request = pb.ScratchPutRequest(instance_id=self.id(instance), key=before + key + after, value=value)
        assert self.stub.Put(request).key == key
        self.model.setdefault(instance, {})[key] = value

    @rule(instance=INSTANCES, key=KEYS, before=BLANKS)
    def get(self, instance: str, key: str, before: str) -> None:
        answer = self.stub.Get(pb.ScratchGetRequest(instance_id=self.id(instance), key=before + key))
        assert answer == pb.ScratchGetResponse(key=key, value=self.model.get(instance, {}).get(key))

    @rule(instance=INSTANCES)
    def list(self, instance: str) -> None:
        answer = self.stub.List(pb.ScratchListRequest(instance_id=self.id(instance)))
        assert [*answer.keys] == self.keys(instance)

    @rule(instance=INSTANCES, key=KEYS)
    def clear(self, instance: str, key: str) -> None:
        answer = self.stub.Clear(pb.ScratchClearRequest(instance_id=self.id(instance), key=key))
        there = self.model.get(instance, {}).pop(key, None) is not None
        assert [*answer.cleared] == [key] * there

    @rule(instance=INSTANCES, key=st.one_of(st.none(), BLANKS))
    def clear_all(self, instance: str, key: str | None) -> None:
        answer = self.stub.Clear(pb.ScratchClearRequest(instance_id=self.id(instance), key=key))
        assert [*answer.cleared] == self.keys(instance)
        self.model.get(instance, {}).clear()

    @rule(instance=INSTANCES)
    @precondition(lambda self: not self.attached)
    def close(self, instance: str) -> None:
        answer = self.stub.Close(pb.ScratchCloseRequest(instance_id=self.id(instance)))
        assert [*answer.cleared] == self.keys(instance)
        self.model.pop(instance, None)

    @rule(instance=INSTANCES)
    def attach(self, instance: str) -> None:
        request = pb.ScratchAttachRequest(instance_id=self.id(instance))
        if instance in self.attached:
            refused("INSTANCE_ATTACHED", self.stub.Attach, request, instance=self.id(instance))
            return
        stream = self.stub.Attach(request, timeout=60)
        assert next(stream).instance_id == self.id(instance)
        self.attached[instance] = stream
        self.model[instance] = {}

    @rule(instance=INSTANCES)
    def detach(self, instance: str) -> None:
        stream = self.attached.pop(instance, None)
        if stream is None:
            return
        request = pb.ScratchPutRequest(instance_id=self.id(instance), key="last", value=Value(json="1"))
        self.stub.Put(request)
        stream.cancel()
        listing = pb.ScratchListRequest(instance_id=self.id(instance))
        until("the instance ended", lambda: not self.stub.List(listing).keys, within=2.0)
        self.model.pop(instance, None)

    def teardown(self) -> None:
        for stream in self.attached.values():
            stream.cancel()


@pytest.mark.timeout(300)  # where it fails, hypothesis looks for the shortest way there
def test_any_calls_in_any_order_answer_as_a_dictionary_would(stubs: Stubs, server: ServerProcess, name: str) -> None:
    run_machine(lambda: ScratchMachine(stubs, name), examples=examples(server, 80))
