"""Who may call what: one table says for every RPC which right it needs, and what it touches.

Where no token is configured, none of this runs. A token that is not in force is UNAUTHENTICATED, one that may not is
PERMISSION_DENIED, whatever is there or not.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple, TypeAlias

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from statekeep_server.config import Settings
from statekeep_server.core.errors import Reason, StatekeepError
from statekeep_server.core.identifiers import identifier, scope_name
from statekeep_server.tokens import Right, Token, Tokens

log = logging.getLogger(__name__)

LOOK_EVERY = 1.0  # seconds between two looks at the token file

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Touch = Callable[[Token, Any], None]
"""Raises PERMISSION_DENIED where a request touches what a token may not. Names are compared as the rules take them."""

_LISTED: ContextVar[str] = ContextVar("listed", default="")


class Need(NamedTuple):
    """What a call needs."""

    right: Right
    touch: Touch | None = None
    """Looked at with each request; None where it touches nothing that has a name."""
    everywhere: bool = False
    """Only a token without prefixes will do."""


def within(asked: str) -> str | None:
    """Return the prefix of what a listing may show: the one that was asked for, or the caller's where that is longer.

    None where the two share nothing.
    """
    allowed = _LISTED.get()
    if asked.startswith(allowed):
        return asked
    return allowed if allowed.startswith(asked) else None


# --- what a request touches


def _scope(token: Token, request: Any) -> None:
    _check_scope(token, request.scope, "scope")


def _scopes(token: Token, request: Any) -> None:
    for place, one in enumerate(request.sets):
        _check_scope(token, one.scope, f"sets[{place}].scope")


def _listed_scopes(token: Token, request: Any) -> None:
    _LISTED.set(_prefix(token, "scopes"))


def _thread(token: Token, request: Any) -> None:
    _check_thread(token, request.thread_id, "thread_id")


def _event_thread(token: Token, request: Any) -> None:
    _check_thread(token, request.event.thread_id, "event.thread_id")


def _checkpoint_thread(token: Token, request: Any) -> None:
    _check_thread(token, request.checkpoint.thread_id, "checkpoint.thread_id")


def _listed_threads(token: Token, request: Any) -> None:
    _LISTED.set(_prefix(token, "threads"))


def _instance(token: Token, request: Any) -> None:
    if prefix := _prefix(token, "instances", "instance_id"):
        _check(token, "instances", prefix, identifier(request.instance_id, "instance_id"), "instance_id")


def _new_instance(token: Token, request: Any) -> None:
    prefix = _prefix(token, "instances", "instance_id")
    if prefix and not request.instance_id:
        # The id that the server would make up begins as the token wants it.
        request.instance_id = prefix + token_hex(16)
    elif prefix:
        _instance(token, request)


def _selection(token: Token, request: Any) -> None:
    selection = request.WhichOneof("selection")
    if selection == "thread_id":
        _thread(token, request)
    elif selection == "scope":
        _scope(token, request)
    elif request.all:
        _check_everywhere(token)


NEEDS = {
    "statekeep.v1.Memory": {
        "Set": Need(Right.WRITE, _scope),
        "BatchSet": Need(Right.WRITE, _scopes),
        "Get": Need(Right.READ, _scope),
        "BatchGet": Need(Right.READ, _scope),
        "List": Need(Right.READ, _scope),
        "History": Need(Right.READ, _scope),
        "Delete": Need(Right.WRITE, _scope),
        "Purge": Need(Right.WRITE, _scope),
        "ListPurges": Need(Right.READ, _scope),
        "ListScopes": Need(Right.READ, _listed_scopes),
        "Watch": Need(Right.READ, _scope),
    },
    "statekeep.v1.Scratch": {
        "Open": Need(Right.WRITE, _new_instance),
        "Put": Need(Right.WRITE, _instance),
        "Get": Need(Right.READ, _instance),
        "List": Need(Right.READ, _instance),
        "Clear": Need(Right.WRITE, _instance),
        "Close": Need(Right.WRITE, _instance),
        "Attach": Need(Right.WRITE, _new_instance),
    },
    # Events and checkpoints that come with a thread of their own are refused by the rules where it is another one.
    "statekeep.v1.StateStore": {
        "AppendEvent": Need(Right.WRITE, _event_thread),
        "AppendNextEvent": Need(Right.WRITE, _event_thread),
        "AppendEvents": Need(Right.WRITE, _thread),
        "SaveCheckpoint": Need(Right.WRITE, _checkpoint_thread),
        "GetHistory": Need(Right.READ, _thread),
        "StreamHistory": Need(Right.READ, _thread),
        "LatestCheckpoint": Need(Right.READ, _thread),
        "ListCheckpoints": Need(Right.READ, _thread),
        "Fork": Need(Right.WRITE, _thread),
        "ListBranches": Need(Right.READ, _thread),
        "ListThreads": Need(Right.READ, _listed_threads),
        "DeleteThread": Need(Right.WRITE, _thread),
    },
    "statekeep.v1.Admin": {
        "Export": Need(Right.READ, _selection),
        "Import": Need(Right.WRITE, everywhere=True),
        "Backup": Need(Right.WRITE, everywhere=True),
        "GetInfo": Need(Right.READ),
    },
}


class Access:
    """Tokens as calls meet them, and the streams that each holds open."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._streams: dict[Token, set[asyncio.Task[object]]] = {}

    def guard(self, method: MethodDescriptor) -> "Guard":
        """Return what guards a method; ValueError where the table does not have it, or could not hold it to it."""
        need = NEEDS.get(method.containing_service.full_name, {}).get(method.name)
        if need is None:
            raise ValueError(f"The table in rpc/access.py does not say what {method.full_name} needs")
        if method.client_streaming and need.touch:
            raise ValueError(f"{method.full_name}: what each message of a stream touches is not looked at")
        return Guard(self, need)

    def authenticate(self, context: Context) -> Token:
        """Return the token of a call; UNAUTHENTICATED where it has none that is in force."""
        given = [value for key, value in context.invocation_metadata() or () if key == "authorization"]
        if len(given) != 1:
            raise _unauthenticated("One authorization is needed, and {count} came", count=len(given))
        scheme, _, secret = str(given[0]).partition(" ")
        if scheme.lower() != "bearer":
            raise _unauthenticated("The authorization is no Bearer token")
        token = self._tokens.find(secret.strip())
        if token is None:
            raise _unauthenticated("The token is none that is in force here")
        return token

    async def hold(self, token: Token, work: Awaitable[object]) -> None:
        """Run a stream for as long as its token is in force; it ends with UNAUTHENTICATED when that is not any more."""
        task = asyncio.ensure_future(work)
        held = self._streams.setdefault(token, set())
        held.add(task)
        try:
            await task
        except asyncio.CancelledError:
            if self._streams.get(token) is held:
                raise  # the client went, or the server stops
            raise _unauthenticated("The token is not in force any more, or may do something else now") from None
        finally:
            held.discard(task)

    async def watch(self) -> None:
        """Look again and again whether the tokens changed, and end the streams of those that are gone."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            try:
                ended = await asyncio.to_thread(self._tokens.reload)
            except Exception:
                log.exception("the tokens could not be looked at; that is tried again in %s s", LOOK_EVERY)
                continue
            for token in ended:
                for task in self._streams.pop(token, ()):
                    task.cancel()


def access_of(settings: Settings) -> Access | None:
    """Return the access that the settings give; None where everyone may do all, ConfigError where the file is bad."""
    if not (settings.token_file or settings.token):
        return None
    return Access(Tokens(Path(settings.token_file) if settings.token_file else None, settings.token))


class Guard:
    """What stands before one method."""

    def __init__(self, access: Access, need: Need) -> None:
        self._access = access
        self._need = need
        self.hold = access.hold

    def admit(self, context: Context) -> Token:
        """Return the token of a call that may go on, as far as that can be said before its request is looked at."""
        token = self._access.authenticate(context)
        if token.right is Right.READ and self._need.right is Right.WRITE:
            raise StatekeepError(
                Reason.PERMISSION_DENIED,
                "Token '{token}' may only read; this call needs the right '{right}'",
                token=token.name,
                right=Right.WRITE,
            )
        if self._need.everywhere:
            _check_everywhere(token)
        return token

    def check(self, token: Token, request: Message) -> None:
        """Refuse a request that touches what the token may not."""
        if self._need.touch:
            self._need.touch(token, request)


def _check_scope(token: Token, scope: Any, path: str) -> None:
    if prefix := _prefix(token, "scopes", f"{path}.name"):
        _check(token, "scopes", prefix, scope_name(scope.name, f"{path}.name"), f"{path}.name")


def _check_thread(token: Token, thread_id: str, path: str) -> None:
    if prefix := _prefix(token, "threads", path):
        _check(token, "threads", prefix, identifier(thread_id, path), path)


def _check(token: Token, kind: str, prefix: str, name: str, path: str) -> None:
    if not name.startswith(prefix):
        raise StatekeepError(
            Reason.PERMISSION_DENIED,
            "{field}: token '{token}' may only touch {kind} that begin with '{prefix}'",
            field=path,
            token=token.name,
            kind=kind,
            prefix=prefix,
        )


def _prefix(token: Token, kind: str, path: str = "") -> str:
    """Return what names of a kind must begin with; refused where the token may touch none of them."""
    prefix: str | None = getattr(token, kind)
    if prefix is None:
        raise StatekeepError(
            Reason.PERMISSION_DENIED, "Token '{token}' may touch no {kind}", field=path, token=token.name, kind=kind
        )
    return prefix


def _check_everywhere(token: Token) -> None:
    if not token.everywhere:
        raise StatekeepError(
            Reason.PERMISSION_DENIED,
            "Token '{token}' may touch only part of what there is, and this call touches all of it",
            token=token.name,
        )


def _unauthenticated(template: str, **parts: Any) -> StatekeepError:
    return StatekeepError(
        Reason.UNAUTHENTICATED, template + "; send the metadata authorization: Bearer TOKEN, with one that is", **parts
    )
