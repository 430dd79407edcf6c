"""Attributes that a client sets, at creation and later: RFC 1813 3.3.2, and who may as POSIX and Linux have it."""

from typing import Final

from msgspec.structs import replace

from dittofs.files import access
from dittofs.files.inodes import mark_changed, store
from dittofs.files.records import DIRECTORIES, INODES, MAX_FILE_SIZE, ROOT_PARENT, DirectoryState, FileType, Inode
from dittofs.files.values import NOTHING, Change, File, ServerTime, SetAttributes
from dittofs.model.errors import (
    AccessDenied,
    FileTooBig,
    GuardFailed,
    InvalidArgument,
    IsADirectory,
    NotPermitted,
)
from dittofs.model.identity import Identity
from dittofs.model.ids import FileId
from dittofs.stores.tables import View

MODE_BITS: Final = 0o7777
UNSPECIFIED_MODE: Final = 0o600
UNSPECIFIED_DIRECTORY_MODE: Final = 0o700

# An attribute of an Enum class costs as much as a look-up in a table.
_REGULAR: Final = FileType.REGULAR
_DIRECTORY: Final = FileType.DIRECTORY
_NOW: Final = ServerTime.NOW


def new_inode(
    identity: Identity,
    directory: Inode,
    kind: FileType,
    wanted: SetAttributes,
    now: int,
    *,
    parent: FileId = ROOT_PARENT,
    target: bytes = b"",
    device_major: int = 0,
    device_minor: int = 0,
    verifier: bytes = b"",
) -> Inode:
    """The inode of a file made in a directory.  Only root chooses another owner; what others send is passed over, as
    the Linux server does (Irix sends a group with each CREATE)."""
    is_directory = kind is _DIRECTORY
    mode, size, atime, mtime = wanted.mode, wanted.size, wanted.atime, wanted.mtime
    if mode is None:
        mode = UNSPECIFIED_DIRECTORY_MODE if is_directory else UNSPECIFIED_MODE
    mode &= MODE_BITS
    user, group = identity.uid, identity.gid
    if directory.mode & access.SET_GROUP:
        group = access.new_group(identity, directory)
        mode = access.new_mode(identity, directory, mode, is_directory=is_directory)
    if user == 0:
        user = user if wanted.uid is None else wanted.uid
        group = group if wanted.gid is None else wanted.gid
    if size is None or kind is not _REGULAR:
        size = len(target)
    elif size > MAX_FILE_SIZE:
        raise FileTooBig(f"size {size}: a file has at most {MAX_FILE_SIZE} bytes")
    return Inode(
        kind,
        mode,
        user,
        group,
        2 if is_directory else 1,
        size,
        0,
        now if atime is None else _moment(atime, now, now),
        now if mtime is None else _moment(mtime, now, now),
        now,
        parent,
        target,
        device_major,
        device_minor,
        verifier,
    )


def _moment(wanted: int | ServerTime | None, now: int, current: int) -> int:
    if wanted is None:
        return current
    return now if wanted is _NOW else wanted


def set_attributes(
    view: View, identity: Identity, file: File, wanted: SetAttributes, guard_ctime: int | None = None
) -> Change:
    """Set everything but a size: that concerns content too, and is `io.set_attributes`."""
    assert wanted.size is None, "a size is set by io.set_attributes"
    check(identity, file, wanted, guard_ctime)
    wanted = _without_what_does_not_apply(file, wanted)
    if wanted == NOTHING:
        return Change(file, file, file)
    inode = changed(identity, file, wanted, view.now)
    if file.state is None:
        after = store(view, file, inode)
    else:
        after = _store_directory(view, file, inode, wanted)
    return Change(after, file, after)


def _without_what_does_not_apply(file: File, wanted: SetAttributes) -> SetAttributes:
    """A symbolic link has no mode of its own: setting it succeeds and does nothing."""
    return replace(wanted, mode=None) if file.inode.type is FileType.SYMLINK else wanted


def _store_directory(view: View, file: File, inode: Inode, wanted: SetAttributes) -> File:
    view.put(INODES, file.id, inode)
    after = mark_changed(view, file)
    state = after.state
    assert state is not None, "a directory has a state"
    if wanted.mtime is not None:
        # Not a merge: the last one who says what the time is, is right.
        state = DirectoryState(state.links, state.entries, inode.mtime, state.ctime)
        view.put(DIRECTORIES, file.id, state)
    return File(file.id, inode, state)


def check(identity: Identity, file: File, wanted: SetAttributes, guard_ctime: int | None) -> None:
    """Whether this user may set these.  Raises GuardFailed, NotPermitted, AccessDenied, IsADirectory, InvalidArgument,
    FileTooBig."""
    inode = file.inode
    if guard_ctime is not None and guard_ctime != file.ctime:
        raise GuardFailed("the file was changed since the client saw it")
    is_owner = access.is_owner(identity, inode)
    if wanted.uid is not None and identity.uid != 0 and not (is_owner and wanted.uid == inode.uid):
        raise NotPermitted("only root gives a file to somebody else")
    if wanted.gid is not None and identity.uid != 0:
        if not is_owner or not (wanted.gid == inode.gid or identity.is_member(wanted.gid)):
            raise NotPermitted("only its owner gives a file to a group, and must be in it")
    if wanted.mode is not None and not is_owner:
        raise NotPermitted("only its owner changes a file's mode")
    if not is_owner:
        _check_times(identity, inode, wanted)
    if wanted.size is not None:
        _check_size(identity, inode, wanted.size)


def _check_times(identity: Identity, inode: Inode, wanted: SetAttributes) -> None:
    for time in (wanted.atime, wanted.mtime):
        if time is ServerTime.NOW:
            if not access.permits(identity, inode, access.WRITE):
                raise AccessDenied("touching a file takes write permission")
        elif time is not None:
            raise NotPermitted("only its owner sets a file's times")


def _check_size(identity: Identity, inode: Inode, size: int) -> None:
    if inode.type is FileType.DIRECTORY:
        raise IsADirectory("a directory's size cannot be set")
    if inode.type is not FileType.REGULAR:
        raise InvalidArgument("only a regular file's size can be set")
    if not access.may_write_content(identity, inode):
        raise AccessDenied("setting the size takes write permission")
    if size > MAX_FILE_SIZE:
        raise FileTooBig(f"size {size}: a file has at most {MAX_FILE_SIZE} bytes")


def changed(identity: Identity, file: File, wanted: SetAttributes, now: int) -> Inode:
    """The inode after what was checked is set.  Of a directory `mtime` counts only if it was wanted."""
    inode = file.inode
    mode, uid, gid, size = inode.mode, inode.uid, inode.gid, inode.size
    mtime = _moment(wanted.mtime, now, file.mtime)
    ctime = max(now, file.ctime + 1)
    if wanted.uid is not None:
        uid = wanted.uid
    if wanted.gid is not None:
        gid = wanted.gid
    if wanted.mode is not None:
        mode = wanted.mode & MODE_BITS
        if identity.uid != 0 and not identity.is_member(gid):
            mode &= ~access.SET_GROUP
    if wanted.size is not None:
        size = wanted.size
        mode = access.without_privileges(mode)
        if wanted.mtime is None:
            mtime = ctime
    if (wanted.uid is not None or wanted.gid is not None) and file.state is None:
        mode = access.without_privileges(mode)
    return replace(
        inode,
        mode=mode,
        uid=uid,
        gid=gid,
        size=size,
        atime=_moment(wanted.atime, now, inode.atime),
        mtime=mtime,
        ctime=ctime,
        verifier=b"",
    )
