"""The records of the embedded store, in LMDB: what the log was folded into, and how far.

Used by the server, which reads, and by the folding process, which writes; LMDB keeps the two apart.
"""

import errno
import os
from bisect import bisect_left
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

import lmdb

from dittofs.stores.api import StoreError, StoreFull
from dittofs.stores.data_directory import flush_directory
from dittofs.stores.metadata.ordered import Entry

_FOLDED = b"folded"
MAP_BYTES_LEAST = 1 << 20
SCANNED_AT_ONCE = 64
ROOM_LEAST = 1 << 20
"""With less than this a disk is full, whatever else the error says."""


class RecordFile:
    """Reads see one moment, until `refresh`.  One thread at a time."""

    def __init__(self, directory: Path, *, map_bytes: int, is_read_only: bool = False):
        self._directory = directory
        self._is_read_only = is_read_only
        try:
            is_new = not (directory / "data.mdb").exists()
            if is_read_only and is_new:
                raise StoreError(f"{directory} holds no records")
            self._environment = lmdb.open(
                str(directory),
                map_size=max(map_bytes, MAP_BYTES_LEAST),
                max_dbs=2,
                readonly=is_read_only,
                lock=not is_read_only,
                readahead=False,
                meminit=False,
                create=not is_read_only,
            )
            self._records = self._environment.open_db(b"records", create=not is_read_only)
            self._state = self._environment.open_db(b"state", create=not is_read_only)
            if not is_read_only:
                # A server that was killed leaves its place in the table of readers, and pages nobody may write over.
                self._environment.reader_check()
            if is_new:
                flush_directory(directory)
                flush_directory(directory.parent)
        except (lmdb.Error, OSError) as error:
            raise _store_error(error, f"cannot open {directory}", directory) from error
        self._view = self._environment.begin(db=self._records)
        self.folded = self._read_folded()
        """The last batch of the log that these records hold."""

    @property
    def map_bytes(self) -> int:
        return int(self._environment.info()["map_size"])

    @property
    def free_bytes(self) -> int:
        """Room within the file: LMDB keeps what was removed for what comes, and gives nothing back to the disk."""
        total = int(self._environment.info()["last_pgno"]) + 1
        used = 2  # the pages that say where everything is
        for database in (self._records, self._state):
            statistics = self._view.stat(database)
            used += sum(int(statistics[kind]) for kind in ("branch_pages", "leaf_pages", "overflow_pages"))
        return max(0, total - used) * int(self._environment.stat()["psize"])

    def get(self, key: bytes) -> bytes | None:
        return self._view.get(key)

    def scan(self, start: bytes, end: bytes, limit: int) -> list[Entry]:
        """The first `limit` with start <= key < end."""
        found: list[Entry] = []
        with self._view.cursor() as cursor:
            if limit <= 0 or not cursor.set_range(start):
                return found
            entries = cursor.iternext()
            while len(found) < limit:
                some = list(islice(entries, min(limit - len(found), SCANNED_AT_ONCE)))
                found += some
                if not some or some[-1][0] >= end:
                    break
        return found[: bisect_left(found, (end,))]

    def refresh(self, map_bytes: int = 0) -> None:
        """See what was folded meanwhile; `map_bytes` is how large whoever folded made the map."""
        self._view.abort()
        if map_bytes > self.map_bytes:
            self._environment.set_mapsize(map_bytes)
        self._view = self._environment.begin(db=self._records)
        self.folded = self._read_folded()

    def fold(self, changes: Mapping[bytes, bytes | None], through: int) -> None:
        """Take the changes of all batches up to `through` in one durable transaction; the map grows when it is full."""
        ordered = sorted(changes.items())
        while True:
            try:
                self._fold_once(ordered, through)
                break
            except lmdb.MapFullError:
                self._view.abort()
                self._environment.set_mapsize(self.map_bytes * 2)
                self._view = self._environment.begin(db=self._records)
            except (lmdb.Error, OSError) as error:
                raise _store_error(error, f"cannot write {self._directory}", self._directory) from error
        self.refresh()

    def _fold_once(self, ordered: list[Entry], through: int) -> None:
        with self._environment.begin(db=self._records, write=True) as transaction:
            if int.from_bytes(transaction.get(_FOLDED, db=self._state) or b"", "big") >= through:
                return  # another process was quicker; going on would bring back what it has written since
            # Where keys are in order LMDB stays on the page it is on.
            with transaction.cursor() as cursor:
                cursor.putmulti([(key, value) for key, value in ordered if value is not None])
            for key, value in ordered:
                if value is None:
                    transaction.delete(key)
            transaction.put(_FOLDED, through.to_bytes(8, "big"), db=self._state)

    def close(self) -> None:
        self._view.abort()
        self._environment.close()

    def _read_folded(self) -> int:
        return int.from_bytes(self._view.get(_FOLDED, db=self._state) or b"", "big")


def _store_error(error: lmdb.Error | OSError, what: str, directory: Path) -> StoreError:
    """LMDB has a class for ENOSPC, only words for EDQUOT, and calls a write that ended early for want of room EIO."""
    is_full = isinstance(error, lmdb.DiskError) or "quota" in str(error).lower()
    if not is_full and os.strerror(errno.EIO) in str(error):
        room = os.statvfs(directory)
        is_full = room.f_bavail * room.f_frsize < ROOM_LEAST
    return (StoreFull if is_full else StoreError)(f"{what}: {error}")
