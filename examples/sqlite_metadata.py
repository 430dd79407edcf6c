"""A metadata store in SQLite: the whole contract in one small class.

One transaction is always open.  `apply` writes to it, so that reads see every batch at once; `flush` commits it, which
makes all batches so far durable; `revert` rolls it back, which is exactly what is not durable.
"""

import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from dittofs.stores.api import Change, MetadataStore, StoreError, StoreFull, check_keys


class SqliteMetadataStore(MetadataStore):
    is_volatile: ClassVar[bool] = False

    def __init__(self, path: Path) -> None:
        self._path = Path(path)
        self._lock = threading.Lock()  # `flush` comes from another thread than everything else
        self._database: sqlite3.Connection

    def open(self) -> None:
        self._path.mkdir(parents=True, exist_ok=True)
        try:
            self._database = sqlite3.connect(
                self._path / "records.sqlite", isolation_level=None, check_same_thread=False
            )
            self._database.execute("PRAGMA locking_mode = EXCLUSIVE")  # a second server is refused
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS records (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID"
            )
            self._database.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            raise StoreError(f"cannot open {self._path}: {error}") from error

    def close(self) -> None:
        self.flush()
        self._database.close()

    def get(self, key: bytes) -> bytes | None:
        with self._lock:
            found = self._database.execute("SELECT value FROM records WHERE key = ?", (key,)).fetchone()
        return None if found is None else found[0]

    def scan(self, start: bytes, end: bytes, limit: int) -> Sequence[tuple[bytes, bytes]]:
        query = "SELECT key, value FROM records WHERE key >= ? AND key < ? ORDER BY key LIMIT ?"
        with self._lock:
            return self._database.execute(query, (start, end, limit)).fetchall()

    def apply(self, changes: Sequence[Change]) -> None:
        check_keys(changes)
        with self._lock:
            try:
                self._database.execute("SAVEPOINT batch")  # whole or not at all
                for key, value in changes:
                    if value is None:
                        self._database.execute("DELETE FROM records WHERE key = ?", (key,))
                    else:
                        self._database.execute("INSERT OR REPLACE INTO records VALUES (?, ?)", (key, value))
            except sqlite3.Error as error:
                self._database.execute("ROLLBACK TO batch")
                raise _store_error(error) from error
            finally:
                self._database.execute("RELEASE batch")

    def flush(self) -> None:
        with self._lock:
            try:
                self._database.execute("COMMIT")
                self._database.execute("BEGIN IMMEDIATE")
            except sqlite3.Error as error:
                raise _store_error(error) from error

    def revert(self) -> None:
        with self._lock:
            self._database.execute("ROLLBACK")
            self._database.execute("BEGIN IMMEDIATE")


def _store_error(error: sqlite3.Error) -> StoreError:
    is_full = error.sqlite_errorcode == sqlite3.SQLITE_FULL
    return (StoreFull if is_full else StoreError)(f"SQLite says: {error}")
