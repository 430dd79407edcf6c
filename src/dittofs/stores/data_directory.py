"""A directory that belongs to one store of one running server.

Knows the lock file, the format file and how to make names durable; knows nothing of what else lies there.
"""

import contextlib
import fcntl
import os
import secrets
import tempfile
import time
from pathlib import Path

from dittofs.stores.api import StoreError

LOCK_NAME = "lock"
FORMAT_NAME = "format"
DEAD_HOLDER_SECONDS = 5.0
"""So long a lock outlives its holder at most: see `_lock`."""

_FULL_FLUSH: int | None = getattr(fcntl, "F_FULLFSYNC", None)


def flush_file(descriptor: int) -> None:
    """Make the bytes of a file durable, and its size."""
    if _FULL_FLUSH is not None:
        fcntl.fcntl(descriptor, _FULL_FLUSH)  # on macOS fsync leaves them in the drive's own memory
    else:
        os.fdatasync(descriptor)


def flush_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directories(path: Path) -> None:
    """Make a directory and its parents, durably."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    for directory in reversed(missing):
        with contextlib.suppress(FileExistsError):
            directory.mkdir()
        flush_directory(directory.parent)


SERVER_VERSION = 1


class DataDirectory:
    """Takes the lock and checks the format; `release` gives the lock back.

    The format file is one line such as ``dittofs content-directory format 1 id 0f…``, for people and for us.
    """

    def __init__(self, path: Path, *, kind: str, version: int, is_read_only: bool = False):
        self.path = path
        self.identity = b""
        """Sixteen random bytes given to the store when it was made."""
        self.was_left_clean = True
        """False if the server that had it before did not come to its end."""
        self._kind = kind
        self._version = version
        self._is_read_only = is_read_only
        self._lock: int | None = None

    def acquire(self) -> None:
        """Raises `StoreError` if somebody else has it, or if it is not ours to understand."""
        try:
            if not self._is_read_only:
                make_directories(self.path)
            self._take_lock()
        except OSError as error:
            raise StoreError(f"cannot use {self.path} as a store's directory: {error.strerror}") from error
        try:
            self._check_format()
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Give the lock back, saying that everything was left in order."""
        if self._lock is None:
            return
        if not self._is_read_only:
            with contextlib.suppress(OSError):
                os.ftruncate(self._lock, 0)
        os.close(self._lock)
        self._lock = None

    def _take_lock(self) -> None:
        path = self.path / LOCK_NAME
        flags = os.O_RDONLY if self._is_read_only else os.O_RDWR | os.O_CREAT
        try:
            lock = os.open(path, flags, 0o644)
        except FileNotFoundError as error:
            raise StoreError(f"there is no store in {self.path}") from error
        if not _lock(lock, fcntl.LOCK_SH if self._is_read_only else fcntl.LOCK_EX):
            holder = _holder(lock) or "unknown"
            os.close(lock)
            raise StoreError(f"{self.path} is in use by another process (pid {holder}); stop that one first")
        self._lock = lock
        if not self._is_read_only:
            self.was_left_clean = os.fstat(lock).st_size == 0
            os.ftruncate(lock, 0)
            os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)

    def _check_format(self) -> None:
        path = self.path / FORMAT_NAME
        try:
            text = path.read_text(encoding="ascii", errors="replace")
        except FileNotFoundError:
            self._write_format(path)
            return
        words = text.split()
        if len(words) != 6 or (words[0], words[2], words[4]) != ("dittofs", "format", "id") or not words[3].isdecimal():
            raise StoreError(f"{path} does not say what it should: 'dittofs {self._kind} format N id HEX'")
        if words[1] != self._kind:
            raise StoreError(f"{self.path} holds a {words[1]} store, not a {self._kind} one")
        if int(words[3]) > self._version:
            raise StoreError(
                f"{self.path} has {self._kind} format {words[3]}, written by a newer DittoFS; "
                f"this one knows formats up to {self._version}"
            )
        try:
            self.identity = bytes.fromhex(words[5])
        except ValueError as error:
            raise StoreError(f"the id in {path} is not hexadecimal") from error

    def _write_format(self, path: Path) -> None:
        strangers = sorted(entry.name for entry in self.path.iterdir() if not entry.name.startswith((".", LOCK_NAME)))
        strangers = [name for name in strangers if name not in {"lost+found", FORMAT_NAME + ".new"}]
        if self._is_read_only or strangers:
            what = f"it has {strangers[0]} but no {FORMAT_NAME} file" if strangers else f"it has no {FORMAT_NAME} file"
            raise StoreError(f"{self.path} is not a {self._kind} store: {what}")
        self.identity = secrets.token_bytes(16)
        fresh = path.with_suffix(".new")
        with fresh.open("w", encoding="ascii") as file:
            file.write(f"dittofs {self._kind} format {self._version} id {self.identity.hex()}\n")
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(path)
        flush_directory(self.path)


def server_data(path: Path, *, is_read_only: bool = False) -> DataDirectory:
    """The directory that everything of one server lies in."""
    return DataDirectory(path, kind="server", version=SERVER_VERSION, is_read_only=is_read_only)


def largest_file(directory: Path) -> int:
    """The most bytes that a file there can have: no file system tells, so it is tried, on a file without blocks."""
    with tempfile.TemporaryFile(dir=directory) as probe:
        small, large = 0, 2**63 - 1
        while small < large:
            middle = (small + large + 1) // 2
            try:
                os.ftruncate(probe.fileno(), middle)
                small = middle
            except OSError:
                large = middle - 1
    return small


def _lock(descriptor: int, how: int) -> bool:
    """A server that is killed while it starts a process leaves that child with a copy of its descriptors, and so with
    the lock, until the child has come to its own program: only that is waited for, never a holder that lives."""
    deadline = time.monotonic() + DEAD_HOLDER_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            holder = _holder(descriptor)
            if not holder.isdecimal() or _is_alive(int(holder)) or time.monotonic() > deadline:
                return False
        time.sleep(0.01)


def _holder(descriptor: int) -> str:
    return os.pread(descriptor, 64, 0).decode(errors="replace").strip()


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
