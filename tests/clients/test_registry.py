"""The registry of clients [CLIENT-1]."""

from dataclasses import dataclass, field

import pytest

from dittofs.clients.registry import IDLE_SECONDS, AdapterRules, Client, ClientRegistry, TooManyClients
from dittofs.model.ids import ClientId


@dataclass
class World:
    """A registry whose clients hold what `held` says."""

    max: int = 10
    ttl_seconds: float = 0.0
    held: dict[str, int] = field(default_factory=dict)
    registry: ClientRegistry = field(init=False)

    def __post_init__(self) -> None:
        rules = {name: AdapterRules(max=self.max, ttl_seconds=self.ttl_seconds) for name in ("nlm", "smb")}
        self.registry = ClientRegistry(
            rules, held=lambda client: self.held.get(client, 0), is_busy=lambda client: client in self.held
        )

    def seen(self, name: str, now: float, *, adapter: str = "nlm", local_address: str = "192.0.2.9") -> Client:
        id_ = ClientId(name)
        return self.registry.seen(adapter, id_, name=name, address="192.0.2.1", local_address=local_address, now=now)


def names(clients: list[Client]) -> list[str]:
    return [client.name for client in clients]


def test_a_client_is_known_with_its_times_and_the_address_it_used_last() -> None:
    world = World(held={"a": 3})
    world.seen("a", 10.0)
    client = world.seen("a", 20.0, local_address="192.0.2.8")
    assert (client.first_seen, client.last_seen, client.local_address) == (10.0, 20.0, "192.0.2.8")
    assert world.registry.lock_count(client) == 3
    assert len(world.registry) == 1


def test_adapters_do_not_share_clients_nor_limits() -> None:
    world = World(max=1, held={"a": 1})
    world.seen("a", 0.0)
    world.seen("a", 0.0, adapter="smb")
    assert len(world.registry) == 2
    assert len(world.registry.of_adapter("smb")) == 1


def test_over_the_limit_a_new_client_is_refused_and_a_known_one_is_not() -> None:
    """[LOCK-6]: nothing changes for anybody."""
    world = World(max=2, held={"a": 1, "b": 0})
    world.seen("a", 0.0)
    world.seen("b", 0.0)
    with pytest.raises(TooManyClients, match=r"clients\.nlm\.max"):
        world.seen("c", 1.0)
    assert world.seen("a", 2.0).last_seen == 2.0
    assert names(world.registry.of_adapter("nlm")) == ["a", "b"]


def test_one_that_has_nothing_makes_room() -> None:
    world = World(max=2, held={"a": 1})
    world.seen("a", 0.0)
    world.seen("idle", 0.0)
    world.seen("c", 1.0)
    assert names(world.registry.of_adapter("nlm")) == ["a", "c"]


def test_without_a_ttl_a_disconnect_is_the_end() -> None:
    world = World(held={"a": 1})
    world.seen("a", 0.0)
    gone = world.registry.disconnected("nlm", ClientId("a"), 1.0)
    assert gone is not None
    assert len(world.registry) == 0
    assert world.registry.disconnected("nlm", ClientId("a"), 1.0) is None


def test_with_a_ttl_a_client_may_come_back() -> None:
    world = World(ttl_seconds=30.0, held={"a": 1, "b": 1})
    for name in "ab":
        world.seen(name, 0.0)
        assert world.registry.disconnected("nlm", ClientId(name), 1.0) is None
    world.seen("a", 20.0)
    assert names(world.registry.expired(30.9)) == []
    assert names(world.registry.expired(31.0)) == ["b"]
    assert names(world.registry.expired(1000.0)) == []
    assert names(world.registry.of_adapter("nlm")) == ["a"]


def test_the_stale_check_drops_those_that_have_nothing() -> None:
    world = World(held={"a": 1})
    world.seen("a", 0.0)
    world.seen("idle", 0.0)
    assert world.registry.expired(IDLE_SECONDS - 1) == []
    assert len(world.registry) == 2
    assert world.registry.expired(IDLE_SECONDS) == []
    assert names(world.registry.of_adapter("nlm")) == ["a"]


def test_forgetting_needs_no_ttl() -> None:
    world = World(ttl_seconds=30.0, held={"a": 1})
    world.seen("a", 0.0)
    assert world.registry.forget("nlm", ClientId("a")) is not None
    assert len(world.registry) == 0
