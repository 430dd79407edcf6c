"""What a client knows about its files: what must be there after a crash, and what may be.

Everything that was acknowledged as stable is exact.  Bytes that were written UNSTABLE, or by a call that was never
answered, may be there or not, each by itself; a size may be that of any of those writes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from dittofs.protocols.nfs3.types import fattr3, ftype3, nfstime3


@dataclass(slots=True)
class Content:
    """The bytes of a file: those that are stable, and writes on top of them that may be lost."""

    stable: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes]] = field(default_factory=list)

    def copy(self) -> "Content":
        return Content(bytearray(self.stable), list(self.pending))

    def visible(self) -> bytes:
        """What a reader sees while the server runs."""
        data = bytearray(self.stable)
        for offset, written in self.pending:
            _put(data, offset, written)
        return bytes(data)

    def write(self, offset: int, data: bytes) -> None:
        """A write that is not stable."""
        self.pending.append((offset, data))

    def write_stable(self, offset: int, data: bytes) -> None:
        end = offset + len(data)
        _put(self.stable, offset, data)
        kept: list[tuple[int, bytes]] = []
        for start, written in self.pending:
            if start < offset:
                kept.append((start, written[: offset - start]))
            if start + len(written) > end:
                kept.append((max(start, end), written[max(end - start, 0) :]))
        self.pending = kept

    def commit(self) -> None:
        self.stable, self.pending = bytearray(self.visible()), []

    def resize(self, size: int) -> None:
        del self.stable[size:]
        self.stable.extend(bytes(size - len(self.stable)))
        self.pending = [(start, written[: size - start]) for start, written in self.pending if start < size]

    def sizes(self) -> set[int]:
        """The sizes that a crash may leave."""
        least = len(self.stable)
        return {least} | {max(least, start + len(written)) for start, written in self.pending}

    def why_not(self, found: bytes) -> str:
        """Why a crash can't have left these bytes; empty if it can."""
        if len(found) not in self.sizes():
            return f"{len(found)} bytes, where only {sorted(self.sizes())} are possible"
        expected = bytes(self.stable[: len(found)]).ljust(len(found), b"\0")
        if found == expected:
            return ""
        for position, (is_there, stable) in enumerate(zip(found, expected, strict=True)):
            if is_there != stable and not self._was_written(position, is_there):
                return f"byte {position} of {len(found)} is {is_there}, it was {stable} and not written since"
        return ""

    def _was_written(self, position: int, value: int) -> bool:
        return any(
            start <= position < start + len(written) and written[position - start] == value
            for start, written in self.pending
        )

    def settle(self, found: bytes) -> None:
        """After a crash: this is what it left, and from now on nothing else."""
        self.stable, self.pending = bytearray(found), []


def _put(data: bytearray, offset: int, written: bytes) -> None:
    data.extend(bytes(max(offset - len(data), 0)))
    data[offset : offset + len(written)] = written


@dataclass(slots=True, eq=False, repr=False)
class Node:
    """A file, directory, symbolic link or pipe."""

    type: ftype3
    mode: int | None
    """None: nobody said."""
    handle: bytes = b""
    fileid: int = 0
    names: int = 1
    parent: "Node | None" = None
    """Of a directory."""
    entries: "dict[bytes, Node]" = field(default_factory=dict)
    content: Content = field(default_factory=Content)
    target: bytes = b""
    mtime: nfstime3 | None = None
    """Set by the client and not changed since, or None."""

    @property
    def is_directory(self) -> bool:
        return self.type is ftype3.NF3DIR

    def links(self) -> int:
        if self.is_directory:
            return 2 + sum(node.is_directory for node in self.entries.values())
        return self.names

    def is_below(self, other: "Node") -> bool:
        """True for the node itself, too."""
        node: Node | None = self
        while node is not None and node is not other:
            node = node.parent
        return node is other

    def why_not(self, found: fattr3) -> str:
        """Why these can't be the node's attributes; empty if they can."""
        if found.type is not self.type:
            return f"a {found.type.name} instead of a {self.type.name}"
        if self.fileid and found.fileid != self.fileid:
            return f"file id {found.fileid} instead of {self.fileid}"
        if self.mode is not None and found.mode != self.mode:
            return f"mode {found.mode:o} instead of {self.mode:o}"
        if found.nlink != self.links():
            return f"{found.nlink} links instead of {self.links()}"
        if self.mtime is not None and found.mtime != self.mtime:
            return f"mtime {found.mtime} instead of {self.mtime}"
        return ""


def walk(directory: Node) -> Iterator[tuple[Node, bytes, Node]]:
    """Every entry below a directory: where, its name, what it leads to."""
    for name, node in directory.entries.items():
        yield directory, name, node
        if node.is_directory:
            yield from walk(node)
