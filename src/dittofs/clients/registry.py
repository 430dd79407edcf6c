"""Who talks to us: the clients of every adapter, when they were last heard, and when one counts as gone [CLIENT-1].

A machine without timers or locks of its own: events bring `now`, and whoever owns the locks is told by a return value
which clients are gone.  How many locks a client has is asked of the lock table, not counted a second time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dittofs.model.ids import ClientId

IDLE_SECONDS = 600.0
"""A client that has nothing and has been silent for so long is forgotten: nobody would miss it."""


class TooManyClients(Exception):
    """The adapter has as many clients as it may have; nothing was changed."""

    def __init__(self, adapter: str, limit: int):
        super().__init__(f"{limit} clients are known, the most that clients.{adapter}.max allows")
        self.adapter = adapter
        self.limit = limit


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterRules:
    """What the settings say about the clients of one adapter."""

    max: int = 10_000
    ttl_seconds: float = 0.0
    """How long a client that disconnected keeps its locks; 0: they are released at once."""


class Client:
    """One client of one adapter.  `name` is what it calls itself, `address` where it calls from."""

    __slots__ = ("adapter", "address", "first_seen", "gone_at", "id", "last_seen", "local_address", "name")

    def __init__(self, adapter: str, id_: ClientId, *, name: str, address: str, local_address: str, now: float):
        self.adapter = adapter
        self.id = id_
        self.name = name
        self.address = address
        self.local_address = local_address
        """The address of ours that it used last: callbacks leave from there."""
        self.first_seen = self.last_seen = now
        self.gone_at: float | None = None
        """When it disconnected, if it did and has not come back."""


class ClientRegistry:
    """All clients, each under its adapter and id.  `held` counts a client's locks; `is_busy` tells whether it holds or
    awaits anything."""

    def __init__(
        self, rules: dict[str, AdapterRules], *, held: Callable[[ClientId], int], is_busy: Callable[[ClientId], bool]
    ):
        self._rules = rules
        self._held = held
        self._is_busy = is_busy
        self._clients: dict[str, dict[ClientId, Client]] = {adapter: {} for adapter in rules}
        self._full_until: dict[str, float] = dict.fromkeys(rules, 0.0)

    def __len__(self) -> int:
        return sum(map(len, self._clients.values()))

    def __iter__(self) -> Iterator[Client]:
        for clients in self._clients.values():
            yield from clients.values()

    def of_adapter(self, adapter: str) -> list[Client]:
        return [*self._clients[adapter].values()]

    def find(self, adapter: str, id_: ClientId) -> Client | None:
        return self._clients[adapter].get(id_)

    def lock_count(self, client: Client) -> int:
        return self._held(client.id)

    def max_clients(self, adapter: str) -> int:
        return self._rules[adapter].max

    def ttl_seconds(self, client: Client) -> float:
        return self._rules[client.adapter].ttl_seconds

    def seen(self, adapter: str, id_: ClientId, *, name: str, address: str, local_address: str, now: float) -> Client:
        """A client asks for something: it is known from now on, and a disconnect that was pending is off.

        Raises TooManyClients for a new one, if none of the others can be forgotten."""
        clients = self._clients[adapter]
        client = clients.get(id_)
        if client is not None:
            client.last_seen = now
            client.local_address = local_address
            client.gone_at = None
            return client
        if len(clients) >= self._rules[adapter].max:
            self._make_room(adapter, clients, now)
        client = clients[id_] = Client(adapter, id_, name=name, address=address, local_address=local_address, now=now)
        return client

    def _make_room(self, adapter: str, clients: dict[ClientId, Client], now: float) -> None:
        """Looking through all of them for each of many new ones would be a way to keep us busy: once a second."""
        if now >= self._full_until[adapter]:
            if self._forget_idle(clients, now=now, older_than=0.0):
                return
            self._full_until[adapter] = now + 1.0
        raise TooManyClients(adapter, self._rules[adapter].max)

    def disconnected(self, adapter: str, id_: ClientId, now: float) -> Client | None:
        """A client is gone.  Returned if its locks are to be released at once; else `expired` will name it, unless it
        comes back."""
        client = self._clients[adapter].get(id_)
        if client is None:
            return None
        if self._rules[adapter].ttl_seconds <= 0:
            del self._clients[adapter][id_]
            return client
        if client.gone_at is None:
            client.gone_at = now
        return None

    def forget(self, adapter: str, id_: ClientId) -> Client | None:
        """Drop a client whatever its TTL: it rebooted, freed everything, or the operator says so."""
        return self._clients[adapter].pop(id_, None)

    def expired(self, now: float) -> list[Client]:
        """The stale check: those whose TTL ran out are dropped, and returned so that their locks go too.  Those that
        have nothing and were not heard for long are dropped as well, but there is nothing to do about them."""
        gone = [
            client
            for client in self
            if client.gone_at is not None and now - client.gone_at >= self._rules[client.adapter].ttl_seconds
        ]
        for client in gone:
            del self._clients[client.adapter][client.id]
        for clients in self._clients.values():
            self._forget_idle(clients, now=now, older_than=IDLE_SECONDS)
        return gone

    def _forget_idle(self, clients: dict[ClientId, Client], *, now: float, older_than: float) -> int:
        idle = [
            client.id
            for client in clients.values()
            if now - client.last_seen >= older_than and client.gone_at is None and not self._is_busy(client.id)
        ]
        for id_ in idle:
            del clients[id_]
        return len(idle)
