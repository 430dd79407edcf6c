"""Deciding about locks together with other nodes, whose decisions are in the same store.

Beside `service` the other part of `locks` that waits: the store has to be asked before a decision, and after it.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from dittofs.locks.committing import Commits
from dittofs.locks.keeping import Hold
from dittofs.locks.sharing import Outdated, SharedLockRecords
from dittofs.locks.values import Lock
from dittofs.model.errors import FileError, TryLater
from dittofs.model.ids import FileRef

T = TypeVar("T")

DECISIONS = 16
"""How often a request is decided anew because another node was faster."""

TURNS = 256
"""Requests about different files need not wait for each other, but for some that happen to share a turn."""


class Agreement:
    """`take_in` gets the locks of files that other nodes changed; `try_later` has `catch_up_soon` called in a while."""

    def __init__(
        self,
        commits: Commits,
        take_in: Callable[[Mapping[FileRef, Sequence[Lock]]], None],
        try_later: Callable[[], None],
    ):
        self._commits = commits
        self._take_in = take_in
        self._try_later = try_later
        self._turns = [asyncio.Lock() for _ in range(TURNS)]
        self._catching_up: asyncio.Task[None] | None = None
        commits.on_outdated = self.catch_up_soon

    def stop(self) -> None:
        if self._catching_up is not None:
            self._catching_up.cancel()

    async def decide(self, file: FileRef, decide: Callable[[], tuple[T, Hold | None]]) -> tuple[T, Hold | None]:
        """Decide with the locks of the file as all nodes have them, and again if another one was faster."""
        async with self._turns[hash(file) % TURNS]:
            for _ in range(DECISIONS):
                await self.catch_up(file)
                outcome, hold = decide()
                if not await self._was_outdated(hold):
                    return outcome, hold
        raise TryLater("other nodes change the locks of the file all the time")

    async def change(self, change: Callable[[], Hold | None]) -> Hold | None:
        """Change any number of files, and again if another node has changed one of them meanwhile."""
        hold = change()
        for _ in range(DECISIONS):
            if not await self._was_outdated(hold):
                break
            await self._catch_up_all()
            hold = change()
        return hold

    async def _was_outdated(self, hold: Hold | None) -> bool:
        try:
            await settled(hold)
        except Outdated:
            return True
        except FileError:
            pass  # who waits for the hold is told
        return False

    async def catch_up(self, file: FileRef) -> None:
        """Take in what other nodes did with the locks of a file.  Raises FileError if the store does not answer."""
        records = self._commits.records.get(file.share)
        if isinstance(records, SharedLockRecords):
            while (hold := self._commits.undurable.get(file)) is not None:
                with contextlib.suppress(FileError):
                    await settled(hold)
            locks = await records.catch_up(file)
            if locks is not None:
                self._take_in({file: locks})
        self._commits.outdated.discard(file)

    async def _catch_up_all(self) -> None:
        while self._commits.outdated:
            await self.catch_up(next(iter(self._commits.outdated)))

    def catch_up_soon(self) -> None:
        """Somebody may wait for what the table does not know of yet."""
        if self._commits.outdated and (self._catching_up is None or self._catching_up.done()):
            self._catching_up = asyncio.get_running_loop().create_task(self._catch_up_or_later())

    async def _catch_up_or_later(self) -> None:
        try:
            await self._catch_up_all()
        except FileError:
            self._try_later()


async def settled(hold: Hold | None) -> None:
    """Wait for a batch.  Raises FileError if it is lost."""
    if hold is None:
        return
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def tell(error: FileError | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    hold.when_settled(tell)
    await future
