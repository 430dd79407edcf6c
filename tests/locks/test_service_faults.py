"""A store that fails under the lock service [KEEP-1]: nothing is granted that is not kept, nothing lost that is."""

import asyncio
import random

import pytest
import structlog

from dittofs.locks import service as service_module
from dittofs.locks.outcomes import Blocked, Denied, Granted, Reason, Released
from dittofs.locks.spans import Span
from dittofs.locks.values import Access, Lock, Reserve
from dittofs.model.errors import FileError, StoreFailure
from dittofs.model.ids import FileId, FileRef
from dittofs.stores.transactions import LocalTransactions
from tests.locks.world import (
    ALL,
    EXCLUSIVE,
    EXPORT,
    FILE,
    OTHER,
    OTHER_ID,
    SHARED,
    FaultStore,
    Running,
    kept,
    owner,
    recorded,
    run,
    running,
    until,
    wanted,
)


@pytest.fixture(autouse=True)
def _reload_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "RELOAD_SECONDS", 0.002)


def spans(here: Running) -> list[tuple[str, int, int]]:
    return sorted((lock.owner.id, lock.start, lock.end) for lock in here.service.inspect.locks())


def in_memory(here: Running) -> list[Lock]:
    return sorted(here.service.inspect.locks(), key=lambda lock: lock.id)


@pytest.mark.parametrize("fault", ["fails_apply", "fails_flush"])
def test_a_lock_that_cannot_be_stored_is_not_held(fault: str) -> None:
    """[KEEP-1]: the LOCK fails, and the range is free for another as soon as the store works."""

    async def work() -> None:
        store = FaultStore()
        async with running(store) as here:
            setattr(store, fault, True)
            outcome, hold = await here.service.acquire(wanted("a"))
            assert isinstance(outcome, Granted)
            assert isinstance(await kept(hold), StoreFailure)
            setattr(store, fault, False)
            outcome, hold = await here.service.acquire(wanted("b"))
            assert isinstance(outcome, Granted)
            assert await kept(hold) is None
            assert spans(here) == [(owner("b").id, 0, 100)]

    run(work())


@pytest.mark.parametrize("fault", ["fails_apply", "fails_flush"])
def test_an_unlock_that_cannot_be_stored_did_not_happen_and_can_be_repeated(fault: str) -> None:
    """[KEEP-1]: the client gets no answer, and sends it again."""

    async def work() -> None:
        store = FaultStore()
        async with running(store) as here:
            await kept((await here.service.acquire(wanted("a")))[1])
            setattr(store, fault, True)
            assert await kept((await here.service.release(FILE, owner("a"), ALL))[1]) is not None
            assert isinstance((await here.service.acquire(wanted("b")))[0], Denied)
            setattr(store, fault, False)
            released, hold = await here.service.release(FILE, owner("a"), ALL)
            assert isinstance(released, Released)
            assert len(released.locks) == 1
            assert await kept(hold) is None
            assert spans(here) == []

    run(work())


def test_an_offer_that_cannot_be_stored_is_not_made_until_it_can_be() -> None:
    """[KEEP-1]: waiters live in memory, and keep their place; the service goes on by itself."""

    async def work() -> None:
        store = FaultStore()
        async with running(store) as here:
            await kept((await here.service.acquire(wanted("a")))[1])
            blocked, _ = await here.service.acquire(wanted("b", wait=True))
            behind, _ = await here.service.acquire(wanted("c", wait=True))
            assert isinstance(blocked, Blocked)
            assert isinstance(behind, Blocked)
            store.fails_flush = True
            assert await kept((await here.service.release(FILE, owner("a"), ALL))[1]) is not None
            await until(lambda: bool(here.service.inspect.locks_of_owner(owner("a"))))
            assert not here.heard.offers
            store.fails_flush = False
            await kept((await here.service.release(FILE, owner("a"), ALL))[1])
            assert [offer.ticket for offer in here.heard.offers] == [blocked.ticket]
            assert here.service.inspect.ticket(behind.ticket) is not None

    run(work())


