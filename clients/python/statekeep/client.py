"""The client of a Statekeep server, blocking and asynchronous."""

# ruff: noqa: ASYNC109 # the timeout is gRPC's own deadline, which the server sees too

from types import TracebackType
from typing import Self

import grpc

from statekeep._admin import Admin, AsyncAdmin
from statekeep._calls import Calls
from statekeep._connection import Connection, Options
from statekeep._memory import AsyncMemory, Memory
from statekeep._scratch import AsyncScratch, Scratch
from statekeep._state import AsyncState, State
from statekeep._waiting import Awaiting, Blocking, Waiting, run


class Connected:
    """What both clients are made of."""

    _waiting: Waiting

    def __init__(
        self,
        address: str | None = None,
        *,
        token: str | None = None,
        timeout: float | None = 10.0,
        wait_for_ready: bool = False,
        tls: bool | grpc.ChannelCredentials = False,
        channel: grpc.Channel | None = None,
        options: Options = (),
    ) -> None:
        """Makes a client; it connects with its first call.

        Args:
            address: ``HOST:PORT``, ``[IPv6]:PORT`` or ``unix:PATH``; UsageError otherwise. None:
                ``STATEKEEP_ADDRESS``, or ``127.0.0.1:50051``.
            token: Sent with every call as ``authorization: Bearer …``. None: ``STATEKEEP_TOKEN``, or none. It is
                trimmed; UsageError where what is left is not printable ASCII.
            timeout: Seconds that a unary call may take, retries included; None: for ever. A call's own
                ``timeout`` goes before it, where infinity is none.
            wait_for_ready: Whether a call waits for a server that is not there yet, up to its timeout. Not so
                what reads a stream: it tries again by itself, as ``retry_for`` says or a few times.
            tls: True for the system's root certificates, or ``grpc.ssl_channel_credentials(…)``.
            channel: A channel of your own in place of the address. Closing the client leaves it open. It has
                none of this client's options: lost calls are retried only where its own service config says so.
            options: Further gRPC channel options, which go before this client's.
        """
        self.connection = Connection(
            address,
            token=token,
            timeout=timeout,
            wait_for_ready=wait_for_ready,
            tls=tls,
            channel=channel,
            options=options,
        )
        self._calls = Calls(self.connection, self._waiting)


class Client(Connected):
    """A blocking client. Safe to share between threads; a context manager that closes it.

    Attributes:
        memory: Versioned values under keys.
        scratch: Values that live as long as an instance.
        state: Threads of events, checkpoints and branches.
        admin: What is kept, whole: export, import and backup; and what the server is.
        connection: The channel with its stubs, for calls of your own. They too are retried on UNAVAILABLE
            (not over a ``channel=`` of your own), and so a write needs an id of its own: see its class.
    """

    _waiting = Blocking()

    @property
    def memory(self) -> Memory:
        """Versioned values under keys."""
        return Memory(self._calls)

    @property
    def scratch(self) -> Scratch:
        """Values that live as long as an instance."""
        return Scratch(self._calls)

    @property
    def state(self) -> State:
        """Threads of events, checkpoints and branches."""
        return State(self._calls)

    @property
    def admin(self) -> Admin:
        """What is kept, whole: export and import; and what the server is."""
        return Admin(self._calls)

    def wait_until_ready(self, timeout: float | None = None) -> None:
        """Returns once the server answers. Raises DeadlineExceededError after so many seconds, or ClosedError."""
        run(self._calls.ready(timeout))

    def close(self) -> None:
        """Ends every call and stream. Closing again does nothing; a call after it raises ClosedError."""
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient(Connected):
    """An asynchronous client. One serves any number of event loops and threads at once."""

    _waiting = Awaiting()

    @property
    def memory(self) -> AsyncMemory:
        """Versioned values under keys."""
        return AsyncMemory(self._calls)

    @property
    def scratch(self) -> AsyncScratch:
        """Values that live as long as an instance."""
        return AsyncScratch(self._calls)

    @property
    def state(self) -> AsyncState:
        """Threads of events, checkpoints and branches."""
        return AsyncState(self._calls)

    @property
    def admin(self) -> AsyncAdmin:
        """What is kept, whole: export and import; and what the server is."""
        return AsyncAdmin(self._calls)

    async def wait_until_ready(self, timeout: float | None = None) -> None:
        """Returns once the server answers. Raises DeadlineExceededError after so many seconds, or ClosedError."""
        await self._calls.ready(timeout)

    async def close(self) -> None:
        """Ends every call and stream. Closing again does nothing; a call after it raises ClosedError."""
        self.connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
