"""The connection behind what a user of the three known interfaces may give: a client, an address, or nothing."""

from typing import TypeAlias

from statekeep._connection import Connection
from statekeep.client import AsyncClient, Client, Connected

ClientOrAddress: TypeAlias = Client | AsyncClient | str | None


class Borrowed:
    """A connection that closes with its user where it was made for it, and stays open where it was given."""

    def __init__(self, client: ClientOrAddress) -> None:
        self._owned = not isinstance(client, Connected)
        self.connection = client.connection if isinstance(client, Connected) else Connection(client)

    def close(self) -> None:
        """Closes the connection where it is the user's own."""
        if self._owned:
            self.connection.close()