def test_the_next_waiter_is_offered_by_itself_when_the_store_works_again() -> None:
    """A release that is stored and an offer that is not: no client asks again, and the waiter still gets it."""

    async def work() -> None:
        store = FaultStore()
        async with running(store) as here:
            await kept((await here.service.acquire(wanted("a")))[1])
            blocked, _ = await here.service.acquire(wanted("b", wait=True))
            assert isinstance(blocked, Blocked)
            await kept((await here.service.release(FILE, owner("a"), ALL))[1])
            assert len(here.heard.offers) == 1
            store.fails_flush = True
            assert await kept(await here.service.refuse_offer(blocked.ticket, is_silent=True)) is not None
            await here.service.client_heard(owner("b").client)
            store.fails_flush = False
            await until(lambda: len(here.heard.offers) > 1 or bool(here.service.inspect.offers()))
            # Either the first offer stands as it is stored, or it is made a second time: but he is not forgotten.
            assert here.service.inspect.locks_of_owner(owner("b"))

    run(work())


def test_what_stood_behind_a_lost_batch_is_lost_with_it() -> None:
    """Batches are lost in order: a later one, that saw the first, is not kept either."""

    async def work() -> None:
        store = FaultStore()
        async with running(store) as here:
            store.fails_flush = True
            _, first = await here.service.acquire(wanted("a", 0, 10))
            assert first is not None
            await asyncio.sleep(0)
            await asyncio.sleep(0)  # the first batch is with the committer now
            _, second = await here.service.acquire(wanted("b", 20, 30))
            lost = await asyncio.gather(kept(first), kept(second))
            assert all(isinstance(error, StoreFailure) for error in lost)
            store.fails_flush = False
            assert isinstance((await here.service.acquire(wanted("c")))[0], Granted)

    run(work())


def test_a_store_that_cannot_be_read_makes_only_its_own_files_fail() -> None:
    """The doubt is about one file; the others are as they were."""

    async def work() -> None:
        store = FaultStore()
        async with running(store) as here:
            elsewhere = FileRef(EXPORT, FileId(8))
            await kept((await here.service.acquire(wanted("a", file=elsewhere)))[1])
            store.fails_flush = True
            assert await kept((await here.service.acquire(wanted("a")))[1]) is not None
            store.fails_reading = True
            with pytest.raises(StoreFailure):
                await here.service.acquire(wanted("b"))
            with pytest.raises(StoreFailure):
                await here.service.client_gone(owner("a").client, reason=Reason.CRASH)
            with pytest.raises(StoreFailure):
                await here.service.test(FILE, owner("b"), ALL, EXCLUSIVE)
            assert await here.service.test(elsewhere, owner("b"), ALL, EXCLUSIVE) is not None
            store.fails_flush = store.fails_reading = False
            outcome, hold = await here.service.acquire(wanted("b"))
            assert isinstance(outcome, Granted)
            assert await kept(hold) is None

    run(work())


def test_one_outage_is_one_line_in_the_log_and_its_end_another() -> None:
    """[KEEP-1]"""

    async def work() -> None:
        store = FaultStore()
        async with running(store) as here:
            with structlog.testing.capture_logs() as logs:
                store.fails_flush = True
                for number in range(5):
                    await kept((await here.service.acquire(wanted(f"owner {number}")))[1])
                store.fails_flush = False
                await kept((await here.service.acquire(wanted("a")))[1])
                await kept((await here.service.acquire(wanted("a", 200, 300)))[1])
        assert [(line["log_level"], line["event"].split(":")[0]) for line in logs] == [
            ("error", "locks cannot be stored"),
            ("info", "locks are stored again"),
        ]

    run(work())


