"""A file system as plain Python objects: the second opinion on the rules of names.

Written from rename(2), unlink(2) and the like, without a look at records, places or views.
"""

from dataclasses import dataclass, field

from dittofs.files.records import FileType
from dittofs.model.errors import (
    AccessDenied,
    AlreadyExists,
    DirectoryNotEmpty,
    InvalidArgument,
    IsADirectory,
    NotADirectory,
    NotFound,
    NotPermitted,
)
from dittofs.model.identity import Identity


@dataclass(eq=False)
class Node:
    kind: FileType
    mode: int
    uid: int
    gid: int
    children: dict[bytes, "Node"] = field(default_factory=dict)
    parent: "Node | None" = None
    names: int = 0
    number: int = 0

    @property
    def is_directory(self) -> bool:
        return self.kind is FileType.DIRECTORY

    @property
    def links(self) -> int:
        if not self.is_directory:
            return self.names
        return 2 + sum(child.is_directory for child in self.children.values())


def allowed(who: Identity, node: Node, letters: str) -> bool:
    if who.uid == 0:
        return True
    if who.uid == node.uid:
        digit = node.mode // 64 % 8
    elif node.gid in {who.gid, *who.groups}:
        digit = node.mode // 8 % 8
    else:
        digit = node.mode % 8
    has = {letter for letter, value in (("r", 4), ("w", 2), ("x", 1)) if digit & value}
    return set(letters) <= has


def search(who: Identity, directory: Node) -> None:
    if not directory.is_directory:
        raise NotADirectory
    if not allowed(who, directory, "x"):
        raise AccessDenied


def write(who: Identity, directory: Node) -> None:
    if not allowed(who, directory, "w"):
        raise AccessDenied


def take_away(who: Identity, directory: Node, node: Node) -> None:
    if directory.mode & 0o1000 and who.uid not in (0, directory.uid, node.uid):
        raise NotPermitted


def find(who: Identity, directory: Node, name: bytes) -> Node:
    search(who, directory)
    if name not in directory.children:
        raise NotFound
    return directory.children[name]


def create(who: Identity, directory: Node, name: bytes, kind: FileType, mode: int) -> Node:
    """A new node.  A regular file that exists is opened instead."""
    search(who, directory)
    if name in directory.children:
        if kind is FileType.REGULAR:
            return directory.children[name]
        raise AlreadyExists
    write(who, directory)
    gid = who.gid
    if directory.mode & 0o2000:
        gid = directory.gid
        if kind is FileType.DIRECTORY:
            mode |= 0o2000
        elif mode & 0o2010 == 0o2010 and who.uid != 0 and gid not in {who.gid, *who.groups}:
            mode &= ~0o2000
    node = Node(kind, 0o777 if kind is FileType.SYMLINK else mode, who.uid, gid, names=1)
    if kind is FileType.DIRECTORY:
        node.parent = directory
    directory.children[name] = node
    return node


def link(who: Identity, node: Node, directory: Node, name: bytes) -> None:
    if node.is_directory:
        raise NotPermitted
    search(who, directory)
    if name in directory.children:
        raise AlreadyExists
    write(who, directory)
    directory.children[name] = node
    node.names += 1


def remove(who: Identity, directory: Node, name: bytes, *, is_directory: bool) -> Node:
    node = find(who, directory, name)
    write(who, directory)
    take_away(who, directory, node)
    if node.is_directory and not is_directory:
        raise IsADirectory
    if is_directory and not node.is_directory:
        raise NotADirectory
    if node.children:
        raise DirectoryNotEmpty
    del directory.children[name]
    node.names -= 1
    return node


def rename(who: Identity, source: Node, source_name: bytes, target: Node, target_name: bytes) -> Node | None:
    """The node that was replaced."""
    search(who, source)
    search(who, target)
    node = find(who, source, source_name)
    above: Node | None = target
    while above is not None and source is not target and node.is_directory:
        if above is node:
            raise InvalidArgument
        above = above.parent
    replaced = target.children.get(target_name)
    if replaced is node:
        return None
    write(who, source)
    take_away(who, source, node)
    write(who, target)
    if replaced is not None:
        take_away(who, target, replaced)
        if node.is_directory and not replaced.is_directory:
            raise NotADirectory
        if replaced.is_directory and not node.is_directory:
            raise IsADirectory
        if replaced.children:
            raise DirectoryNotEmpty
    if node.is_directory and source is not target:
        write(who, node)
        node.parent = target
    del source.children[source_name]
    target.children[target_name] = node
    if replaced is not None:
        replaced.names -= 1
    return replaced


def change_mode(who: Identity, node: Node, mode: int) -> None:
    if who.uid not in (0, node.uid):
        raise NotPermitted
    if node.kind is not FileType.SYMLINK:
        is_member = who.uid == 0 or node.gid in {who.gid, *who.groups}
        node.mode = mode if is_member else mode & ~0o2000
