"""What the rules hand around within one call: a file at a moment, what was sought, what was done.

Kept apart from the rules, which may be compiled: these are read from their annotations at run time, and are made
several times in every call, so that what making one costs counts (a sixth of a NamedTuple).
"""

from enum import Enum

import msgspec

from dittofs.files.records import DirectoryState, Entry, Inode
from dittofs.model.ids import FileId, ShareId


class File(msgspec.Struct, frozen=True, gc=False):
    """A file at one moment.  `inode` is the one in effect: with writes that are not durable yet."""

    id: FileId
    inode: Inode
    state: DirectoryState | None

    @property
    def is_directory(self) -> bool:
        return self.state is not None

    @property
    def links(self) -> int:
        state = self.state
        return self.inode.links if state is None else state.links

    @property
    def mtime(self) -> int:
        state = self.state
        return self.inode.mtime if state is None else state.mtime

    @property
    def ctime(self) -> int:
        state = self.state
        return self.inode.ctime if state is None else state.ctime


class Change(msgspec.Struct, frozen=True, gc=False):
    """What a procedure did: the file it was about, and the directory (or, where there is none, the file) before and
    after, taken inside the transaction."""

    file: File
    before: File
    after: File
    truncate_to: int | None = None
    """Of a CREATE: a size that a file which was there already is still to be cut to."""


class Renamed(msgspec.Struct, frozen=True, gc=False):
    """What RENAME did.  If both directories are one, both pairs tell of it."""

    file: File
    from_before: File
    from_after: File
    to_before: File
    to_after: File


class Removed(msgspec.Struct, frozen=True, gc=False):
    """Effect: the last link of a file is gone, and with it its content and its locks."""

    share: ShareId
    file: FileId


class EntriesChanged(msgspec.Struct, frozen=True, gc=False):
    """What one change of its entries does to a directory.  Such changes commute."""

    links: int
    entries: int
    now: int


class Sought(msgspec.Struct, frozen=True, gc=False):
    """What was found where a name belongs.  Valid until the directory's entries are changed."""

    name: bytes
    home: int
    at_home: Entry | None
    place: int
    entry: Entry | None
    """The name's own entry, which lies at `place`; None if there is none."""


class ServerTime(Enum):
    """A time that the server is to fill in."""

    NOW = "now"


class SetAttributes(msgspec.Struct, frozen=True, gc=False):
    """What to set; None leaves an attribute as it is.  Times are nanoseconds since 1970."""

    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    size: int | None = None
    atime: int | ServerTime | None = None
    mtime: int | ServerTime | None = None


NOTHING = SetAttributes()
