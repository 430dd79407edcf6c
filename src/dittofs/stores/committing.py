"""Where a batch is flushed: in a thread of its own, or, where that is quicker, at once.

The way to another thread and back costs more than a good disk needs for a flush, so a small batch on a disk that has
been quick is flushed in the loop.  A single stall is enough to go back to the thread, and after each it takes longer to
leave it again: see docs/decisions/080-flushes-in-the-loop.md.
"""

import asyncio
import queue
import threading
import time
from collections.abc import Callable

from dittofs.stores.api import MetadataStore

CHANGES_AT_ONCE = 512
"""A larger batch is a larger write."""

QUICK_SECONDS = 0.0005
"""On average."""

STALL_SECONDS = 0.01
FLUSHES_WITHOUT_STALL = (32, 32_768)
"""So many in a row are asked for, at first and at most."""

Done = Callable[[BaseException | None], None]


class Pace:
    """Whether the flushes of late were quick, and none of them made everybody wait."""

    __slots__ = ("_average", "_in_a_row", "_needed")

    def __init__(self) -> None:
        self._average = 0.0
        self._in_a_row = 0
        self._needed = FLUSHES_WITHOUT_STALL[0]

    @property
    def is_quick(self) -> bool:
        return self._in_a_row >= self._needed and self._average <= QUICK_SECONDS

    def observe(self, seconds: float) -> None:
        if seconds >= STALL_SECONDS:
            if self.is_quick:
                self._needed = min(2 * self._needed, FLUSHES_WITHOUT_STALL[1])
            self._in_a_row = 0
            return
        self._in_a_row += 1
        self._average += (seconds - self._average) / 16


class Committer:
    """Flushes a store, one flush at a time, so that those who come meanwhile share the next.  `done` is called in the
    loop's thread, before `flush` returns or later."""

    def __init__(
        self,
        store: MetadataStore,
        loop: asyncio.AbstractEventLoop,
        done: Done,
        *,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._store = store
        self._loop = loop
        self._done = done
        self._clock = clock
        self._pace = Pace()  # touched by one thread at a time: there is one flush at a time
        self._wanted: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._worker = threading.Thread(target=self._work, name="dittofs-commit", daemon=True)
        self._worker.start()

    def flush(self, changes: int) -> None:
        """Make durable what was applied; `changes` is how many records that are."""
        if changes <= CHANGES_AT_ONCE and self._pace.is_quick and self._store.can_flush_at_once:
            self._done(self._flush())
        else:
            self._wanted.put(True)

    def stop(self) -> None:
        self._wanted.put(False)
        self._worker.join()

    def _work(self) -> None:
        while self._wanted.get():
            self._loop.call_soon_threadsafe(self._done, self._flush())

    def _flush(self) -> BaseException | None:
        began = self._clock()
        try:
            self._store.flush()
        except Exception as failure:  # the top of a background task: whatever it is, the calls must hear of it
            return failure
        self._pace.observe(self._clock() - began)
        return None
