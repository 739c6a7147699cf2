"""Memory against a model of one scope, by hypothesis: any calls in any order."""

from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, multiple, rule
from machines import examples, run_machine
from memory_model import MemoryModel, RefusedError
from rpc_support import Stubs, connected, items, refusal_of, scope, until_caught_up, watch_of
from server_process import ServerProcess
from statekeep.v1 import memory_pb2 as pb
from statekeep.v1.value_pb2 import Value
from stores import STORES, serving

KEYS = st.sampled_from(["a", "a/b", "ab", "b"])
JSON = st.sampled_from(["1", "1.0", '"x"', "[]", "null"])
AT_ONCE = Duration(nanos=1_000)
"""A lifetime that is over when the next call comes."""
TTL = st.sampled_from([None, None, None, Duration(seconds=3600), AT_ONCE])
EXPECTED = st.sampled_from(["none", "none", "current", "zero", "wrong"])


class MemoryMachine(RuleBasedStateMachine):
    """Calls on one scope."""

    replayable: Bundle[Any] = Bundle("replayable")
    runs = 0

    def __init__(self, stubs: Stubs, name: str, max_versions: int = 0) -> None:
        super().__init__()
        MemoryMachine.runs += 1
        self.stub = stubs.memory
        self.name = f"{name}-{MemoryMachine.runs}"
        self.scope = scope(self.name)
        self.model = MemoryModel(max_versions)
        self.requests = 0

    def request_id(self, wanted: bool) -> str:
        self.requests += wanted
        return f"r{self.requests}" if wanted else ""

    def expected(self, key: str, how: str) -> int | None:
        current = self.model.key(key).current()
        return {"none": None, "current": current, "zero": 0, "wrong": current + 1}[how]

    def set_request(self, key: str, json: str, how: str, ttl: Duration | None) -> pb.MemorySetRequest:
        request = pb.MemorySetRequest(scope=self.scope, key=key, value=Value(json=json), ttl=ttl)
        expected = self.expected(key, how)
        if expected is not None:
            request.expected_version = expected
        return request

    def written(self, request: pb.MemorySetRequest, entry: pb.MemoryEntry) -> None:
        assert (entry.key, entry.version) == (request.key, self.model.next_version(request.key))
        assert not entry.HasField("value")
        assert entry.HasField("expire_time") == request.HasField("ttl")
        stored = pb.MemoryEntry(value=request.value)
        stored.MergeFrom(entry)
        self.model.write(stored, expired=request.ttl == AT_ONCE and request.HasField("ttl"))

    def call(self, method: Any, request: Any) -> Any:
        """Return the answer, or raise RefusedError."""
        try:
            return method(request)
        except grpc.RpcError as error:
            raise RefusedError(refusal_of(error).reason) from error

    def refused_as(self, reason: str, method: Any, request: Any) -> None:
        with pytest.raises(RefusedError, match=reason):
            self.call(method, request)

    @rule(target=replayable, key=KEYS, json=JSON, how=EXPECTED, ttl=TTL, with_id=st.booleans())
    def set(self, key: str, json: str, how: str, ttl: Duration | None, with_id: bool) -> Any:
        request = self.set_request(key, json, how, ttl)
        request.request_id = self.request_id(with_id)
        try:
            self.model.check_expected(key, self.expected(key, how))
        except RefusedError as refused:
            self.refused_as(str(refused), self.stub.Set, request)
            return multiple()
        answer = self.call(self.stub.Set, request)
        self.written(request, answer.entry)
        return (self.stub.Set, request, answer) if with_id else multiple()

    @rule(
        target=replayable,
        sets=st.lists(st.tuples(KEYS, JSON, EXPECTED, TTL), min_size=1, max_size=4, unique_by=lambda one: one[0]),
        with_id=st.booleans(),
    )
    def batch_set(self, sets: list[tuple[str, str, str, Duration | None]], with_id: bool) -> Any:
        request = pb.MemoryBatchSetRequest(
            sets=[self.set_request(*one) for one in sets], request_id=self.request_id(with_id)
        )
        try:
            for key, _, how, _ in sets:
                self.model.check_expected(key, self.expected(key, how))
        except RefusedError as refused:
            self.refused_as(str(refused), self.stub.BatchSet, request)
            return multiple()
        answer = self.call(self.stub.BatchSet, request)
        for one, entry in zip(request.sets, answer.entries, strict=True):
            self.written(one, entry)
        return (self.stub.BatchSet, request, answer) if with_id else multiple()

    @rule(target=replayable, key=KEYS, how=EXPECTED, with_id=st.booleans())
    def delete(self, key: str, how: str, with_id: bool) -> Any:
        request = pb.MemoryDeleteRequest(scope=self.scope, key=key, request_id=self.request_id(with_id))
        expected = self.expected(key, how)
        if expected is not None:
            request.expected_version = expected
        try:
            standing = self.model.delete(key, expected)
        except RefusedError as refused:
            self.refused_as(str(refused), self.stub.Delete, request)
            return multiple()
        except KeyError:
            answer = self.call(self.stub.Delete, request)
            assert answer.entry.deleted
            self.model.write(answer.entry)
        else:
            answer = self.call(self.stub.Delete, request)
            assert answer == pb.MemoryDeleteResponse(entry=standing)
        # In a scope that is not there a delete writes nothing, not even what a retry would be known by.
        return (self.stub.Delete, request, answer) if with_id and self.model.revisions else multiple()

    @rule(call=replayable)
    def replay(self, call: Any) -> None:
        method, request, answer = call
        assert self.call(method, request) == answer

    @rule(call=consumes(replayable))
    def reuse(self, call: Any) -> None:
        _, request, _ = call
        other = pb.MemoryDeleteRequest(scope=self.scope, key="unlike/any", request_id=request.request_id)
        self.refused_as("REQUEST_ID_REUSED", self.stub.Delete, other)

    @rule(key=KEYS, keep=st.integers(0, 3))
    def purge(self, key: str, keep: int) -> None:
        answer = self.stub.Purge(pb.MemoryPurgeRequest(scope=self.scope, key=key, keep=keep))
        assert (answer.versions_deleted, answer.keys_affected) == self.model.purge(key, keep, include_deleted=False)

    @rule(keep=st.integers(0, 3), include_deleted=st.booleans())
    def purge_all(self, keep: int, include_deleted: bool) -> None:
        request = pb.MemoryPurgeRequest(scope=self.scope, all_keys=True, keep=keep, include_deleted=include_deleted)
        answer = self.stub.Purge(request)
        assert (answer.versions_deleted, answer.keys_affected) == self.model.purge(None, keep, include_deleted)

    @rule(key=KEYS, include_deleted=st.booleans())
    def get(self, key: str, include_deleted: bool) -> None:
        newest = self.model.key(key).newest()
        if newest is not None and newest.deleted and not include_deleted:
            newest = None
        request = pb.MemoryGetRequest(scope=self.scope, key=key, include_deleted=include_deleted)
        assert self.stub.Get(request) == pb.MemoryGetResponse(entry=newest)

    @rule(key=KEYS, version=st.integers(1, 8), include_deleted=st.booleans())
    def get_version(self, key: str, version: int, include_deleted: bool) -> None:
        found = [entry for entry in self.model.key(key).readable() if entry.version == version]
        if found and found[0].deleted and not include_deleted:
            found = []
        request = pb.MemoryGetRequest(scope=self.scope, key=key, version=version, include_deleted=include_deleted)
        assert self.stub.Get(request) == pb.MemoryGetResponse(entry=found[0] if found else None)

    @rule(keys=st.lists(KEYS, max_size=4, unique=True))
    def batch_get(self, keys: list[str]) -> None:
        answer = self.stub.BatchGet(pb.MemoryBatchGetRequest(scope=self.scope, keys=keys))
        live = {entry.key: entry for entry in self.model.listed("", include_deleted=False)}
        assert list(answer.entries) == [live[key] for key in keys if key in live]
        assert list(answer.missing_keys) == [key for key in keys if key not in live]

    @rule(
        prefix=st.sampled_from(["", "a", "a/", "b", "_"]),
        size=st.sampled_from([0, 1, 2]),
        include_deleted=st.booleans(),
        include_values=st.booleans(),
    )
    def list_keys(self, prefix: str, size: int, include_deleted: bool, include_values: bool) -> None:
        request = pb.MemoryListRequest(
            scope=self.scope,
            prefix=prefix,
            page_size=size,
            include_deleted=include_deleted,
            include_values=include_values,
        )
        expected = self.model.listed(prefix, include_deleted)
        found = items(self.stub.List, request, "entries")
        assert found == [shown(entry, include_values) for entry in expected]

    @rule(key=KEYS, oldest_first=st.booleans(), limit=st.integers(0, 3), include_values=st.booleans())
    def history(self, key: str, oldest_first: bool, limit: int, include_values: bool) -> None:
        request = pb.MemoryHistoryRequest(
            scope=self.scope, key=key, oldest_first=oldest_first, limit=limit, include_values=include_values
        )
        found = [entry for message in self.stub.History(request) for entry in message.entries]
        expected = self.model.key(key).readable()
        expected = (expected if oldest_first else expected[::-1])[: limit or None]
        assert found == [shown(entry, include_values) for entry in expected]

    @rule(size=st.sampled_from([0, 1]))
    def list_purges(self, size: int) -> None:
        found = items(self.stub.ListPurges, pb.MemoryListPurgesRequest(scope=self.scope, page_size=size), "purges")
        assert [(tuple(one.keys), one.versions_deleted, one.keys_affected, one.keep) for one in found] == [
            (keys, deleted, len(keys), keep) for keys, deleted, keep in reversed(self.model.purges)
        ]

    @rule()
    def list_scopes(self) -> None:
        scopes = items(self.stub.ListScopes, pb.MemoryListScopesRequest(page_size=1000), "scopes")
        live = len(self.model.listed("", include_deleted=False))
        assert [one.entry_count for one in scopes if one.scope == self.scope] == ([live] if live else [])

    @rule(place=st.floats(0, 1), from_start=st.booleans(), prefix=st.sampled_from(["", "a", "b"]), values=st.booleans())
    def watch(self, place: float, from_start: bool, prefix: str, values: bool) -> None:
        known = self.model.revisions
        after = 0 if from_start or not known else known[int(place * (len(known) - 1))]
        request = watch_of(self.name, after_revision=after, prefix=prefix, include_values=values)
        stream = self.stub.Watch(request, timeout=20)
        if 0 < after <= self.model.valid_after:
            with pytest.raises(grpc.RpcError) as caught:
                next(stream)
            assert refusal_of(caught.value).reason == "REVISION_GONE"
            return
        messages = until_caught_up(stream)
        stream.cancel()
        found = [entry for message in messages for entry in message.entries]
        assert found == [shown(entry, values) for entry in self.model.watched(after, prefix)]
        assert messages[-1].revision >= (known[-1] if known else 0)


def shown(entry: pb.MemoryEntry, with_value: bool) -> pb.MemoryEntry:
    copy = pb.MemoryEntry()
    copy.CopyFrom(entry)
    if not with_value:
        copy.ClearField("value")
    return copy


@pytest.mark.timeout(300)  # where it fails, hypothesis looks for the shortest way there
def test_any_calls_in_any_order_answer_as_the_model_says(stubs: Stubs, server: ServerProcess, name: str) -> None:
    run_machine(lambda: MemoryMachine(stubs, name), examples=examples(server, 150))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("store", STORES)
def test_any_calls_in_any_order_answer_so_too_where_a_key_keeps_few_versions(
    store: str, tmp_path: Path, name: str
) -> None:
    with serving(store, tmp_path, "--max-versions", "2") as server, connected(server.address) as stubs:
        run_machine(lambda: MemoryMachine(stubs, name, max_versions=2), examples=examples(server, 60))
