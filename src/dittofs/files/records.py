"""What is kept about files: the records, and the tables they live in."""

from enum import IntEnum
from operator import attrgetter

import msgspec

from dittofs.model.ids import FileId
from dittofs.stores.tables import NamedTable, Table

ROOT_PARENT = FileId(0)
MAX_FILE_SIZE = 2**63 - 1
MAX_LINKS = 2**31 - 1
NAME_MAX = 255
PATH_MAX = 4095
"""The longest target of a symbolic link: what Linux can resolve."""


class FileType(IntEnum):
    """As in RFC 1813's ftype3, so that records need no translation; other protocols map it."""

    REGULAR = 1
    DIRECTORY = 2
    BLOCK_DEVICE = 3
    CHARACTER_DEVICE = 4
    SYMLINK = 5
    SOCKET = 6
    FIFO = 7


class Inode(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One file.  Times are nanoseconds since 1970.  Of a directory, `links`, `mtime` and `ctime` are in its
    `DirectoryState`, because every CREATE changes them; here `ctime` is then that of its own attributes."""

    type: FileType
    mode: int
    uid: int
    gid: int
    links: int
    size: int
    used: int
    atime: int
    mtime: int
    ctime: int
    parent: FileId = ROOT_PARENT
    target: bytes = b""
    device_major: int = 0
    device_minor: int = 0
    verifier: bytes = b""


class DirectoryState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The part of a directory that every change of its entries touches."""

    links: int
    entries: int
    mtime: int
    ctime: int


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A name in a directory.  `displaced` counts the entries whose own place was this one; when it is not 0 the
    places that follow are searched too.  A place that is free but has displaced entries keeps a record with file 0."""

    name: bytes
    file: FileId
    displaced: int = 0


class ShareRecord(msgspec.Struct, frozen=True, array_like=True):
    """What a share was given when it was made."""

    id: bytes
    root: FileId
    handle_key: bytes
    fsid: int


class Reclaim(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Content whose file is gone: to be removed, also after a crash."""

    share: bytes


class Truncation(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Content that must not be longer than this: repeated by recovery, so that old bytes never come back."""

    share: bytes
    size: int


INODES: Table[FileId, Inode] = Table("inode", b"i", "Q", Inode)
DIRECTORIES: Table[FileId, DirectoryState] = Table("directory", b"d", "Q", DirectoryState, beside=INODES)
ENTRIES: Table[tuple[FileId, int], Entry] = Table("entry", b"e", "QQ", Entry, leads_to=(INODES, attrgetter("file")))
SHARES: NamedTable[ShareRecord] = NamedTable("share", b"s", ShareRecord)
RECLAIMS: Table[FileId, Reclaim] = Table("reclaim", b"r", "Q", Reclaim)
TRUNCATIONS: Table[FileId, Truncation] = Table("truncation", b"t", "Q", Truncation)

UNSTABLE: Table[FileId, Inode] = Table("unstable", b"u", "Q", Inode, is_volatile=True)
"""What a file looks like with writes that nobody has asked to be durable yet: shadows its inode."""
