"""The rules of Scratch: values under keys, for as long as an instance lives. They are kept in this process only.

Each public method is one RPC, `(request, call)` to its answer. All of them are safe from many threads at once.
"""

from collections.abc import Sequence
from secrets import token_hex
from threading import Lock

from statekeep.v1 import scratch_pb2 as pb

from statekeep_server.core import clock, values
from statekeep_server.core.errors import Reason, StatekeepError, limit_reached
from statekeep_server.core.identifiers import WHITE_SPACE, identifier, scratch_key
from statekeep_server.core.journal import Call, Limits
from statekeep_server.core.room import check_memory
from statekeep_server.core.sizes import check_record

DEFAULT_IDLE_TTL = 3600.0  # seconds

_INSTANCE, _VALUE = 300, 120  # bytes that one takes in memory besides keys and values, about


class Instance:
    """One instance's values, as bytes of the message Value, and when it ends if it is not used."""

    __slots__ = ("_key_bytes", "attached", "ends", "id", "idle_ttl", "size", "values")

    def __init__(self, id: str, idle_ttl: int) -> None:  # noqa: A002 (the field's name in the contract)
        self.id = id
        self.values: dict[str, bytes] = {}
        self.idle_ttl = idle_ttl
        """Microseconds, 0 for never."""
        self.ends = 0
        """Microseconds since 1970, 0 for never."""
        self.attached = False
        self.size = 0
        """Bytes of the keys and values."""
        self._key_bytes = 0

    def put(self, key: str, value: bytes, limits: Limits) -> None:
        """Keep a value. Refused where the list of all keys would not fit a message any more."""
        if key not in self.values:
            size = self._key_bytes + _listed(key)
            if size > limits.record:
                raise StatekeepError(
                    Reason.LIMIT_REACHED,
                    "The keys would be {size} bytes, and the limit of {limit} is {max}; clear some first",
                    size=size,
                    limit="key bytes of an instance",
                    max=limits.record,
                )
            self._key_bytes = size
        self.size += self.growth(key, value)
        self.values[key] = value

    def growth(self, key: str, value: bytes) -> int:
        """Return how many bytes more it would be with a value."""
        before = self.values.get(key)
        return len(value) + len(key.encode()) if before is None else len(value) - len(before)

    def clear(self, key: str = "") -> list[str]:
        """Remove one key, or every key, and return what was removed, sorted."""
        if key:
            value = self.values.pop(key, None)
            if value is None:
                return []
            self._key_bytes -= _listed(key)
            self.size -= len(key.encode()) + len(value)
            return [key]
        cleared = sorted(self.values)
        self.values = {}
        self._key_bytes = self.size = 0
        return cleared


