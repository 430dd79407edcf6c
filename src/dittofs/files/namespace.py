"""The tree of names: look up, create, remove, rename, link, list.

Plain functions over a transaction's view: repeatable, no effect but on the view.  Directories come in loaded, as the
transaction sees them; every change tells how its directory looked before and looks after.  Where RFC 1813 leaves a
choice, the order of checks is that of a local file system: search permission, existence, write permission, sticky bit.
"""

from enum import Enum
from typing import Final, NamedTuple

from msgspec.structs import replace

from dittofs.files import entries
from dittofs.files.access import EXECUTE, READ, WRITE, may_take_away, may_write_content, permits
from dittofs.files.attributes import new_inode
from dittofs.files.cookies import END_OF_PLACES, PARENT_COOKIE, SELF_COOKIE
from dittofs.files.inodes import add_directory, change_entries, drop_directory, drop_link, load, store
from dittofs.files.records import ENTRIES, INODES, MAX_LINKS, NAME_MAX, PATH_MAX, ROOT_PARENT, FileType
from dittofs.files.tree import Tree
from dittofs.files.values import Change, File, SetAttributes, Sought
from dittofs.model.errors import (
    AccessDenied,
    AlreadyExists,
    BadCookie,
    DirectoryNotEmpty,
    InvalidArgument,
    IsADirectory,
    NameTooLong,
    NotADirectory,
    NotFound,
    NotPermitted,
    StaleHandle,
    TooManyLinks,
    WrongType,
)
from dittofs.model.identity import Identity
from dittofs.model.ids import FileId
from dittofs.stores.tables import View

SELF: Final = b"."
PARENT: Final = b".."
DOTS: Final = (SELF, PARENT)

# Numbers: to look for bytes in bytes, Python first fails to take them for a number, which costs six times as much.
SLASH: Final = ord("/")
NUL: Final = 0

_REGULAR: Final = FileType.REGULAR
_DIRECTORY: Final = FileType.DIRECTORY
_SYMLINK: Final = FileType.SYMLINK
_SPECIAL: Final = (FileType.BLOCK_DEVICE, FileType.CHARACTER_DEVICE, FileType.SOCKET, FileType.FIFO)
_DEVICES: Final = (FileType.BLOCK_DEVICE, FileType.CHARACTER_DEVICE)


class CreateMode(Enum):
    """What a CREATE does about a file that is there already (RFC 1813 3.3.8)."""

    UNCHECKED = "unchecked"
    GUARDED = "guarded"
    EXCLUSIVE = "exclusive"


_EXCLUSIVE: Final = CreateMode.EXCLUSIVE


class Listed(NamedTuple):
    """One entry of a directory.  `file` is None where attributes were not asked for or are not for this user."""

    cookie: int
    name: bytes
    id: FileId
    file: File | None


class Listing(NamedTuple):
    """Part of a directory."""

    entries: list[Listed]
    at_end: bool


def check_name(name: bytes) -> None:
    """RFC 1813 3.2: a name of no bytes, or one that no client could reach, is refused with ACCES."""
    if len(name) > NAME_MAX:
        raise NameTooLong(f"a name of {len(name)} bytes: at most {NAME_MAX} are allowed")
    if not name or SLASH in name or NUL in name:
        raise AccessDenied("a name is not empty and holds neither '/' nor NUL")


def check_search(identity: Identity, directory: File) -> None:
    """Whether names in it can be used at all."""
    if directory.state is None:
        raise NotADirectory("names are looked up in directories")
    if not permits(identity, directory.inode, EXECUTE):
        raise AccessDenied("no permission to search the directory")


def check_write(identity: Identity, directory: File) -> None:
    """Whether its entries may be changed."""
    if not permits(identity, directory.inode, WRITE):
        raise AccessDenied("no permission to write in the directory")


def lookup(view: View, tree: Tree, identity: Identity, directory: File, name: bytes) -> File:
    """RFC 1813 3.3.3."""
    check_search(identity, directory)
    # The common case first, without the look at the name: what cannot be a name is not found.
    entry = view.get(ENTRIES, (directory.id, tree.place_of(name)))
    if entry is not None and entry.name == name and entry.file:
        return load(view, entry.file)
    if name == SELF:
        return directory
    if name == PARENT:
        return load(view, parent_of(directory))
    check_name(name)
    if entry is not None and entry.displaced:
        displaced = entries.seek(view, tree, directory.id, name).entry
        if displaced is not None:
            return load(view, displaced.file)
    raise NotFound("no such name in the directory")


def parent_of(directory: File) -> FileId:
    """Above the root of a share there is the root."""
    parent = directory.inode.parent
    return directory.id if parent == ROOT_PARENT else parent


def read_symlink(file: File) -> bytes:
    """RFC 1813 3.3.5.  Everybody may: a link has no permissions of its own."""
    if file.inode.type is not FileType.SYMLINK:
        raise InvalidArgument("only a symbolic link has a target")
    return file.inode.target


