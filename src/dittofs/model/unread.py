"""Bytes that are there but were not read: they may go from where they are to a socket without passing through us."""


class Unread:
    """Stands among the pieces of an answer in the place of the bytes; encoding asks it for nothing but its length."""

    __slots__ = ()

    def __len__(self) -> int:
        raise NotImplementedError

    def send(self, descriptor: int) -> int:
        """Give a socket as much as it takes without waiting; how much it took, from the beginning."""
        raise NotImplementedError

    def rest(self, sent: int) -> bytes | bytearray | memoryview:
        """What comes behind so many bytes, read after all.  Raises OSError."""
        raise NotImplementedError
