"""Part of a content file that a socket takes straight from the page cache."""

import os

from dittofs.model.unread import Unread
from dittofs.stores.content.buffers import ReadBuffers
from dittofs.stores.content.descriptors import OpenFile


class FileSlice(Unread):
    """Keeps its file open as long as it exists."""

    __slots__ = ("_buffers", "_count", "_file", "_offset")

    def __init__(self, file: OpenFile, offset: int, count: int, buffers: ReadBuffers):
        file.hold()
        self._file = file
        self._offset = offset
        self._count = count
        self._buffers = buffers

    def __del__(self) -> None:
        self._file.release()

    def __len__(self) -> int:
        return self._count

    def send(self, descriptor: int) -> int:
        sent = 0
        try:
            while sent < self._count:
                more = os.sendfile(descriptor, self._file.descriptor, self._offset + sent, self._count - sent)
                if not more:
                    break  # cut meanwhile: the rest is zeros
                sent += more
        except OSError:
            pass  # the socket is full, or the file system knows no such thing: the rest goes another way
        return sent

    def rest(self, sent: int) -> bytearray | memoryview:
        buffer = self._buffers.take(self._count - sent)
        read_fully(self._file.descriptor, memoryview(buffer), self._offset + sent)
        return buffer


def read_fully(descriptor: int, buffer: memoryview, offset: int) -> None:
    while buffer:
        done = os.preadv(descriptor, [buffer], offset)
        if not done:
            buffer[:] = bytes(len(buffer))  # cut by somebody meanwhile: zeros, as behind any end
            return
        buffer, offset = buffer[done:], offset + done
