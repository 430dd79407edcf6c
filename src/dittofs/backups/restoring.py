"""From a backup to a share in stores that nobody serves.

The file is read three times: to see that it is whole and makes sense, for its content, and for its tree.  The tree is
one transaction and comes last, so that a restore that fails leaves no share behind.
"""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from dittofs.backups.format import BadBackup, Finished, Name, Node, Piece, ShareHeader, read
from dittofs.files import entries
from dittofs.files.records import (
    DIRECTORIES,
    INODES,
    MAX_FILE_SIZE,
    NAME_MAX,
    RECLAIMS,
    ROOT_PARENT,
    SHARES,
    DirectoryState,
    FileType,
    Inode,
    ShareRecord,
)
from dittofs.files.tree import tree_of
from dittofs.model.ids import ContentId, FileId, ShareId
from dittofs.shares.registry import ID_BYTES, KEY_BYTES, NewShare
from dittofs.stores.api import ContentStore
from dittofs.stores.tables import View

LAST_SHARE = b"\xff" * 256
SHARES_AT_ONCE = 10_000


class CannotRestore(Exception):
    """There is something in the way; the message says what."""


@dataclass(slots=True)
class Contents:
    """What a backup holds, once all of it was read."""

    header: ShareHeader
    types: dict[int, FileType] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    links: dict[int, int] = field(default_factory=dict)
    names: Counter[int] = field(default_factory=Counter)
    """How many names a file has."""
    entries: Counter[int] = field(default_factory=Counter)
    subdirectories: Counter[int] = field(default_factory=Counter)
    pieces: int = 0


def examine(path: Path) -> Contents:
    """Read all of a backup.  Raises BadBackup if it is not whole or contradicts itself, OSError."""
    with path.open("rb") as stream:
        values = read(stream)
        header = next(values)
        if not isinstance(header, ShareHeader):
            raise BadBackup("it does not begin with its share")
        found = Contents(header)
        for value in values:
            match value:
                case Node():
                    _add_node(found, value)
                case Name():
                    _add_name(found, value)
                case Piece():
                    _add_piece(found, value)
                case Finished():
                    _check_whole(found, value)
                case _:
                    raise BadBackup("it has two shares")
    return found


def _add_node(found: Contents, node: Node) -> None:
    header = found.header
    if node.id in found.types or not header.lowest_id <= node.id <= header.highest_id:
        raise BadBackup(f"file {node.id} is there twice, or should not be")
    if node.type not in list(FileType) or not 0 <= node.size <= MAX_FILE_SIZE:
        raise BadBackup(f"file {node.id} has a type or size that there is not")
    kind = found.types[node.id] = FileType(node.type)
    if kind is FileType.REGULAR:
        found.sizes[node.id] = node.size
    if kind is not FileType.DIRECTORY:
        found.links[node.id] = node.links
    elif node.id != header.root and found.types.get(node.parent) is not FileType.DIRECTORY:
        raise BadBackup(f"directory {node.id} comes before the one that it is in")


def _add_name(found: Contents, name: Name) -> None:
    if found.types.get(name.directory) is not FileType.DIRECTORY or name.file not in found.types:
        raise BadBackup(f"name {name.name!r} has no directory, or no file")
    if not 0 < len(name.name) <= NAME_MAX or b"/" in name.name or b"\0" in name.name or name.name in (b".", b".."):
        raise BadBackup(f"{name.name!r} is no name")
    found.names[name.file] += 1
    found.entries[name.directory] += 1
    if found.types[name.file] is FileType.DIRECTORY:
        found.subdirectories[name.directory] += 1


def _add_piece(found: Contents, piece: Piece) -> None:
    if piece.offset + len(piece.data) > found.sizes.get(piece.file, 0):
        raise BadBackup(f"content of {piece.file} lies behind its end, or it is no file with content")
    found.pieces += 1


