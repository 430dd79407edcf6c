"""Who may do what to a file (pure): mode bits, and where file servers differ from a local file system."""

from typing import Final

from dittofs.files.records import FileType, Inode
from dittofs.model.identity import Identity

READ: Final = 4
WRITE: Final = 2
EXECUTE: Final = 1
"""Of a directory: to search it."""

SET_USER: Final = 0o4000
SET_GROUP: Final = 0o2000
STICKY: Final = 0o1000
GROUP_EXECUTE: Final = 0o010
ANY_EXECUTE: Final = 0o111

# RFC 1813 3.3.4
ACCESS_READ: Final = 0x01
ACCESS_LOOKUP: Final = 0x02
ACCESS_MODIFY: Final = 0x04
ACCESS_EXTEND: Final = 0x08
ACCESS_DELETE: Final = 0x10
ACCESS_EXECUTE: Final = 0x20
ACCESS_CHANGES: Final = ACCESS_MODIFY | ACCESS_EXTEND | ACCESS_DELETE

_DIRECTORY: Final = FileType.DIRECTORY
_REGULAR: Final = FileType.REGULAR


def permits(identity: Identity, inode: Inode, wanted: int) -> bool:
    """Whether the mode bits allow all of `wanted` (a sum of READ, WRITE, EXECUTE).  Root may do everything, except
    execute what nobody may execute."""
    mode = inode.mode
    uid = identity.uid
    if uid == 0:
        return not wanted & EXECUTE or bool(mode & ANY_EXECUTE) or inode.type is _DIRECTORY
    if uid == inode.uid:
        mode >>= 6
    elif inode.gid == identity.gid or inode.gid in identity.groups:
        mode >>= 3
    return mode & wanted == wanted


def may_read_content(identity: Identity, inode: Inode) -> bool:
    """The owner always may: the client checked when the file was opened, and the mode may have changed since.  Execute
    permits reading, because that is how a client runs a program [NFS-4]."""
    return (
        identity.uid == inode.uid
        or permits(identity, inode, READ)
        or (inode.type is _REGULAR and permits(identity, inode, EXECUTE))
    )


def may_write_content(identity: Identity, inode: Inode) -> bool:
    """The owner always may: git and tar write to files they made with mode 0444 [NFS-4]."""
    return identity.uid == inode.uid or permits(identity, inode, WRITE)


def may_take_away(identity: Identity, directory: Inode, inode: Inode) -> bool:
    """The sticky bit: only the owner of the file or of the directory may remove or rename it."""
    uid = identity.uid
    return not directory.mode & STICKY or uid == 0 or uid in (inode.uid, directory.uid)


def is_owner(identity: Identity, inode: Inode) -> bool:
    """The owner, or root, who may act as one."""
    return identity.uid in (0, inode.uid)


def without_privileges(mode: int) -> int:
    """The mode after somebody changed content or owner: setuid goes, and setgid where it means a privilege."""
    return mode & ~(SET_USER | SET_GROUP) if mode & GROUP_EXECUTE else mode & ~SET_USER


def new_group(identity: Identity, directory: Inode) -> int:
    """The group of a file made in this directory."""
    return directory.gid if directory.mode & SET_GROUP else identity.gid


def new_mode(identity: Identity, directory: Inode, mode: int, *, is_directory: bool) -> int:
    """The mode of a file made in this directory: directories hand setgid down; a program that would run with a group
    its maker is not in does not get the bit, as on Linux."""
    if not directory.mode & SET_GROUP:
        return mode
    if is_directory:
        return mode | SET_GROUP
    if mode & SET_GROUP and mode & GROUP_EXECUTE and identity.uid != 0 and not identity.is_member(directory.gid):
        return mode & ~SET_GROUP
    return mode


def granted(identity: Identity, inode: Inode, wanted: int, *, is_read_only: bool = False) -> int:
    """RFC 1813's ACCESS: which of the wanted bits are allowed.  Here the owner is told what the mode says, so that
    open(2) fails where a program expects it to."""
    if is_read_only:
        wanted &= ~ACCESS_CHANGES
    allowed = ACCESS_READ if wanted & ACCESS_READ and permits(identity, inode, READ) else 0
    if inode.type is _DIRECTORY:
        if permits(identity, inode, EXECUTE):
            allowed |= ACCESS_LOOKUP
            if wanted & ACCESS_CHANGES and permits(identity, inode, WRITE):
                allowed |= ACCESS_CHANGES
    else:
        if wanted & ACCESS_CHANGES and permits(identity, inode, WRITE):
            allowed |= ACCESS_MODIFY | ACCESS_EXTEND
        if wanted & ACCESS_EXECUTE and permits(identity, inode, EXECUTE):
            allowed |= ACCESS_EXECUTE
    return allowed & wanted
