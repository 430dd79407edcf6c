"""A content store in SQLite: each file as pieces of 64 KiB, so that holes cost nothing.

Everything is in memory or in the page cache, so nothing here waits but the commit; a store that talks to another
machine would `await` its answers instead.  One transaction is always open, and `sync` commits it.
"""

import asyncio
import shutil
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from dittofs.model.ids import ContentId, FileId, ShareId
from dittofs.stores.api import Buffer, ContentStore, StoreError, StoreFull, Usage

PIECE = 65_536

SCHEMA = """
CREATE TABLE IF NOT EXISTS files (content TEXT PRIMARY KEY, size INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS pieces (content TEXT, number INTEGER, data BLOB, PRIMARY KEY (content, number));
"""


class SqliteContentStore(ContentStore):
    is_volatile: ClassVar[bool] = False

    def __init__(self, path: Path) -> None:
        self._path = Path(path)
        self._committing = threading.Lock()
        self._database: sqlite3.Connection

    def open(self) -> None:
        self._path.mkdir(parents=True, exist_ok=True)
        self._database = sqlite3.connect(self._path / "content.sqlite", isolation_level=None, check_same_thread=False)
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = FULL")
        self._database.executescript(SCHEMA)
        self._database.execute("BEGIN")

    def close(self) -> None:
        self._commit()
        self._database.close()

    async def read(self, content: ContentId, offset: int, count: int) -> Buffer:
        end = min(offset + count, self._size(content))
        if end <= offset:
            return b""
        first = offset // PIECE
        query = "SELECT number, data FROM pieces WHERE content = ? AND number BETWEEN ? AND ?"
        found = bytearray(end - first * PIECE)
        for number, data in self._database.execute(query, (content.text(), first, (end - 1) // PIECE)):
            begin = (number - first) * PIECE
            found[begin : begin + len(data)] = data
        return memoryview(found)[offset - first * PIECE : end - first * PIECE]

    async def write(self, content: ContentId, offset: int, data: Buffer) -> None:
        view = memoryview(data)
        if not view:
            return
        size = max(self._size(content), offset + len(view))
        with self._committing:
            self._write(content, offset, view, size)

    def _write(self, content: ContentId, offset: int, view: memoryview, size: int) -> None:
        try:
            self._database.execute("SAVEPOINT writing")  # whole or not at all
            self._database.execute("INSERT OR REPLACE INTO files VALUES (?, ?)", (content.text(), size))
            while view:
                number, begin = divmod(offset, PIECE)
                part = view[: PIECE - begin]
                self._put(content, number, begin, bytes(part))
                view, offset = view[len(part) :], offset + len(part)
        except sqlite3.Error as error:
            self._database.execute("ROLLBACK TO writing")
            is_full = error.sqlite_errorcode == sqlite3.SQLITE_FULL
            raise (StoreFull if is_full else StoreError)(f"SQLite says: {error}") from error
        finally:
            self._database.execute("RELEASE writing")

    async def truncate(self, content: ContentId, size: int) -> None:
        if size >= self._size(content):
            return
        last, rest = divmod(size, PIECE)
        cut = "UPDATE pieces SET data = substr(data, 1, ?) WHERE content = ? AND number = ?"
        with self._committing:
            self._database.execute("UPDATE files SET size = ? WHERE content = ?", (size, content.text()))
            self._database.execute("DELETE FROM pieces WHERE content = ? AND number > ?", (content.text(), last))
            self._database.execute(cut, (rest, content.text(), last))

    async def sync(self, content: ContentId) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._commit)

    async def remove(self, content: ContentId) -> None:
        with self._committing:
            self._database.execute("DELETE FROM files WHERE content = ?", (content.text(),))
            self._database.execute("DELETE FROM pieces WHERE content = ?", (content.text(),))

    async def sync_removals(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._commit)

    async def allocated(self, content: ContentId) -> int:
        query = "SELECT coalesce(sum(length(data)), 0) FROM pieces WHERE content = ?"
        return int(self._database.execute(query, (content.text(),)).fetchone()[0])

    def usage(self) -> Usage:
        disk = shutil.disk_usage(self._path)
        return Usage(total=disk.total, free=disk.free, available=disk.free)

    def contents(self, share: ShareId) -> Sequence[ContentId]:
        query = "SELECT content FROM files WHERE content GLOB ?"
        names = (row[0] for row in self._database.execute(query, (share.hex() + "-*",)))
        return [ContentId(share, FileId(int(name.rpartition("-")[2], 16))) for name in names]

    def _commit(self) -> None:
        with self._committing:  # between COMMIT and BEGIN nothing may be written
            self._database.execute("COMMIT")
            self._database.execute("BEGIN")

    def _size(self, content: ContentId) -> int:
        found = self._database.execute("SELECT size FROM files WHERE content = ?", (content.text(),)).fetchone()
        return 0 if found is None else int(found[0])

    def _put(self, content: ContentId, number: int, begin: int, data: bytes) -> None:
        where = (content.text(), number)
        found = self._database.execute("SELECT data FROM pieces WHERE content = ? AND number = ?", where).fetchone()
        piece = bytearray(found[0] if found is not None else b"")
        piece.extend(bytes(max(0, begin - len(piece))))
        piece[begin : begin + len(data)] = data
        self._database.execute("INSERT OR REPLACE INTO pieces VALUES (?, ?, ?)", (*where, piece))
