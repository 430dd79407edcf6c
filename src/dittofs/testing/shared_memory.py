"""A store that several drivers share, in memory: the quick one of its kind, for tests of what stands above it.

It waits wherever a real one would, so that others run meanwhile, and it can be told to fail.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from dittofs.stores.api import check_keys
from dittofs.stores.sharing import (
    ABSENT,
    Commit,
    InDoubt,
    LockedSession,
    Range,
    Refreshed,
    SharedStore,
    StoreAway,
    Versioned,
    version_of,
)


class SharedMemory:
    """What the stores of all servers have in common."""

    def __init__(self) -> None:
        self.records: dict[bytes, tuple[int, bytes]] = {}
        self.sequences: list[int] = []
        """The last batch of each epoch, from epoch 1 on."""
        self.next_file_id = 1
        self.writing = asyncio.Lock()
        self.is_away = False

    def changed(self, known: Mapping[bytes, int]) -> list[Versioned]:
        found = ((key, *self.records.get(key, (ABSENT, None))) for key in known)
        return [Versioned(*record) for record in found if record[1] != known[record[0]]]


class MemorySharedStore(SharedStore):
    """One server's access to it."""

    def __init__(self, memory: SharedMemory):
        self.memory = memory
        self.queries = 0
        self.cut_before_commit = False
        """Lose the connection with the next commit, which does not happen."""
        self.cut_after_commit = False
        """Lose the connection with the next commit, which happens."""
        self._epoch = 0

    async def open(self) -> int:
        self.memory.sequences.append(0)
        self._epoch = len(self.memory.sequences)
        return self._epoch

    async def close(self) -> None: ...

    async def _journey(self) -> None:
        self.queries += 1
        await asyncio.sleep(0)
        if self.memory.is_away:
            raise StoreAway("told to be away")

    async def refresh(self, known: Mapping[bytes, int], ranges: Sequence[Range]) -> Refreshed:
        await self._journey()
        records = sorted(self.memory.records.items()) if ranges else []
        found = [
            [Versioned(key, *record) for key, record in records if start <= key < end][:limit]
            for start, end, limit in ranges
        ]
        return Refreshed(self.memory.changed(known), found)

    async def commit(self, batch: Commit) -> Sequence[Versioned]:
        async with self.memory.writing:
            return await self.commit_alone(batch)

    @asynccontextmanager
    async def locked(self, known: Mapping[bytes, int]) -> AsyncIterator[LockedSession]:
        async with self.memory.writing:
            await self._journey()
            yield _Locked(self, self.memory.changed(known))

    async def commit_alone(self, batch: Commit) -> Sequence[Versioned]:
        await self._journey()
        check_keys(list(batch.values.items()))
        conflicts = self.memory.changed(batch.seen)
        if conflicts:
            return conflicts
        if self.cut_before_commit:
            self.cut_before_commit = False
            raise InDoubt("told to lose the connection")
        for key, value in batch.values.items():
            if value is None:
                self.memory.records.pop(key, None)
            else:
                self.memory.records[key] = (version_of(self._epoch, batch.sequence), value)
        self.memory.sequences[self._epoch - 1] = batch.sequence
        if self.cut_after_commit:
            self.cut_after_commit = False
            raise InDoubt("told to lose the connection")
        return []

    async def was_committed(self, sequence: int) -> bool:
        await self._journey()
        return self.memory.sequences[self._epoch - 1] >= sequence

    async def reserve_file_ids(self, count: int) -> int:
        await self._journey()
        first = self.memory.next_file_id
        self.memory.next_file_id += count
        return first


class _Locked:
    def __init__(self, store: MemorySharedStore, changed: Sequence[Versioned]):
        self._store = store
        self.changed = changed

    async def commit(self, batch: Commit) -> Sequence[Versioned]:
        return await self._store.commit_alone(batch)
