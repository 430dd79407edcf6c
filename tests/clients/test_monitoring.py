"""Which hosts are watched over, and what their reboots free [NSM-2] [NSM-3], over a store that fails when told to."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import astuple, dataclass, replace
from typing import Any

import msgspec
import pytest

from dittofs.clients.host_ids import host_id
from dittofs.clients.monitoring import ADAPTER, IDLE_SECONDS, Heard, HostMonitor
from dittofs.clients.records import CLIENTS, load_own, save
from dittofs.clients.registry import AdapterRules, ClientRegistry, TooManyClients
from dittofs.clients.watched import Caller
from dittofs.locks.outcomes import Granted, Reason
from dittofs.locks.spans import Span
from dittofs.locks.values import Acquire, Owner
from dittofs.model.errors import StoreFailure
from dittofs.testing.clock import FakeClock
from tests.locks.world import EXCLUSIVE, EXPORT, FILE, FaultStore, Running, kept, running

A = Caller(name=b"a", address="192.0.2.1", local_address="192.0.2.9", version=4, transport="tcp", state=3)
B = replace(A, name=b"b", address="192.0.2.2")


@dataclass
class Site:
    """One run of a server's locks and of its watch over their holders."""

    store: FaultStore
    run: Running
    hosts: HostMonitor
    clock: FakeClock

    async def lock(self, caller: Caller, start: int = 0, *, wait: bool = False) -> Any:
        """A LOCK as NLM performs it; the outcome, when it is durable."""
        told, hold = (EXPORT, *astuple(caller)), None
        if not self.hosts.standing(told):
            client = self.hosts.heard(caller)
            hold = await self.hosts.lock_asked(EXPORT, caller)
            if hold is None:
                self.hosts.keep_standing(told, client)
        owner = Owner("owner", host_id(caller.name, caller.address))
        request = Acquire(FILE, owner, Span(start, start + 1), EXCLUSIVE, wait=wait, state=caller.state)
        outcome, own = await self.run.service.acquire(request)
        for one in (hold, own):
            if error := await kept(one):
                raise error
        return outcome

    async def notify(self, caller: Caller, state: int) -> Heard:
        heard, hold = await self.hosts.rebooted(name=caller.name, address=caller.address, state=state)
        if error := await kept(hold):
            raise error
        return heard

    def held(self, caller: Caller) -> list[int]:
        client = host_id(caller.name, caller.address)
        return sorted(lock.start for lock in self.run.service.inspect.locks_of_client(client))

    async def recorded(self) -> list[str]:
        return [record.id for record in await self.run.transactions.perform(load_own, "a", False)]


@asynccontextmanager
async def site(
    store: FaultStore | None = None, *, epoch: int = 1, most: int = 100, ttl_seconds: float = 0.0, node: str = "a"
) -> AsyncIterator[Site]:
    store, clock = store or FaultStore(), FakeClock()
    async with running(store, epoch=epoch, node=node, monotonic=clock.monotonic) as run:
        inspect = run.service.inspect
        registry = ClientRegistry(
            {ADAPTER: AdapterRules(max=most, ttl_seconds=ttl_seconds)},
            held=inspect.held_count,
            is_busy=inspect.is_busy,
        )
        hosts = HostMonitor(registry, run.service)
        await hosts.add_share(EXPORT, run.transactions)
        yield Site(store, run, hosts, clock)