def create(
    view: View,
    tree: Tree,
    identity: Identity,
    directory: File,
    name: bytes,
    wanted: SetAttributes,
    mode: CreateMode,
    verifier: bytes = b"",
) -> Change:
    """RFC 1813 3.3.8: a regular file.  The verifier of an exclusive create is kept with the file, so that the same
    request is recognised also after a restart."""
    sought = _seek_for_new(view, tree, identity, directory, name)
    if sought.entry is not None:
        return _existing(view, identity, directory, sought.entry.file, wanted, mode, verifier)
    check_write(identity, directory)
    kept = verifier if mode is _EXCLUSIVE else b""
    inode = new_inode(identity, directory.inode, _REGULAR, wanted, view.now, verifier=kept)
    file = File(view.new_file_id(), inode, None)
    view.put(INODES, file.id, inode)
    entries.add(view, directory.id, sought, file.id)
    return Change(file, directory, change_entries(view, directory, links=0, entries=1))


def _existing(
    view: View,
    identity: Identity,
    directory: File,
    existing: FileId,
    wanted: SetAttributes,
    mode: CreateMode,
    verifier: bytes,
) -> Change:
    """CREATE of a name that is taken.  Of the attributes only the size is applied, as open(2) with O_TRUNC would."""
    file = load(view, existing)
    if mode is CreateMode.UNCHECKED:
        if wanted.size is None or file.inode.type is not _REGULAR:
            return Change(file, directory, directory)
        if not may_write_content(identity, file.inode):
            raise AccessDenied("no permission to truncate the file")
        return Change(file, directory, directory, wanted.size)
    if mode is _EXCLUSIVE and verifier and file.inode.verifier == verifier:
        return Change(file, directory, directory)
    raise AlreadyExists("the name is taken")


def _seek_for_new(view: View, tree: Tree, identity: Identity, directory: File, name: bytes) -> Sought:
    """Look where a new name would go."""
    check_search(identity, directory)
    check_name(name)
    if name in DOTS:
        raise AlreadyExists("every directory has '.' and '..'")
    return entries.seek(view, tree, directory.id, name)


def _seek_vacant(view: View, tree: Tree, identity: Identity, directory: File, name: bytes) -> Sought:
    """Look where a new name goes, which must be free, and by somebody who may put it there."""
    sought = _seek_for_new(view, tree, identity, directory, name)
    if sought.entry is not None:
        raise AlreadyExists("the name is taken")
    check_write(identity, directory)
    return sought


def make_directory(
    view: View, tree: Tree, identity: Identity, directory: File, name: bytes, wanted: SetAttributes
) -> Change:
    """RFC 1813 3.3.9."""
    sought = _seek_vacant(view, tree, identity, directory, name)
    if directory.links >= MAX_LINKS:
        raise TooManyLinks(f"a directory has at most {MAX_LINKS - 2} directories in it")
    inode = new_inode(identity, directory.inode, _DIRECTORY, wanted, view.now, parent=directory.id)
    file = add_directory(view, inode)
    entries.add(view, directory.id, sought, file.id)
    return Change(file, directory, change_entries(view, directory, links=1, entries=1))


def make_symlink(
    view: View, tree: Tree, identity: Identity, directory: File, name: bytes, target: bytes, wanted: SetAttributes
) -> Change:
    """RFC 1813 3.3.10.  What the target says is the client's business."""
    sought = _seek_vacant(view, tree, identity, directory, name)
    if not target or b"\0" in target:
        raise InvalidArgument("a target is not empty and holds no NUL")
    if len(target) > PATH_MAX:
        raise NameTooLong(f"a target of {len(target)} bytes: at most {PATH_MAX} are allowed")
    wanted = replace(wanted, mode=0o777)
    inode = new_inode(identity, directory.inode, _SYMLINK, wanted, view.now, target=target)
    return _enter(view, directory, sought, File(view.new_file_id(), inode, None))


def make_special(
    view: View,
    tree: Tree,
    identity: Identity,
    directory: File,
    name: bytes,
    kind: FileType,
    wanted: SetAttributes,
    device_major: int = 0,
    device_minor: int = 0,
) -> Change:
    """RFC 1813 3.3.11: devices, by root only, sockets and pipes."""
    if kind not in _SPECIAL:
        raise WrongType(f"{kind.name} is not made by MKNOD")
    sought = _seek_vacant(view, tree, identity, directory, name)
    if kind in _DEVICES and identity.uid != 0:
        raise NotPermitted("only root makes devices")
    if kind not in _DEVICES:
        device_major = device_minor = 0
    inode = new_inode(
        identity, directory.inode, kind, wanted, view.now, device_major=device_major, device_minor=device_minor
    )
    return _enter(view, directory, sought, File(view.new_file_id(), inode, None))


def _enter(view: View, directory: File, sought: Sought, file: File) -> Change:
    view.put(INODES, file.id, file.inode)
    entries.add(view, directory.id, sought, file.id)
    return Change(file, directory, change_entries(view, directory, links=0, entries=1))


