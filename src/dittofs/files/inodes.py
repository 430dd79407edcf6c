"""Files as the rules see them: an inode joined with what is kept apart from it, and how a change of it is stored."""

from typing import Final

from msgspec.structs import replace

from dittofs.files.records import (
    DIRECTORIES,
    INODES,
    RECLAIMS,
    TRUNCATIONS,
    UNSTABLE,
    DirectoryState,
    FileType,
    Inode,
    Reclaim,
)
from dittofs.files.values import EntriesChanged, File, Removed
from dittofs.model.errors import StaleHandle
from dittofs.model.ids import FileId, ShareId
from dittofs.stores.tables import View

# An attribute of an Enum class costs as much as a look-up in a table.
_REGULAR: Final = FileType.REGULAR
_DIRECTORY: Final = FileType.DIRECTORY


def load(view: View, file: FileId) -> File:
    """The file with this id.  Raises StaleHandle."""
    inode = view.get(INODES, file)
    if inode is None:
        raise StaleHandle(f"file {file} does not exist any more")
    kind = inode.type
    if kind is _REGULAR:
        shadow = view.get(UNSTABLE, file)
        return File(file, inode if shadow is None else shadow, None)
    if kind is _DIRECTORY:
        state = view.get(DIRECTORIES, file)
        if state is None:
            raise StaleHandle(f"directory {file} does not exist any more")
        return File(file, inode, state)
    return File(file, inode, None)


def store(view: View, file: File, inode: Inode) -> File:
    """Keep a changed inode of anything but a directory.  Its size stays what it durably is as long as the content
    behind it is not durable: a COMMIT moves it."""
    if inode.type is _REGULAR and view.get(UNSTABLE, file.id) is not None:
        view.put(UNSTABLE, file.id, inode)
        stable = view.get(INODES, file.id)
        assert stable is not None, "a file that was loaded is there"
        view.put(INODES, file.id, replace(inode, size=stable.size, used=stable.used))
    else:
        view.put(INODES, file.id, inode)
    return File(file.id, inode, None)


def _entries_changed(state: DirectoryState, change: EntriesChanged) -> DirectoryState:
    moment, ctime = change.now, state.ctime
    if moment <= ctime:
        moment = ctime + 1
    return DirectoryState(state.links + change.links, state.entries + change.entries, moment, moment)


def change_entries(view: View, directory: File, *, links: int, entries: int) -> File:
    """Tell a directory that its entries changed; answers with how it looks afterwards."""
    state = view.merge(DIRECTORIES, directory.id, _entries_changed, EntriesChanged(links, entries, view.now))
    return File(directory.id, directory.inode, state)


def _marked(state: DirectoryState, now: int) -> DirectoryState:
    return DirectoryState(state.links, state.entries, state.mtime, max(now, state.ctime + 1))


def mark_changed(view: View, directory: File) -> File:
    """Move a directory's ctime alone."""
    return File(directory.id, directory.inode, view.merge(DIRECTORIES, directory.id, _marked, view.now))


def add_directory(view: View, inode: Inode) -> File:
    """Keep a new, empty directory that nothing leads to yet."""
    file = File(view.new_file_id(), inode, DirectoryState(2, 0, inode.mtime, inode.ctime))
    view.put(INODES, file.id, inode)
    assert file.state is not None, "just made"
    view.put(DIRECTORIES, file.id, file.state)
    return file


def make_root(view: View, *, uid: int, gid: int, mode: int) -> FileId:
    """The directory a new share begins with."""
    now = view.now
    return add_directory(view, Inode(_DIRECTORY, mode & 0o7777, uid, gid, 2, 0, 0, now, now, now)).id


def drop_link(view: View, share: ShareId, file: File) -> None:
    """One name less for a file that is not a directory; with the last one the file goes, and its content is recorded
    to be reclaimed in the same transaction, so that a crash leaves nothing behind."""
    inode = file.inode
    if inode.links > 1:
        store(view, file, replace(inode, links=inode.links - 1, ctime=max(view.now, inode.ctime + 1)))
        return
    view.delete(INODES, file.id)
    if inode.type is _REGULAR:
        view.put(RECLAIMS, file.id, Reclaim(share))
        if view.get(UNSTABLE, file.id) is not None:
            view.delete(UNSTABLE, file.id)
            # Only a file with a shadow can have one: what a crash left is done with before the first call.
            if view.get(TRUNCATIONS, file.id) is not None:
                view.delete(TRUNCATIONS, file.id)
    view.after(Removed(share, file.id))


def drop_directory(view: View, share: ShareId, directory: File) -> None:
    """Forget an empty directory that nothing leads to any more."""
    view.delete(INODES, directory.id)
    view.delete(DIRECTORIES, directory.id)
    view.after(Removed(share, directory.id))
