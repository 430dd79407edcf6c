"""Open files of the directory store: a bounded number, the longest unused closed first.

A descriptor that a thread is working with is closed only when that work is done, also if nobody waits for it any more.
Everything but `OpenFile.release` belongs to the loop's thread.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable

from dittofs.model.ids import ContentId
from dittofs.stores.system_errors import store_error

_counting = threading.Lock()


class OpenFile:
    """One open content file; nobody else writes to it, so its size is known."""

    __slots__ = ("_users", "descriptor", "is_dirty", "size")

    def __init__(self, descriptor: int):
        self.descriptor = descriptor
        self.size = os.fstat(descriptor).st_size
        self.is_dirty = True
        """Whether there may be something to flush; a file just opened may have been written before."""
        self._users = 1

    def hold(self) -> None:
        """Keep it open until one more `release`."""
        with _counting:
            assert self._users, "the file is closed"
            self._users += 1

    def release(self) -> None:
        with _counting:
            self._users -= 1
            is_last = not self._users
        if is_last:
            os.close(self.descriptor)


class Descriptors:
    """The table holds one use of each file in it; a thread's work holds another."""

    def __init__(self, limit: int, path_of: Callable[[ContentId], str], *, is_read_only: bool):
        self._limit = limit
        self._flags = (os.O_RDONLY if is_read_only else os.O_RDWR) | os.O_CLOEXEC
        self._path_of = path_of
        self._files: OrderedDict[ContentId, OpenFile] = OrderedDict()
        self._newest: ContentId | None = None
        self._newest_file: OpenFile | None = None
        """The one that was asked for last, which is likely to be asked for next."""

    def get(self, content: ContentId) -> OpenFile | None:
        """The file, opened if need be; None if it does not exist."""
        if content == self._newest:
            return self._newest_file
        file = self._files.get(content)
        if file is not None:
            self._files.move_to_end(content)
            self._newest, self._newest_file = content, file
            return file
        path = self._path_of(content)
        try:
            descriptor = os.open(path, self._flags)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise store_error(error, f"cannot open {path}") from error
        return self._keep(content, descriptor)

    def create(self, content: ContentId) -> OpenFile:
        """A file that does not exist yet, in a directory that does."""
        return self._keep(content, os.open(self._path_of(content), self._flags | os.O_CREAT, 0o600))

    def drop(self, content: ContentId) -> None:
        file = self._files.pop(content, None)
        self._newest = self._newest_file = None
        if file is not None:
            file.release()

    def close(self) -> None:
        for content in list(self._files):
            self.drop(content)

    def _keep(self, content: ContentId, descriptor: int) -> OpenFile:
        file = self._files[content] = self._newest_file = OpenFile(descriptor)
        self._newest = content
        if len(self._files) > self._limit:
            self._files.popitem(last=False)[1].release()
        return file
