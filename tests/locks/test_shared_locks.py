"""Locks of several nodes over one store: what one holds, the other honours."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dittofs.locks.keeping import LOCKS
from dittofs.locks.limits import LockLimits
from dittofs.locks.outcomes import Blocked, Denied, Granted, Reason
from dittofs.locks.service import LockService
from dittofs.locks.spans import Span
from dittofs.locks.values import Lock, Mode, Origin
from dittofs.model.errors import FileError, TryLater
from dittofs.model.ids import FileId, FileRef
from dittofs.stores.metadata.postgres import PostgresMetadataStore
from dittofs.stores.shared import SharedTransactions
from dittofs.stores.sharing import SharedStore
from dittofs.testing.shared_memory import MemorySharedStore, SharedMemory
from tests.locks.world import ALL, EXPORT, EXPORT_ID, FILE, Heard, kept, owner, wanted


class Node:
    def __init__(self, service: LockService, transactions: SharedTransactions):
        self.service = service
        self.transactions = transactions
        self.heard = Heard()
        service.listeners.append(self.heard)

    async def locks(self) -> list[Lock]:
        """As the store has them."""

        def scanned(view: Any) -> list[Lock]:
            found = view.scan(LOCKS, (EXPORT_ID, 0, 0), (EXPORT_ID, 2**64 - 1, 0), 10_000)
            return [lock for _, lock in found]

        return await self.transactions.perform(scanned)


@asynccontextmanager
async def node(store: SharedStore, name: str, epoch: int = 1, *, is_clean: bool = False) -> AsyncIterator[Node]:
    transactions = SharedTransactions(store, patience_seconds=0.1)
    await transactions.open()
    service = LockService(LockLimits(), Origin(name, epoch))
    try:
        await service.add_share(EXPORT, EXPORT_ID, transactions)
        yield Node(service, transactions)
        if is_clean:
            await service.close()
    finally:
        await transactions.close()


Make = Callable[[], SharedStore]


def in_memory() -> Make:
    memory = SharedMemory()
    return lambda: MemorySharedStore(memory)


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.slow)])
def make(request: pytest.FixtureRequest) -> Make:
    if request.param == "memory":
        return in_memory()
    dsn: str = request.getfixturevalue("dsn")
    return lambda: PostgresMetadataStore(dsn)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


def test_a_lock_held_through_one_node_is_honoured_by_the_other(make: Make) -> None:
    """Issue 6: DENIED with the holder; node and epoch are in the record; and free is free at once."""

    async def work() -> None:
        async with node(make(), "a") as a, node(make(), "b", 5) as b:
            outcome, hold = await a.service.acquire(wanted("alice", 0, 10))
            assert isinstance(outcome, Granted)
            assert await kept(hold) is None
            denied, _ = await b.service.acquire(wanted("bob", 5, 15))
            assert isinstance(denied, Denied)
            assert denied.conflict.owner == owner("alice")
            holder = await b.service.test(FILE, owner("bob"), Span(9, 10), Mode.SHARED)
            assert holder is not None
            assert holder.origin == Origin("a", 1)
            assert isinstance((await b.service.acquire(wanted("bob", 10, 15)))[0], Granted)
            assert {lock.origin for lock in await a.locks()} == {Origin("a", 1), Origin("b", 5)}
            await a.service.release(FILE, owner("alice"), ALL)
            assert isinstance((await b.service.acquire(wanted("bob", 5, 15)))[0], Granted)
            assert await a.service.test(FILE, owner("alice"), Span(0, 100), Mode.SHARED) is not None

    run(work())


def test_of_two_nodes_that_grant_at_once_one_finds_out(make: Make) -> None:
    async def work() -> None:
        async with node(make(), "a") as a, node(make(), "b") as b:
            for number in range(1, 21):
                file = FileRef(EXPORT, FileId(number))
                tries = [one.service.acquire(wanted(name, file=file)) for one, name in ((a, "alice"), (b, "bob"))]
                outcomes = [outcome for outcome, _ in await asyncio.gather(*tries)]
                assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Denied", "Granted"]
            assert len(await a.locks()) == 20

    run(work())


def test_release_that_overtakes_a_foreign_grant_does_not_hide_it(make: Make) -> None:
    """A release is recorded whatever others did meanwhile; its node must not take that for knowing what they did."""

    async def work() -> None:
        async with node(make(), "a") as a, node(make(), "b") as b:
            for number in range(1, 21):
                file = FileRef(EXPORT, FileId(number))
                await a.service.acquire(wanted("alice", 0, 5, file=file))
                release = a.service.release(file, owner("alice"), ALL)
                await asyncio.gather(release, b.service.acquire(wanted("bob", 5, 10, file=file)))
                assert isinstance((await a.service.acquire(wanted("anna", 0, 10, file=file)))[0], Denied)

    run(work())


def test_random_requests_of_two_nodes_leave_no_conflict(make: Make) -> None:
    """Whatever both do at the same time: no two recorded locks conflict, and who was granted is recorded."""
    seed = random.randrange(2**32)
    print("seed", seed)
    chance = random.Random(seed)

    async def work() -> None:
        async with node(make(), "a") as a, node(make(), "b") as b:

            async def one_request(at: Node, name: str) -> None:
                start = chance.randrange(8)
                span = Span(start, start + chance.randrange(1, 5))
                if chance.random() < 0.6:
                    mode = chance.choice([Mode.SHARED, Mode.EXCLUSIVE])
                    await at.service.acquire(wanted(name, *span, mode=mode))
                else:
                    await at.service.release(FILE, owner(name), span)

            for _ in range(200):
                users = [(a, "alice"), (a, "anna"), (b, "bob"), (b, "bert")]
                await asyncio.gather(*[one_request(at, name) for at, name in chance.sample(users, 3)])
                held = await a.locks()
                for lock in held:
                    for other in held:
                        overlap = lock.start < other.end and other.start < lock.end
                        if overlap and lock.owner != other.owner:
                            assert lock.mode is other.mode is Mode.SHARED, (lock, other)

    run(work())


def test_waiter_goes_on_when_its_node_hears_of_the_release(make: Make) -> None:
    """Waking across nodes comes later; a client that asks again wakes itself."""

    async def work() -> None:
        async with node(make(), "a") as a, node(make(), "b") as b:
            await a.service.acquire(wanted("alice"))
            assert isinstance((await b.service.acquire(wanted("bob", wait=True)))[0], Blocked)
            await a.service.release(FILE, owner("alice"), ALL)
            await b.service.test(FILE, owner("bob"), ALL, Mode.SHARED)
            async with asyncio.timeout(10):
                while not b.heard.offers:
                    await asyncio.sleep(0.01)
            assert isinstance((await a.service.acquire(wanted("alice")))[0], Denied)

    run(work())


def test_locks_of_a_node_that_crashed_stay_and_are_reclaimed_by_it_alone(make: Make) -> None:
    """[KEEP-2] [KEEP-3]: another node neither drops them nor puts them into a grace period of its own."""

    async def work() -> None:
        async with node(make(), "a") as a:
            await a.service.acquire(wanted("alice"))
        async with node(make(), "b") as b:
            assert b.service.inspect.grace_ends_at(EXPORT) is None
            assert isinstance((await b.service.acquire(wanted("bob")))[0], Denied)
            async with node(make(), "a", 2) as again:
                assert again.service.inspect.grace_ends_at(EXPORT) is not None
                assert isinstance((await again.service.acquire(wanted("alice", reclaim=True)))[0], Granted)
                await again.service.end_grace(EXPORT)
                assert isinstance((await b.service.acquire(wanted("bob")))[0], Denied)
                await again.service.release(FILE, owner("alice"), ALL)
            assert isinstance((await b.service.acquire(wanted("bob")))[0], Granted)

    run(work())


def test_client_that_is_gone_releases_in_all_files(make: Make) -> None:
    async def work() -> None:
        async with node(make(), "a") as a, node(make(), "b") as b:
            files = [FileRef(EXPORT, FileId(number)) for number in range(1, 6)]
            for file in files:
                await a.service.acquire(wanted("alice", file=file))
            await b.service.acquire(wanted("bob", 200, 300, file=files[0]))
            await a.service.client_gone(owner("alice").client, reason=Reason.CRASH)
            assert [lock.owner.client for lock in await b.locks()] == [owner("bob").client]
            for file in files:
                assert isinstance((await b.service.acquire(wanted("bob", file=file)))[0], Granted)

    run(work())


def test_two_nodes_that_are_new_at_once_give_out_different_lock_ids(make: Make) -> None:
    async def work() -> None:
        async with node(make(), "a", is_clean=True):
            pass
        starts = [node(make(), name) for name in ("b", "c", "d")]
        nodes = await asyncio.gather(*[start.__aenter__() for start in starts])
        for number, one in enumerate(nodes):
            await one.service.acquire(wanted(str(number), 10 * number, 10 * number + 5))
        assert len({lock.id for lock in await nodes[0].locks()}) == 3
        for start in starts:
            await start.__aexit__(None, None, None)

    run(work())


def test_store_that_is_away_grants_nothing() -> None:
    """[KEEP-1]"""

    async def work() -> None:
        memory = SharedMemory()
        async with node(MemorySharedStore(memory), "a") as a:
            memory.is_away = True
            with pytest.raises(TryLater):
                await a.service.acquire(wanted("alice"))
            memory.is_away = False
            async with asyncio.timeout(10):
                while True:
                    try:
                        outcome, hold = await a.service.acquire(wanted("alice"))
                        break
                    except FileError:
                        await asyncio.sleep(0.01)
            assert isinstance(outcome, Granted)
            assert await kept(hold) is None

    run(work())