class Scratch:
    """All instances of a server.

    `idle_ttl` is in seconds, 0 for never: how long an instance lives unused where its Open says nothing.
    """

    def __init__(self, idle_ttl: float = DEFAULT_IDLE_TTL) -> None:
        self._idle_ttl = round(idle_ttl * clock.MICROS)
        self._instances: dict[str, Instance] = {}
        self._lock = Lock()
        self.size = 0
        """Bytes of all keys and values."""
        self.values = 0
        """How many values there are."""

    def __len__(self) -> int:
        """Return how many instances there are, those among them that have ended unused and are not swept yet."""
        return len(self._instances)

    @property
    def held(self) -> int:
        """Bytes that all of it takes in memory, about."""
        return self.size + _VALUE * self.values + _INSTANCE * len(self._instances)

    def open(self, request: pb.ScratchOpenRequest, call: Call) -> bytes:
        """Begin an instance, or empty it."""
        instance_id = identifier(request.instance_id, "instance_id") if request.instance_id else token_hex(16)
        idle_ttl = self._idle_ttl
        if request.HasField("idle_ttl"):
            idle_ttl = clock.expiry(request.idle_ttl, call.now, "idle_ttl") - call.now
        with self._lock:
            instance = self._begin(instance_id, call)
            cleared = self._clear(instance)
            instance.idle_ttl = idle_ttl
            self._use(instance, call.now)
            answer = pb.ScratchOpenResponse(instance_id=instance_id, cleared=cleared)
            if instance.ends:
                clock.stamp(answer.expire_time, instance.ends)
        return answer.SerializeToString()

    def put(self, request: pb.ScratchPutRequest, call: Call) -> bytes:
        """Keep a value under a key."""
        instance_id = identifier(request.instance_id, "instance_id")
        key = scratch_key(request.key)
        values.check(request.value, "value", call.limits)
        value = request.value.SerializeToString()
        check_record(len(key.encode()) + len(value), call.limits, "value")
        with self._lock:
            known = self._find(instance_id, call.now)
            instance = known or self._begin(instance_id, call)
            try:
                self._keep(instance, key, value, call)
            except StatekeepError:
                if known is None:
                    self._end(instance)  # what is refused begins nothing
                raise
        return pb.ScratchPutResponse(key=key).SerializeToString()

    def get(self, request: pb.ScratchGetRequest, call: Call) -> bytes:
        """Read a value."""
        key = scratch_key(request.key)
        with self._lock:
            instance = self._find(request.instance_id, call.now)
            value = instance.values.get(key) if instance else None
        answer = pb.ScratchGetResponse(key=key)
        if value is not None:
            answer.value.ParseFromString(value)
        return answer.SerializeToString()

    def list(self, request: pb.ScratchListRequest, call: Call) -> bytes:
        """List the keys, sorted."""
        with self._lock:
            instance = self._find(request.instance_id, call.now)
            keys = sorted(instance.values) if instance else []
        return pb.ScratchListResponse(keys=keys).SerializeToString()

    def clear(self, request: pb.ScratchClearRequest, call: Call) -> bytes:
        """Remove one key, or all where none is named."""
        key = request.key.strip(WHITE_SPACE)
        if key:
            key = scratch_key(key)
        with self._lock:
            instance = self._find(request.instance_id, call.now)
            cleared = self._clear(instance, key) if instance else []
        return pb.ScratchClearResponse(cleared=cleared).SerializeToString()

    def close(self, request: pb.ScratchCloseRequest, call: Call) -> bytes:
        """End an instance. Where a stream is attached to it, that goes on, and attaches to nothing."""
        with self._lock:
            instance = self._find(request.instance_id, call.now)
            cleared = self._end(instance) if instance else []
        return pb.ScratchCloseResponse(cleared=cleared).SerializeToString()

    def attach(self, request: pb.ScratchAttachRequest, call: Call) -> Instance:
        """Open an instance that does not idle away, for a stream that will `detach` it."""
        instance_id = identifier(request.instance_id, "instance_id") if request.instance_id else token_hex(16)
        with self._lock:
            instance = self._begin(instance_id, call)
            if instance.attached:
                raise StatekeepError(
                    Reason.INSTANCE_ATTACHED,
                    "Instance '{instance}' is attached to another stream; end that first, or use another id",
                    instance=instance_id,
                )
            self._clear(instance)
            instance.attached = True
            instance.ends = 0
        return instance

    def detach(self, instance: Instance) -> None:
        """End an instance that was attached; one of its name that began later stays."""
        with self._lock:
            self._end(instance)

    def sweep(self, now: int) -> int:
        """Remove the instances that have ended unused, and return how many those were."""
        with self._lock:
            ended = [instance for instance in self._instances.values() if _over(instance, now)]
            for instance in ended:
                self._end(instance)
        return len(ended)

    def _find(self, instance_id: str, now: int) -> Instance | None:
        instance = self._instances.get(identifier(instance_id, "instance_id"))
        if instance is None or _over(instance, now):
            return None
        self._use(instance, now)
        return instance

    def _begin(self, instance_id: str, call: Call) -> Instance:
        instance = self._find(instance_id, call.now)
        if instance is None:
            if ended := self._instances.get(instance_id):
                self._end(ended)
            most = call.limits.scratch_instances
            if 0 < most <= len(self._instances):
                raise limit_reached(
                    "scratch instances",
                    most,
                    "close one first, or have the server started with a higher --max-scratch-instances",
                )
            check_memory(_INSTANCE, call)
            instance = self._instances[instance_id] = Instance(instance_id, self._idle_ttl)
            self._use(instance, call.now)
        return instance

    def _check_room(self, growth: int, call: Call) -> None:
        """Refuse a value that scratch, or the memory, has no room for."""
        most = call.limits.scratch_bytes
        if 0 < most < self.size + growth:
            raise limit_reached(
                "scratch bytes", most, "clear some first, or have the server started with a higher --max-scratch-bytes"
            )
        check_memory(growth, call)

    def _keep(self, instance: Instance, key: str, value: bytes, call: Call) -> None:
        growth = instance.growth(key, value)
        if growth > 0:
            self._check_room(growth, call)
        before = len(instance.values)
        instance.put(key, value, call.limits)
        self.size += growth
        self.values += len(instance.values) - before

    def _use(self, instance: Instance, now: int) -> None:
        instance.ends = now + instance.idle_ttl if instance.idle_ttl and not instance.attached else 0

    def _end(self, instance: Instance) -> Sequence[str]:
        if self._instances.get(instance.id) is instance:
            del self._instances[instance.id]
        return self._clear(instance)

    def _clear(self, instance: Instance, key: str = "") -> Sequence[str]:
        before = instance.size
        cleared = instance.clear(key)
        self.size -= before - instance.size
        self.values -= len(cleared)
        return cleared


def _listed(key: str) -> int:
    return len(key.encode()) + 3  # tag and length


def _over(instance: Instance, now: int) -> bool:
    return 0 < instance.ends <= now