def _seek_for_removal(view: View, tree: Tree, identity: Identity, directory: File, name: bytes) -> tuple[Sought, File]:
    sought = entries.seek(view, tree, directory.id, name)
    if sought.entry is None:
        raise NotFound("no such name in the directory")
    check_write(identity, directory)
    file = load(view, sought.entry.file)
    if not may_take_away(identity, directory.inode, file.inode):
        raise NotPermitted("in a sticky directory only the owner takes a file away")
    return sought, file


def remove(view: View, tree: Tree, identity: Identity, directory: File, name: bytes) -> Change:
    """RFC 1813 3.3.12: a name of anything but a directory."""
    check_search(identity, directory)
    check_name(name)
    if name in DOTS:
        raise InvalidArgument("'.' and '..' cannot be removed")
    sought, file = _seek_for_removal(view, tree, identity, directory, name)
    if file.state is not None:
        raise IsADirectory("a directory is removed by RMDIR")
    entries.take_out(view, directory.id, sought)
    drop_link(view, tree.share, file)
    return Change(file, directory, change_entries(view, directory, links=0, entries=-1))


def remove_directory(view: View, tree: Tree, identity: Identity, directory: File, name: bytes) -> Change:
    """RFC 1813 3.3.13, with its own codes for '.' and '..'."""
    check_search(identity, directory)
    check_name(name)
    if name == SELF:
        raise InvalidArgument("'.' cannot be removed")
    if name == PARENT:
        raise AlreadyExists("'..' cannot be removed")
    sought, file = _seek_for_removal(view, tree, identity, directory, name)
    if file.state is None:
        raise NotADirectory("anything but a directory is removed by REMOVE")
    if file.state.entries:
        raise DirectoryNotEmpty(f"{file.state.entries} entries are left in the directory")
    entries.take_out(view, directory.id, sought)
    drop_directory(view, tree.share, file)
    return Change(file, directory, change_entries(view, directory, links=-1, entries=-1))


def link(view: View, tree: Tree, identity: Identity, file: File, directory: File, name: bytes) -> Change:
    """RFC 1813 3.3.15: one more name for a file."""
    if file.state is not None:
        raise NotPermitted("a directory has one name only")
    sought = _seek_vacant(view, tree, identity, directory, name)
    inode = file.inode
    if inode.links >= MAX_LINKS:
        raise TooManyLinks(f"a file has at most {MAX_LINKS} links")
    linked = store(view, file, replace(inode, links=inode.links + 1, ctime=max(view.now, inode.ctime + 1)))
    entries.add(view, directory.id, sought, file.id)
    return Change(linked, directory, change_entries(view, directory, links=0, entries=1))


def check_listing(identity: Identity, directory: File, cookie: int) -> None:
    """Whether entries behind a cookie may be read."""
    if directory.state is None:
        raise NotADirectory("only directories are listed")
    if not permits(identity, directory.inode, READ):
        raise AccessDenied("no permission to read the directory")
    if cookie >= END_OF_PLACES:
        raise BadCookie(f"cookie {cookie}: ours are below {END_OF_PLACES}")


def may_list_files(identity: Identity, directory: File) -> bool:
    """Who may not search a directory may know its names, but not what they lead to."""
    return permits(identity, directory.inode, EXECUTE)


def list_self_and_parent(view: View, directory: File, cookie: int, *, with_files: bool) -> list[Listed]:
    """What every directory begins with, as far as it lies behind a cookie."""
    listed: list[Listed] = []
    if cookie < SELF_COOKIE:
        listed.append(Listed(SELF_COOKIE, SELF, directory.id, directory if with_files else None))
    if cookie < PARENT_COOKIE:
        parent = parent_of(directory)
        listed.append(Listed(PARENT_COOKIE, PARENT, parent, _load_listed(view, parent) if with_files else None))
    return listed


def read_directory(
    view: View, tree: Tree, identity: Identity, directory: File, cookie: int, limit: int, *, with_files: bool = False
) -> Listing:
    """RFC 1813 3.3.16 and 3.3.17: up to `limit` entries behind a cookie.  An entry that is there all the time is seen
    exactly once, whatever happens to others meanwhile."""
    assert limit > 0, "a listing has room for an entry"
    check_listing(identity, directory, cookie)
    with_files = with_files and may_list_files(identity, directory)
    listed = list_self_and_parent(view, directory, cookie, with_files=with_files)[:limit]
    if len(listed) == limit:
        return Listing(listed, False)
    found, at_end = entries.list_after(view, directory.id, cookie, limit - len(listed))
    for place, entry in found:
        file = _load_listed(view, entry.file) if with_files else None
        listed.append(Listed(place, entry.name, entry.file, file))
    return Listing(listed, at_end)


def _load_listed(view: View, listed: FileId) -> File | None:
    """A listing is not refused because one of its files is not to be had."""
    try:
        return load(view, listed)
    except StaleHandle:
        return None