def scenario(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """A coroutine as a test."""

    def run() -> None:
        asyncio.run(test())  # type: ignore[arg-type]

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@scenario
async def test_a_client_is_recorded_with_its_first_lock() -> None:
    """[NSM-2]: with what SM_NOTIFY needs, also when power fails right after the answer."""
    store = FaultStore()
    async with site(store) as here:
        assert isinstance(await here.lock(A), Granted)
        await here.lock(A, 1)
    async with site(store, epoch=2) as here:
        [watched] = here.hosts.unnotified()
        record = watched.record
        assert (record.name, record.address, record.local_address) == (b"a", "192.0.2.1", "192.0.2.9")
        assert (record.version, record.transport, record.state) == (4, "tcp", 3)
        assert here.hosts.registry.find(ADAPTER, watched.id) is not None


@scenario
async def test_a_waiter_is_recorded_before_it_hears_that_it_waits() -> None:
    store = FaultStore()
    async with site(store) as here:
        await here.lock(A)
        await here.lock(B, wait=True)
        durable = dict(store.durable)
    store.durable = durable
    async with site(store, epoch=2) as here:
        assert len(here.hosts.unnotified()) == 2


@scenario
async def test_a_record_and_its_lock_share_one_flush() -> None:
    async with site() as here:
        before = here.store.flushes
        await here.lock(A)
        assert here.store.flushes == before + 1


@scenario
async def test_a_lost_record_is_written_again() -> None:
    """[KEEP-1]: nothing is granted that is not kept, and the next lock is recorded with its holder."""
    async with site() as here:
        here.store.fails_flush = True
        with pytest.raises(StoreFailure):
            await here.lock(A)
        here.store.fails_flush = False
        await here.lock(A)
        assert await here.recorded() == [host_id(b"a", "192.0.2.1")]


@scenario
async def test_a_record_ends_when_nothing_is_held_any_more() -> None:
    async with site() as here:
        await here.lock(A)
        here.clock.advance(IDLE_SECONDS)
        await here.hosts.check_stale()
        assert len(await here.recorded()) == 1, "it holds a lock"
        await kept(await here.run.service.client_gone(host_id(b"a", "192.0.2.1"), reason=Reason.EXPLICIT))
        await here.hosts.check_stale()
        assert await here.recorded() == []


@scenario
async def test_a_record_from_before_the_restart_stays_until_its_client_has_heard() -> None:
    """[NSM-4]: whom we cannot reach did not crash."""
    store = FaultStore()
    async with site(store) as here:
        await here.lock(A)
    async with site(store, epoch=2) as here:
        await kept(await here.run.service.end_grace(EXPORT))
        here.clock.advance(1000)
        await here.hosts.check_stale()
        assert len(await here.recorded()) == 1
        here.hosts.notified(host_id(b"a", "192.0.2.1"))
        await here.hosts.check_stale()
        assert await here.recorded() == []


@scenario
async def test_records_are_bounded() -> None:
    """[NSM-2] [LOCK-6]: as many as there may be clients; those that have nothing make room."""
    async with site(most=2) as here:
        await here.lock(A)
        await here.lock(B, 1)
        with pytest.raises(TooManyClients):
            await here.lock(replace(A, name=b"c"), 2)
        await kept(await here.run.service.client_gone(host_id(b"b", "192.0.2.2"), reason=Reason.EXPLICIT))
        here.clock.advance(2)
        await here.lock(replace(A, name=b"c"), 2)
        assert len(await here.recorded()) == 2


@scenario
async def test_a_reboot_frees_the_locks_and_wakes_who_waits() -> None:
    """[NSM-3]."""
    async with site() as here:
        await here.lock(A)
        await here.lock(B, wait=True)
        assert await here.notify(A, 5) is Heard.FREED
        assert here.held(A) == []
        assert [offer.request.owner.client for offer in here.run.heard.offers] == [host_id(b"b", "192.0.2.2")]


@scenario
async def test_a_late_notify_spares_what_was_locked_since() -> None:
    """[NSM-3]: the rebooted client may be quicker with its first LOCK than its statd."""
    async with site() as here:
        await here.lock(A, 0)
        await here.lock(replace(A, state=5), 1)
        assert here.held(A) == [1], "a LOCK with a newer state is as good as an SM_NOTIFY"
        assert await here.notify(A, 5) is Heard.FREED
        assert here.held(A) == [1]


@scenario
async def test_a_repeated_notify_does_nothing() -> None:
    """Also to a client that does not tell its state when it locks."""
    silent = replace(A, state=0)
    async with site() as here:
        await here.lock(silent, 0)
        assert await here.notify(silent, 5) is Heard.FREED
        await here.lock(silent, 1)
        assert await here.notify(silent, 5) is Heard.REPEATED
        assert here.held(silent) == [1]


@scenario
async def test_a_replayed_notify_of_an_earlier_boot_does_nothing() -> None:
    async with site() as here:
        await here.lock(replace(A, state=7))
        assert await here.notify(A, 5) is Heard.STALE
        assert here.held(A) == [0]


@scenario
async def test_a_notify_from_another_address_does_nothing() -> None:
    """[NSM-3]: whatever name it carries."""
    async with site() as here:
        await here.lock(A)
        assert await here.notify(replace(A, address="192.0.2.66"), 5) is Heard.UNKNOWN
        assert here.held(A) == [0]


@pytest.mark.parametrize("name", [b"web.example.org", b"WEB", b"web"])
def test_a_name_chooses_among_the_clients_of_one_address(name: bytes) -> None:
    """[NSM-3]: case-insensitive, first label."""

    @scenario
    async def run() -> None:
        web, other = replace(A, name=b"Web"), replace(A, name=b"other")
        async with site() as here:
            await here.lock(web, 0)
            await here.lock(other, 1)
            assert await here.notify(replace(A, name=name), 5) is Heard.FREED
            assert (here.held(web), here.held(other)) == ([], [1])

    run()


@scenario
async def test_the_only_client_of_an_address_needs_no_right_name() -> None:
    async with site() as here:
        await here.lock(A)
        assert await here.notify(replace(A, name=b"localhost"), 5) is Heard.FREED
        assert here.held(A) == []


@pytest.mark.parametrize("name", [b"neither", b"", b":", b"../../a", b"a:b/c", b"\x00\xff" * 512, b"x" * 1024])
def test_a_name_that_does_not_tell_frees_nothing(name: bytes) -> None:
    """Hostile names: nothing is lost."""

    @scenario
    async def run() -> None:
        other = replace(A, name=b"other")
        async with site() as here:
            await here.lock(A, 0)
            await here.lock(other, 1)
            assert await here.notify(replace(A, name=name), 5) is Heard.AMBIGUOUS
            assert (here.held(A), here.held(other)) == ([0], [1])

    run()


@pytest.mark.parametrize("name", [b"a:b", b"a/b", b"..", b"", b"\x00\xff\n", b"x" * 1024, b"a" * 511])
def test_a_client_of_any_name_is_recorded_and_freed(name: bytes) -> None:
    """[KEEP-2]: names may be longer than a key of the store, and hold any byte."""

    @scenario
    async def run() -> None:
        store = FaultStore()
        odd = replace(A, name=name)
        async with site(store) as here:
            await here.lock(odd)
            await here.lock(B, 1)
        async with site(store, epoch=2) as here:
            assert sorted(watched.record.name for watched in here.hosts.unnotified()) == sorted([name, b"b"])
            assert await here.notify(odd, 5) is Heard.FREED
            assert (here.held(odd), here.held(B)) == ([], [1])

    run()


@scenario
async def test_a_notify_that_was_not_stored_is_heard_again() -> None:
    """[KEEP-1]: no answer until it is stored; the repetition is not taken for one."""
    async with site() as here:
        await here.lock(A)
        here.store.fails_flush = True
        with pytest.raises(StoreFailure):
            await here.notify(A, 5)
        here.store.fails_flush = False
        assert await here.notify(A, 5) is Heard.FREED
        assert here.held(A) == []


@scenario
async def test_a_notify_before_the_reclaim_frees_what_an_earlier_run_recorded() -> None:
    """[GRACE-3]: client and server crashed together."""
    store = FaultStore()
    async with site(store) as here:
        await here.lock(A)
    async with site(store, epoch=2) as here:
        assert here.run.service.inspect.grace() != []
        assert await here.notify(A, 5) is Heard.FREED
        assert here.run.service.inspect.grace() == [], "nobody is left to reclaim"


@scenario
async def test_with_a_ttl_a_rebooted_client_keeps_its_locks_for_so_long() -> None:
    """[CLIENT-1]: then they go."""
    async with site(ttl_seconds=60.0) as here:
        await here.lock(A)
        assert await here.notify(A, 5) is Heard.FREED
        here.clock.advance(59)
        await here.hosts.check_stale()
        assert here.held(A) == [0]
        here.clock.advance(1)
        await here.hosts.check_stale()
        assert here.held(A) == []


@scenario
async def test_with_a_ttl_a_client_that_comes_back_as_it_was_keeps_its_locks() -> None:
    async with site(ttl_seconds=60.0) as here:
        await here.lock(A, 0)
        await here.notify(A, 5)
        await here.lock(A, 5)
        here.clock.advance(1000)
        await here.hosts.check_stale()
        assert here.held(A) == [0, 5]


@scenario
async def test_with_a_ttl_a_client_that_comes_back_after_its_reboot_loses_the_old_ones_at_once() -> None:
    async with site(ttl_seconds=60.0) as here:
        await here.lock(A, 0)
        await here.notify(A, 5)
        await here.lock(replace(A, state=5), 1)
        assert here.held(A) == [1]


@scenario
async def test_an_operator_forgets_a_client_whatever_its_ttl() -> None:
    """[CLIENT-1]: locks, waits, record and all."""
    async with site(ttl_seconds=60.0) as here:
        await here.lock(A)
        await here.lock(B, wait=True)
        await kept(await here.hosts.forget(host_id(b"a", "192.0.2.1")))
        assert here.held(A) == []
        assert len(here.run.heard.offers) == 1
        assert await here.recorded() == [host_id(b"b", "192.0.2.2")]
        assert here.hosts.registry.find(ADAPTER, host_id(b"a", "192.0.2.1")) is None


@scenario
async def test_free_all_frees_one_host_only() -> None:
    """[NLM-7]: the name and the address must both fit."""
    async with site() as here:
        await here.lock(A)
        await kept(await here.hosts.freed_all(b"a", "192.0.2.66"))
        await kept(await here.hosts.freed_all(b"b", "192.0.2.1"))
        assert here.held(A) == [0]
        await kept(await here.hosts.freed_all(b"a", "::ffff:192.0.2.1"))
        assert here.held(A) == []


@scenario
async def test_what_a_client_tells_again_is_not_looked_at_again_until_something_changes() -> None:
    """It is heard all the same, and whatever happens to it in between counts."""
    told = (EXPORT, *astuple(A))
    async with site() as here:
        await here.lock(A)
        assert not here.hosts.standing(told), "the first time its record was not durable yet"
        await here.lock(A)
        here.clock.advance(5)
        assert here.hosts.standing(told)
        [client] = here.hosts.registry.of_adapter(ADAPTER)
        assert client.last_seen == here.run.service.now()
        for change in (
            here.notify(A, 5),
            here.hosts.check_stale(),
            here.hosts.forget(host_id(b"a", "192.0.2.1")),
            here.lock(B, 7),
        ):
            before = here.hosts.standing(told)
            assert before is not None
            assert before.is_good
            await change
            assert not here.hosts.standing(told)
            assert not before.is_good, "who remembers it looks again too"
            await here.lock(A)
            await here.lock(A)
            assert here.hosts.standing(told)
            assert await here.recorded() != []


@scenario
async def test_the_records_of_a_predecessor_are_taken_over() -> None:
    """A server whose data directory was lost is a new node on the old store: its clients are told all the same."""
    store = FaultStore()
    async with site(store, node="a") as here:
        await here.lock(A)
    async with site(store, node="b") as here:
        assert [watched.record.name for watched in here.hosts.unnotified()] == [b"a"]
        assert len(here.store.scan(CLIENTS.prefix, CLIENTS.prefix + b"\xff" * 33, 10)) == 1
        await kept(await here.hosts.forget(host_id(b"a", "192.0.2.1")))
        assert here.store.scan(CLIENTS.prefix, CLIENTS.prefix + b"\xff" * 33, 10) == []


@scenario
async def test_another_server_on_the_same_store_is_left_its_own_clients() -> None:
    """Each tells those that lock through it; the same client of two servers has two records."""
    async with site(node="a") as here:
        await here.lock(A)
        transactions = here.run.transactions
        assert await transactions.perform(load_own, "b", True) == []
        other = msgspec.structs.replace(here.hosts._watched[host_id(b"a", "192.0.2.1")].record, node="b")
        await transactions.perform(save, other)
        await kept(await here.hosts.forget(host_id(b"a", "192.0.2.1")))
        assert await transactions.perform(load_own, "b", True) == [other]