def _check_whole(found: Contents, finished: Finished) -> None:
    header = found.header
    if found.types.get(header.root) is not FileType.DIRECTORY or found.names[header.root]:
        raise BadBackup("its root is not a directory without a name")
    if len(found.types) != header.files or found.names.total() != header.names or found.pieces != finished.contents:
        raise BadBackup("there is more or less in it than it says")
    for file, kind in found.types.items():
        expected = found.links[file] if kind is not FileType.DIRECTORY else int(file != header.root)
        if found.names[file] != expected:
            raise BadBackup(f"file {file} has {found.names[file]} names instead of {expected}")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a backup goes: the share, and how far the ids of its files are moved."""

    record: ShareRecord
    moved_by: int
    old_root: int
    keeps_handles: bool

    def id(self, file: int) -> FileId:
        return self.record.root if file == self.old_root else FileId(file + self.moved_by)

    def content(self, file: int) -> ContentId:
        return ContentId(ShareId(self.record.id), self.id(file))


def find_place(
    view: View, content: ContentStore, header: ShareHeader, name: str, new: NewShare, next_id: FileId
) -> Place:
    """As it was, if the share has the same name and nothing in the store is in the way: then handles stay good.
    Otherwise with other ids, into a share that is new or empty.  Raises CannotRestore."""
    shares = dict(view.scan(SHARES, b"", LAST_SHARE, SHARES_AT_ONCE))
    present = shares.get(_key(name))
    moved_by = next_id - header.lowest_id
    if present is not None:
        state = view.get(DIRECTORIES, present.root)
        if state is None or state.entries:
            raise CannotRestore(f"{name} is not empty: restore into a share that is empty or does not exist yet")
        return Place(present, moved_by, header.root, keeps_handles=False)
    identifier, key = _bytes_of(header.id, ID_BYTES), _bytes_of(header.handle_key, KEY_BYTES)
    first, end = FileId(header.lowest_id), FileId(header.highest_id + 1)
    is_free = not (
        name != header.name
        or any(record.id == identifier for record in shares.values())
        or bool(view.scan(INODES, first, end, 1))
        or bool(view.scan(RECLAIMS, first, end, 1))
        or bool(content.contents(ShareId(identifier)))
    )
    if is_free:
        record = ShareRecord(identifier, FileId(header.root), key, header.fsid)
        return Place(record, 0, header.root, keeps_handles=True)
    record = ShareRecord(new.id, FileId(header.root + moved_by), new.handle_key, new.fsid)
    return Place(record, moved_by, header.root, keeps_handles=False)


def _bytes_of(text: str, count: int) -> bytes:
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != count:
        raise BadBackup("the id or key of its share is none")
    return found


def _key(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


async def put_content(path: Path, place: Place, store: ContentStore) -> dict[int, int]:
    """Write all content, durably; how much room each file takes.  Removed again if that fails."""
    used: dict[int, int] = {}
    current: int | None = None
    try:
        with path.open("rb") as stream:
            for value in read(stream):
                file = value.file if isinstance(value, Piece) else None
                if current is not None and file != current:
                    await store.sync(place.content(current))
                    used[current] = await store.allocated(place.content(current))
                current = file
                if isinstance(value, Piece):
                    used.setdefault(value.file, 0)
                    await store.write(place.content(value.file), value.offset, value.data)
    except BaseException:
        await remove_content(used, place, store)
        raise
    return used


async def remove_content(used: dict[int, int], place: Place, store: ContentStore) -> None:
    for file in used:
        await store.remove(place.content(file))
    await store.sync_removals()


def put_tree(view: View, path: Path, found: Contents, place: Place, name: str, used: dict[int, int]) -> None:
    """The whole tree, and last the share."""
    tree = tree_of(ShareId(place.record.id), place.record.root)
    with path.open("rb") as stream:
        for value in read(stream):
            if isinstance(value, Node):
                _put_node(view, found, place, value, used.get(value.id, 0))
            elif isinstance(value, Name):
                directory = place.id(value.directory)
                sought = entries.seek(view, tree, directory, value.name)
                if sought.entry is not None:
                    raise BadBackup(f"directory {value.directory} has two entries {value.name!r}")
                entries.add(view, directory, sought, place.id(value.file))
    view.put(SHARES, _key(name), place.record)


def _put_node(view: View, found: Contents, place: Place, node: Node, used: int) -> None:
    file = place.id(node.id)
    is_directory = found.types[node.id] is FileType.DIRECTORY
    is_below = is_directory and node.id != found.header.root
    inode = Inode(
        type=found.types[node.id],
        mode=node.mode,
        uid=node.uid,
        gid=node.gid,
        links=2 if is_directory else node.links,
        size=node.size,
        used=used,
        atime=node.atime,
        mtime=node.mtime,
        ctime=node.ctime,
        parent=place.id(node.parent) if is_below else ROOT_PARENT,
        target=node.target,
        device_major=node.device_major,
        device_minor=node.device_minor,
    )
    view.put(INODES, file, inode)
    if is_directory:
        links = 2 + found.subdirectories[node.id]
        view.put(DIRECTORIES, file, DirectoryState(links, found.entries[node.id], node.mtime, node.ctime))
