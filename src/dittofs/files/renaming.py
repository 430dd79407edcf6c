"""RENAME: the one procedure with two directories, and with all the rules about replacing."""

from typing import Final

from msgspec.structs import replace

from dittofs.files import entries
from dittofs.files.access import WRITE, may_take_away, permits
from dittofs.files.inodes import change_entries, drop_directory, drop_link, load, mark_changed, store
from dittofs.files.namespace import DOTS, check_name, check_search, check_write
from dittofs.files.records import INODES, MAX_LINKS, ROOT_PARENT
from dittofs.files.tree import Tree
from dittofs.files.values import File, Renamed, Sought
from dittofs.model.errors import (
    AccessDenied,
    DirectoryNotEmpty,
    InvalidArgument,
    IsADirectory,
    NotADirectory,
    NotFound,
    NotPermitted,
    StoreFailure,
    TooManyLinks,
)
from dittofs.model.identity import Identity
from dittofs.model.ids import FileId
from dittofs.stores.tables import View

DEEPEST: Final = 1_000_000
"""Directories above one another; more can only be a damaged tree."""


def rename(
    view: View,
    tree: Tree,
    identity: Identity,
    from_directory: File,
    from_name: bytes,
    to_directory: File,
    to_name: bytes,
) -> Renamed:
    """RFC 1813 3.3.14.  What is replaced must be of the same kind, and empty if it is a directory; the codes are those
    of rename(2), which say more than the RFC's EXIST.  Two names of one file: nothing happens."""
    _check_name(identity, from_directory, from_name)
    _check_name(identity, to_directory, to_name)
    source = entries.seek(view, tree, from_directory.id, from_name)
    if source.entry is None:
        raise NotFound("no such name in the directory")
    file = load(view, source.entry.file)
    is_moved = from_directory.id != to_directory.id
    if is_moved and file.is_directory:
        _check_not_inside(view, to_directory, file.id)
    target = entries.seek(view, tree, to_directory.id, to_name)
    if target.entry is not None and target.entry.file == file.id:
        return Renamed(file, from_directory, from_directory, to_directory, to_directory)
    replaced = None if target.entry is None else load(view, target.entry.file)
    _check(identity, from_directory, to_directory, file, replaced)
    entries.take_out(view, from_directory.id, source)
    if not is_moved and _is_near(source, target):
        target = entries.seek(view, tree, to_directory.id, to_name)
    _put_in_place(view, tree, to_directory.id, target, file, replaced)
    moved = _mark_moved(view, file, to_directory.id)
    return _tell_directories(view, moved, from_directory, to_directory, replaced)


def _check_name(identity: Identity, directory: File, name: bytes) -> None:
    check_search(identity, directory)
    check_name(name)
    if name in DOTS:
        raise InvalidArgument("'.' and '..' cannot be renamed")


def _is_near(source: Sought, target: Sought) -> bool:
    """Whether taking out the one changes a record that the other was found by."""
    return target.home in (source.home, source.place) or target.place in (source.home, source.place)


def _check_not_inside(view: View, directory: File, moved: FileId) -> None:
    """A directory cannot be moved into itself or below: nothing would lead to it any more."""
    inode, current = directory.inode, directory.id
    for _ in range(DEEPEST):
        if current == moved:
            raise InvalidArgument("a directory cannot be moved into itself")
        if inode.parent == ROOT_PARENT:
            return
        current = inode.parent
        above = view.get(INODES, current)
        if above is None:
            break
        inode = above
    raise StoreFailure(f"the directories above {directory.id} do not lead to a root")


def _check(identity: Identity, from_directory: File, to_directory: File, file: File, replaced: File | None) -> None:
    """Who may, and what may take whose place, in the order of rename(2)."""
    is_moved = from_directory.id != to_directory.id
    check_write(identity, from_directory)
    if not may_take_away(identity, from_directory.inode, file.inode):
        raise NotPermitted("in a sticky directory only the owner renames a file")
    check_write(identity, to_directory)
    if replaced is not None:
        if not may_take_away(identity, to_directory.inode, replaced.inode):
            raise NotPermitted("in a sticky directory only the owner replaces a file")
        if file.is_directory and not replaced.is_directory:
            raise NotADirectory("a directory replaces only a directory")
        if replaced.state is not None:
            if not file.is_directory:
                raise IsADirectory("only a directory replaces a directory")
            if replaced.state.entries:
                raise DirectoryNotEmpty(f"{replaced.state.entries} entries are left in the directory")
    if is_moved and file.is_directory:
        if not permits(identity, file.inode, WRITE):
            raise AccessDenied("moving a directory changes its '..': no permission to write in it")
        if replaced is None and to_directory.links >= MAX_LINKS:
            raise TooManyLinks(f"a directory has at most {MAX_LINKS - 2} directories in it")


def _put_in_place(view: View, tree: Tree, directory: FileId, sought: Sought, file: File, replaced: File | None) -> None:
    if replaced is None:
        entries.add(view, directory, sought, file.id)
        return
    entries.point(view, directory, sought, file.id)
    if replaced.is_directory:
        drop_directory(view, tree.share, replaced)
    else:
        drop_link(view, tree.share, replaced)


def _mark_moved(view: View, file: File, parent: FileId) -> File:
    """A moved file has a new ctime, and a directory a new parent."""
    inode = file.inode
    if not file.is_directory:
        return store(view, file, replace(inode, ctime=max(view.now, inode.ctime + 1)))
    if inode.parent != parent:
        inode = replace(inode, parent=parent, ctime=max(view.now, file.ctime + 1))
        view.put(INODES, file.id, inode)
    return mark_changed(view, File(file.id, inode, file.state))


def _tell_directories(
    view: View, file: File, from_directory: File, to_directory: File, replaced: File | None
) -> Renamed:
    links_in = 1 if file.is_directory else 0
    links_out = 1 if replaced is not None and replaced.is_directory else 0
    entries_out = 0 if replaced is None else 1
    if from_directory.id == to_directory.id:
        after = change_entries(view, from_directory, links=-links_out, entries=-entries_out)
        return Renamed(file, from_directory, after, to_directory, after)
    from_after = change_entries(view, from_directory, links=-links_in, entries=-1)
    to_after = change_entries(view, to_directory, links=links_in - links_out, entries=1 - entries_out)
    return Renamed(file, from_directory, from_after, to_directory, to_after)