def test_an_owner_over_two_stores_is_kept_by_the_one_that_works() -> None:
    """The answer is for both, so it fails; what the second store has stays what it has."""

    async def work() -> None:
        store, second = FaultStore(), FaultStore()
        other = LocalTransactions(second)
        other.open()
        other.start(asyncio.get_running_loop())
        async with running(store) as here:
            await here.service.add_share(OTHER, OTHER_ID, other)
            there = FileRef(OTHER, FileId(7))
            for file in (FILE, there):
                await kept((await here.service.acquire(wanted("a", file=file)))[1])
            second.fails_flush = True
            gone = here.service.client_gone(owner("a").client, reason=Reason.CRASH)
            assert isinstance(await kept(await gone), StoreFailure)
            await until(lambda: spans(here) == [(owner("a").id, 0, 100)])
            assert isinstance((await here.service.acquire(wanted("b")))[0], Granted)
            second.fails_flush = False
            assert isinstance((await here.service.acquire(wanted("b", file=there)))[0], Denied)
            assert await kept(await here.service.client_gone(owner("a").client, reason=Reason.CRASH)) is None
            assert isinstance((await here.service.acquire(wanted("b", file=there)))[0], Granted)
        await other.close()

    run(work())


class Story:
    """Random requests over a store that fails now and then, with the answers that clients would have got."""

    def __init__(self, here: Running, store: FaultStore, seed: int):
        self.here = here
        self.store = store
        self.random = random.Random(seed)
        self.pending: list[asyncio.Task[FileError | None]] = []

    async def step(self) -> None:
        chosen = self.random
        here = self.here.service
        name = chosen.choice("abcd")
        file = FileRef(EXPORT, FileId(chosen.randrange(1, 4)))
        start = chosen.randrange(0, 8)
        span = Span(start, start + chosen.randrange(1, 5))
        mode = chosen.choice((SHARED, EXCLUSIVE))
        hold = None
        try:
            match chosen.randrange(9):
                case 0 | 1 | 2:
                    asked = wanted(name, span.start, span.end, mode=mode, file=file, wait=chosen.random() < 0.5)
                    hold = (await here.acquire(asked))[1]
                case 3 | 4:
                    hold = (await here.release(file, owner(name), span))[1]
                case 5:
                    hold = (await here.cancel(file, owner(name), span, mode))[1]
                case 6:
                    hold = await here.client_gone(owner(name).client, reason=Reason.CRASH)
                case 7:
                    hold = (await here.reserve(Reserve(file, owner(name), Access.READ, Access.NONE)))[1]
                case 8:
                    offers = here.inspect.offers()
                    if offers:
                        ticket = chosen.choice(offers).ticket
                        hold = await (here.settle(ticket) if chosen.random() < 0.5 else here.refuse_offer(ticket))
        except StoreFailure:
            pass
        if hold is not None:
            self.pending.append(asyncio.ensure_future(kept(hold)))
        self.store.fails_flush = chosen.random() < 0.15
        self.store.fails_apply = chosen.random() < 0.05
        self.store.fails_reading = chosen.random() < 0.05
        self.store.flush_seconds = chosen.choice((0, 0, 0.0005, 0.002))
        if chosen.random() < 0.4:
            await asyncio.sleep(0)


@pytest.mark.parametrize("seed", range(12))
def test_the_table_is_what_the_store_has_after_any_faults(seed: int) -> None:
    """[KEEP-1]: whatever was lost when, memory and store agree again by themselves, and no two locks conflict."""

    async def work() -> None:
        store = FaultStore()
        async with running(store) as here:
            story = Story(here, store, seed)
            for _ in range(150):
                await story.step()
            store.fails_apply = store.fails_flush = store.fails_reading = False
            await asyncio.gather(*story.pending)
            await until(lambda: recorded(store) == in_memory(here))
            held = in_memory(here)
        for lock in held:
            for other in held:
                if lock.file == other.file and lock.owner != other.owner and not lock.reservation:
                    is_apart = lock.end <= other.start or other.end <= lock.start
                    assert is_apart or lock.mode is SHARED is other.mode or other.reservation

    run(work())
