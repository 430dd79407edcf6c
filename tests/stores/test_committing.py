"""Where batches are flushed: in the thread until the store has shown to be quick, and again after a stall."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

from dittofs.stores.api import StoreError
from dittofs.stores.committing import CHANGES_AT_ONCE, FLUSHES_WITHOUT_STALL, STALL_SECONDS, Committer, Pace
from tests.locks.world import FaultStore

FIRST = FLUSHES_WITHOUT_STALL[0]


class TimedStore(FaultStore):
    """A flush takes as long as `seconds` says, by a clock of its own; `threads` tells where it was done."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.seconds = 0.0001
        self.can = True
        self.threads: list[int] = []

    @property
    def can_flush_at_once(self) -> bool:
        return self.can

    def flush(self) -> None:
        self.now += self.seconds
        self.threads.append(threading.get_ident())
        if self.fails_flush:
            raise StoreError("on purpose")


class Bench:
    def __init__(self) -> None:
        self.store = TimedStore()
        self.ended: asyncio.Queue[BaseException | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        self.committer = Committer(self.store, loop, self.ended.put_nowait, clock=lambda: self.store.now)

    async def flush(self, times: int = 1, changes: int = 1) -> BaseException | None:
        error = None
        for _ in range(times):
            self.committer.flush(changes)
            error = await self.ended.get()
        return error

    @property
    def was_in_loop(self) -> bool:
        return self.store.threads[-1] == threading.get_ident()


def with_bench(work: Callable[[Bench], Awaitable[None]]) -> None:
    async def run() -> None:
        bench = Bench()
        await work(bench)
        bench.committer.stop()

    asyncio.run(run())


def test_a_quick_store_is_flushed_in_the_loop_after_a_while() -> None:
    async def work(bench: Bench) -> None:
        await bench.flush(FIRST)
        assert not bench.was_in_loop
        await bench.flush()
        assert bench.was_in_loop

    with_bench(work)


def test_a_large_batch_is_flushed_beside_the_loop() -> None:
    async def work(bench: Bench) -> None:
        await bench.flush(FIRST)
        await bench.flush(changes=CHANGES_AT_ONCE + 1)
        assert not bench.was_in_loop
        await bench.flush(changes=CHANGES_AT_ONCE)
        assert bench.was_in_loop

    with_bench(work)


def test_a_store_that_might_take_longer_is_flushed_beside_the_loop() -> None:
    async def work(bench: Bench) -> None:
        await bench.flush(FIRST)
        bench.store.can = False
        await bench.flush()
        assert not bench.was_in_loop

    with_bench(work)


def test_one_stall_is_enough_and_the_next_time_it_takes_longer() -> None:
    async def work(bench: Bench) -> None:
        await bench.flush(FIRST)
        bench.store.seconds = STALL_SECONDS
        await bench.flush()
        assert bench.was_in_loop
        bench.store.seconds = 0.0001
        await bench.flush(2 * FIRST)
        assert not bench.was_in_loop
        await bench.flush()
        assert bench.was_in_loop

    with_bench(work)


def test_a_store_that_is_always_slow_stays_in_the_thread() -> None:
    async def work(bench: Bench) -> None:
        bench.store.seconds = 0.002
        await bench.flush(4 * FIRST)
        assert not bench.was_in_loop

    with_bench(work)


def test_a_failure_in_the_loop_is_told_as_one_in_the_thread() -> None:
    async def work(bench: Bench) -> None:
        await bench.flush(FIRST)
        bench.store.fails_flush = True
        error = await bench.flush()
        assert bench.was_in_loop
        assert isinstance(error, StoreError)

    with_bench(work)


def test_stalls_cost_no_more_than_so_much() -> None:
    pace = Pace()
    least, most = FLUSHES_WITHOUT_STALL
    needed = least
    while needed < 2 * most:
        for _ in range(min(needed, most)):
            assert not pace.is_quick
            pace.observe(0.0001)
        assert pace.is_quick
        pace.observe(STALL_SECONDS)
        needed *= 2
