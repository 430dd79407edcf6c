"""The lock service over a store: what it keeps, tells and finds again."""

from dittofs.locks.outcomes import Blocked, Denied, Granted, InGrace, Reason, Released
from dittofs.stores.metadata.memory import MemoryMetadataStore
from tests.locks.world import ALL, EXPORT, FILE, FaultStore, kept, owner, run, running, wanted


def test_a_lock_is_durable_before_its_answer_may_leave() -> None:
    """[KEEP-1]"""

    async def work() -> None:
        store = FaultStore()
        async with running(store) as here:
            outcome, hold = await here.service.acquire(wanted("a"))
            assert isinstance(outcome, Granted)
            assert hold is not None
            assert not [key for key in store.durable if key.startswith(b"l")]
            assert await kept(hold) is None
            assert len([key for key in store.durable if key.startswith(b"l")]) == 1

    run(work())


def test_a_repeated_request_waits_for_the_batch_of_the_first() -> None:
    """[KEEP-1]: granted is granted only when it is kept, however often it is asked."""

    async def work() -> None:
        async with running(FaultStore()) as here:
            _, first = await here.service.acquire(wanted("a"))
            outcome, second = await here.service.acquire(wanted("a"))
            assert isinstance(outcome, Granted)
            assert second is not None
            assert await kept(first) is None
            _, third = await here.service.acquire(wanted("a"))
            assert third is None

    run(work())


def test_a_memory_store_lets_nobody_wait() -> None:
    async def work() -> None:
        async with running(MemoryMetadataStore()) as here:
            outcome, hold = await here.service.acquire(wanted("a"))
            assert isinstance(outcome, Granted)
            assert hold is None

    run(work())


def test_an_offer_is_told_when_it_is_durable() -> None:
    async def work() -> None:
        async with running(FaultStore()) as here:
            await here.service.acquire(wanted("a"))
            outcome, hold = await here.service.acquire(wanted("b", wait=True))
            assert isinstance(outcome, Blocked)
            released, hold = await here.service.release(FILE, owner("a"), ALL)
            assert isinstance(released, Released)
            assert not here.heard.offers
            assert await kept(hold) is None
            assert [offer.ticket for offer in here.heard.offers] == [outcome.ticket]
            assert await kept(await here.service.settle(outcome.ticket)) is None
            assert [settled.ticket for settled in here.heard.settlements] == [outcome.ticket]

    run(work())


def test_recorded_locks_open_a_grace_period_that_ends_with_the_last_reclaim() -> None:
    """[GRACE-1], [GRACE-3]"""

    async def work() -> None:
        store = FaultStore()
        async with running(store) as here:
            for name, start in (("a", 0), ("a", 200), ("b", 400)):
                _, hold = await here.service.acquire(wanted(name, start, start + 100))
            assert await kept(hold) is None
        async with running(store, epoch=2) as here:
            assert [grace.share for grace in here.service.inspect.grace()] == [EXPORT]
            assert isinstance((await here.service.acquire(wanted("c", 600, 700)))[0], InGrace)
            for name, start in (("a", 0), ("b", 400)):
                outcome, _ = await here.service.acquire(wanted(name, start, start + 100, reclaim=True))
                assert isinstance(outcome, Granted)
                assert here.service.inspect.grace()
            outcome, hold = await here.service.acquire(wanted("a", 200, 300, reclaim=True))
            assert not here.service.inspect.grace()
            assert await kept(hold) is None
            assert isinstance((await here.service.acquire(wanted("c", 0, 1)))[0], Denied)

    run(work())


def test_a_client_that_is_gone_leaves_no_record() -> None:
    async def work() -> None:
        store = FaultStore()
        async with running(store) as here:
            await here.service.acquire(wanted("a"))
            await kept(await here.service.client_gone(owner("a").client, reason=Reason.CRASH))
            assert not [key for key in store.durable if key.startswith(b"l")]

    run(work())
