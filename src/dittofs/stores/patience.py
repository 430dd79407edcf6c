"""Waiting for a store that is away: for a while, or, where a commit is in doubt, for as long as it takes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from dittofs.stores.sharing import InDoubt, SharedStore, StoreAway

T = TypeVar("T")

FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 1.0

log = structlog.get_logger()


class Patience:
    """Knows since when the store is away: calls that come later wait for the rest of the time only."""

    def __init__(self, seconds: float):
        self._seconds = seconds
        self._away_since: float | None = None

    async def have(self, work: Callable[[], Awaitable[T]]) -> T:
        """Try until it works, or for too long.  Raises StoreAway; InDoubt at once."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                result = await work()
            except InDoubt as error:
                self._is_away(error)
                raise
            except StoreAway as error:
                if self._is_away(error) > self._seconds:
                    raise
            else:
                if self._away_since is not None:
                    self._away_since = None
                    log.warning("the metadata store answers again")
                return result
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def find_out(self, store: SharedStore, sequence: int) -> bool:
        """Whether a batch that was cut off was committed.  Its calls get no answer before that is known."""
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                committed = await store.was_committed(sequence)
                log.warning("a commit was cut off; the store knows what became of it", committed=committed)
                return committed
            except StoreAway as error:
                self._is_away(error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _is_away(self, error: StoreAway) -> float:
        """Note it, and say for how many seconds it has been so."""
        now = asyncio.get_running_loop().time()
        if self._away_since is None:
            self._away_since = now
            log.error("the metadata store is away; calls wait", reason=str(error))
        return now - self._away_since
