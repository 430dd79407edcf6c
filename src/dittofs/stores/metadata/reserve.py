"""Room that is kept back, so that a full disk can be emptied again: removing a file needs some, too."""

import contextlib
import os
from pathlib import Path


class SpaceReserve:
    """A file of a set size that is given up when the disk is full, and made again when there is room."""

    def __init__(self, path: Path, size: int):
        self._path = path
        self.size = size

    @property
    def is_held(self) -> bool:
        try:
            return self._path.stat().st_size == self.size
        except FileNotFoundError:
            return self.size == 0

    def give_up(self) -> bool:
        """True if that made room."""
        if self.size == 0:
            return False
        try:
            self._path.unlink()
        except FileNotFoundError:
            return False
        return True

    def take(self) -> bool:
        """Make it, if there is room for twice as much.  True if it is held now."""
        if self.is_held:
            return True
        free = os.statvfs(self._path.parent)
        if free.f_bavail * free.f_frsize < 2 * self.size:
            return False
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return False
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, 0, self.size)
            else:
                os.pwrite(descriptor, bytes(self.size), 0)
        except OSError:
            with contextlib.suppress(FileNotFoundError):
                self._path.unlink()
            return False
        finally:
            os.close(descriptor)
        return True
