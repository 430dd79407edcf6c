"""Identifiers.  Distinct ids are distinct types, so that the type checker keeps them apart."""

from typing import NamedTuple, NewType

FileId = NewType("FileId", int)
"""A file within one metadata store: never 0, never reused [NFS-7]."""

ShareName = NewType("ShareName", str)
"""The name a share is exported under, such as ``/export``."""

ShareId = NewType("ShareId", bytes)
"""Eight random bytes given to a share when it is made; handles and content names carry it."""

ClientId = NewType("ClientId", str)
"""One client of one adapter, joined without ambiguity by the adapter; never parsed."""

LockId = NewType("LockId", int)
Ticket = NewType("Ticket", int)


class FileRef(NamedTuple):
    """A file among all shares: what the lock table is keyed by."""

    share: ShareName
    file: FileId


class ContentId(NamedTuple):
    """The content of one file, unique over all shares and servers that use one content store."""

    share: ShareId
    file: FileId

    def text(self) -> str:
        """Hexadecimal, fixed length, safe as a file or object name."""
        return f"{self.share.hex()}-{self.file:016x}"
