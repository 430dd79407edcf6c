"""Pages of a long list of locks, without holding the file service up: a little at a time, others in between."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from dittofs.control.describing import state_of
from dittofs.control.endpoints import Refused
from dittofs.control.plane import Plane
from dittofs.locks.service import LockService
from dittofs.locks.values import Lock
from dittofs.model.errors import FileError
from dittofs.model.ids import ClientId, FileRef

if TYPE_CHECKING:
    from dittofs.control.routes.locks import LockFilter

TURN_SECONDS = 0.001
"""How long the loop may be kept from the file service at a time."""
LOCKS_AT_ONCE = 128
BEFORE_ALL = (0, 0)
"""The place in front of every lock of a file: start and id.  No lock has the id 0."""
SNAPSHOTS_KEPT = 8
SNAPSHOT_SECONDS = 300.0


class Snapshot:
    """The files that had locks when a listing began; their locks are looked at when their page comes."""

    def __init__(self, number: int, files: Sequence[FileRef]):
        self.number = number
        self.files = files
        self.used_at = time.monotonic()


class Snapshots:
    def __init__(self) -> None:
        self._kept: OrderedDict[int, Snapshot] = OrderedDict()
        self._next = 1

    def make(self, files: Sequence[FileRef]) -> Snapshot:
        snapshot = Snapshot(self._next, files)
        self._next += 1
        self._kept[snapshot.number] = snapshot
        while len(self._kept) > SNAPSHOTS_KEPT:
            self._kept.popitem(last=False)
        return snapshot

    def find(self, number: int) -> Snapshot:
        snapshot = self._kept.get(number)
        if snapshot is None or time.monotonic() - snapshot.used_at > SNAPSHOT_SECONDS:
            raise Refused(410, "that listing is over: begin again without a cursor")
        snapshot.used_at = time.monotonic()
        self._kept.move_to_end(number)
        return snapshot


_snapshots: WeakKeyDictionary[LockService, Snapshots] = WeakKeyDictionary()


class Turns:
    """Lets others go on whenever a turn has lasted long enough."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    async def pause(self) -> None:
        if time.perf_counter() - self._began > TURN_SECONDS:
            await asyncio.sleep(0)
            self._began = time.perf_counter()


class Listing:
    def __init__(self, plane: Plane):
        self._plane = plane

    async def page(self, asked: "LockFilter") -> tuple[list[Lock], str | None]:
        """The locks of one page, and the cursor of the next.  Raises Refused."""
        snapshots = _snapshots.setdefault(self._plane.locks, Snapshots())
        index, after = 0, BEFORE_ALL
        if asked.cursor:
            number, index, *rest = self._numbers(asked.cursor)
            after = (rest[0], rest[1])
            snapshot = snapshots.find(number)
        else:
            snapshot = snapshots.make(await self._files(asked))
        matches = self._filter(asked)
        found: list[Lock] = []
        turns = Turns()
        files = snapshot.files
        while index < len(files):
            await turns.pause()
            some = self._plane.locks.inspect.locks_after(files[index], after, LOCKS_AT_ONCE)
            for lock in some:
                if matches(lock):
                    if len(found) == asked.limit:
                        return found, f"{snapshot.number}.{index}.{after[0]}.{after[1]}"
                    found.append(lock)
                after = (lock.start, lock.id)
            if len(some) < LOCKS_AT_ONCE:
                index, after = index + 1, BEFORE_ALL
        return found, None

    def _numbers(self, cursor: str) -> list[int]:
        parts = cursor.split(".")
        if len(parts) != 4 or not all(part.isdecimal() and len(part) < 21 for part in parts):
            raise Refused(400, "that is not a cursor of a listing")
        return [int(part) for part in parts]

    async def _files(self, asked: "LockFilter") -> Sequence[FileRef]:
        inspect = self._plane.locks.inspect
        if asked.path is not None:
            try:
                return [await self._plane.names.find(asked.path)]
            except FileError as error:
                raise Refused(404, f"{asked.path}: {error}") from None
        if asked.client is not None:
            return sorted({lock.file for lock in inspect.locks_of_client(ClientId(asked.client))})
        return inspect.files()

    def _filter(self, asked: "LockFilter") -> Callable[[Lock], bool]:
        share, client, owner, state = asked.share, asked.client, asked.owner, asked.state

        def matches(lock: Lock) -> bool:
            return (
                (share is None or lock.file.share == share)
                and (client is None or lock.owner.client == client)
                and (owner is None or lock.owner.id == owner)
                and (state == "any" or state_of(self._plane, lock) == state)
            )

        return matches
