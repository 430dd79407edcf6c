"""What the writers do: each operation knows its call, its effect on the model, and how to tell after a crash whether
it happened."""

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

from dittofs.client.nfs3 import Nfs3Client, Nfs3Error, attributes
from dittofs.protocols.nfs3 import types as t
from tests.torture.model import Node

OK = t.nfsstat3.NFS3_OK
NOENT = t.nfsstat3.NFS3ERR_NOENT
EXIST = t.nfsstat3.NFS3ERR_EXIST


class Impossible(AssertionError):
    """The server is in a state that no order of events explains."""


class Operation(ABC):
    """One call.  Operations under way at the same time are independent of each other, so that each may have happened
    or not, whatever became of the others: what one `touches` no other one touches or `uses`."""

    procedure: ClassVar[str]
    repeated: ClassVar[t.nfsstat3] = OK
    """What a second execution is answered with."""

    @abstractmethod
    def arguments(self) -> Any: ...

    @abstractmethod
    def touches(self) -> set[Hashable]: ...

    def uses(self) -> set[Hashable]:
        return set()

    def is_independent_of(self, other: "Operation") -> bool:
        ours, theirs = self.touches(), other.touches()
        return not (ours & theirs or ours & other.uses() or theirs & self.uses())

    @abstractmethod
    def apply(self, result: Any) -> None:
        """Change the model, when the call has succeeded."""

    @abstractmethod
    def happened(self, client: Nfs3Client) -> bool | None:
        """Look whether a call that was not answered was executed: all of it, or nothing.  None: nobody can tell, and
        `apply` must not be called."""


def find(client: Nfs3Client, directory: Node, name: bytes) -> t.LOOKUP3resok | None:
    try:
        return client.lookup(directory.handle, name)
    except Nfs3Error as error:
        if error.status is not NOENT:
            raise
        return None


def fileid_at(client: Nfs3Client, directory: Node, name: bytes) -> int:
    found = find(client, directory, name)
    return 0 if found is None else found.obj_attributes.fileid


@dataclass(slots=True)
class Make(Operation):
    """What makes a new name for a new thing."""

    directory: Node
    name: bytes
    node: Node

    def touches(self) -> set[Hashable]:
        return {(self.directory, self.name)}

    def uses(self) -> set[Hashable]:
        return {("in", self.directory)}

    def where(self) -> t.diropargs3:
        return t.diropargs3(self.directory.handle, self.name)

    def apply(self, result: Any) -> None:
        node = self.node
        if result is not None:
            node.handle, node.fileid = result.obj, result.obj_attributes.fileid
        node.parent = self.directory if node.is_directory else None
        self.directory.entries[self.name] = node
        self.directory.mtime = None

    def happened(self, client: Nfs3Client) -> bool | None:
        found = find(client, self.directory, self.name)
        if found is None:
            return False
        self.node.handle, self.node.fileid = found.object, found.obj_attributes.fileid
        return True


class Create(Make):
    procedure = "CREATE"
    repeated = EXIST
    how = t.createmode3.GUARDED

    def arguments(self) -> Any:
        return t.CREATE3args(self.where(), t.createhow3(self.how, attributes(mode=self.node.mode)))


class CreateUnchecked(Create):
    repeated = OK
    how = t.createmode3.UNCHECKED


class CreateExclusive(Make):
    """Sent again, it finds the verifier of the first time [NFS-1]."""

    procedure = "CREATE"
    repeated = OK

    def arguments(self) -> Any:
        verifier = self.name[:8].ljust(8, b"v")
        return t.CREATE3args(self.where(), t.createhow3(t.createmode3.EXCLUSIVE, verifier))


class Mkdir(Make):
    procedure = "MKDIR"
    repeated = EXIST

    def arguments(self) -> Any:
        return t.MKDIR3args(self.where(), attributes(mode=self.node.mode))


class Symlink(Make):
    procedure = "SYMLINK"
    repeated = EXIST

    def arguments(self) -> Any:
        return t.SYMLINK3args(self.where(), t.symlinkdata3(attributes(mode=self.node.mode), self.node.target))


class Mknod(Make):
    procedure = "MKNOD"
    repeated = EXIST

    def arguments(self) -> Any:
        return t.MKNOD3args(self.where(), t.mknoddata3(t.ftype3.NF3FIFO, attributes(mode=self.node.mode)))


@dataclass(slots=True)
class Link(Operation):
    procedure = "LINK"
    repeated = EXIST
    node: Node
    directory: Node
    name: bytes

    def arguments(self) -> Any:
        return t.LINK3args(self.node.handle, t.diropargs3(self.directory.handle, self.name))

    def touches(self) -> set[Hashable]:
        return {self.node, (self.directory, self.name)}

    def uses(self) -> set[Hashable]:
        return {("in", self.directory)}

    def apply(self, result: Any) -> None:
        self.directory.entries[self.name] = self.node
        self.directory.mtime = None
        self.node.names += 1

    def happened(self, client: Nfs3Client) -> bool | None:
        found = fileid_at(client, self.directory, self.name)
        if found not in (0, self.node.fileid):
            raise Impossible(f"LINK: {self.name!r} leads to {found}")
        return found != 0


@dataclass(slots=True)
class Remove(Operation):
    """REMOVE or RMDIR."""

    procedure = "REMOVE"
    repeated = NOENT
    directory: Node
    name: bytes

    def arguments(self) -> Any:
        return t.REMOVE3args(t.diropargs3(self.directory.handle, self.name))

    def touches(self) -> set[Hashable]:
        node = self.directory.entries[self.name]
        # An empty directory that goes must stay empty until then.
        return {node, ("in", node), (self.directory, self.name)}

    def uses(self) -> set[Hashable]:
        return {("in", self.directory)}

    def apply(self, result: Any) -> None:
        node = self.directory.entries.pop(self.name)
        node.names -= 1
        self.directory.mtime = None

    def happened(self, client: Nfs3Client) -> bool | None:
        found = fileid_at(client, self.directory, self.name)
        if found not in (0, self.directory.entries[self.name].fileid):
            raise Impossible(f"{self.procedure}: {self.name!r} leads to {found}")
        return found == 0


class Rmdir(Remove):
    procedure = "RMDIR"

    def arguments(self) -> Any:
        return t.RMDIR3args(t.diropargs3(self.directory.handle, self.name))


@dataclass(slots=True)
class Rename(Operation):
    """Also over something that is there."""

    procedure = "RENAME"
    repeated = NOENT
    directory: Node
    name: bytes
    to_directory: Node
    to_name: bytes

    def arguments(self) -> Any:
        return t.RENAME3args(
            t.diropargs3(self.directory.handle, self.name), t.diropargs3(self.to_directory.handle, self.to_name)
        )

    def touches(self) -> set[Hashable]:
        node, over = self.directory.entries[self.name], self.to_directory.entries.get(self.to_name)
        touched: set[Hashable] = {node, over, ("in", over)} - {None, ("in", None)}
        touched |= {(self.directory, self.name), (self.to_directory, self.to_name)}
        # Two directories that move at once could each be moved below the other.
        return touched | {"moving a directory"} if node.is_directory else touched

    def uses(self) -> set[Hashable]:
        return {("in", self.directory), ("in", self.to_directory)}

    def apply(self, result: Any) -> None:
        over = self.to_directory.entries.get(self.to_name)
        if over is not None:
            over.names -= 1
        node = self.directory.entries.pop(self.name)
        self.to_directory.entries[self.to_name] = node
        self.directory.mtime = self.to_directory.mtime = None
        if node.is_directory:
            node.parent = self.to_directory

    def happened(self, client: Nfs3Client) -> bool | None:
        moved, over = self.directory.entries[self.name], self.to_directory.entries.get(self.to_name)
        found = (
            fileid_at(client, self.directory, self.name),
            fileid_at(client, self.to_directory, self.to_name),
        )
        if found == (0, moved.fileid):
            return True
        if found == (moved.fileid, 0 if over is None else over.fileid):
            return False
        raise Impossible(f"RENAME {self.name!r} to {self.to_name!r}: the names lead to {found}")


@dataclass(slots=True)
class SetMode(Operation):
    procedure = "SETATTR"
    node: Node
    mode: int
    mtime: t.nfstime3

    def arguments(self) -> Any:
        return t.SETATTR3args(self.node.handle, attributes(mode=self.mode, mtime=self.mtime), None)

    def touches(self) -> set[Hashable]:
        # A change in a directory changes its time.
        return {self.node, ("in", self.node)}

    def apply(self, result: Any) -> None:
        self.node.mode, self.node.mtime = self.mode, self.mtime

    def happened(self, client: Nfs3Client) -> bool | None:
        found = client.getattr(self.node.handle)
        after = (self.mode, self.mtime)
        if (found.mode, found.mtime) == after:
            return True
        if self.node.mode not in (None, found.mode) or self.node.mtime not in (None, found.mtime):
            raise Impossible(f"SETATTR: half of it happened, {found}")
        return False


@dataclass(slots=True)
class SetSize(Operation):
    procedure = "SETATTR"
    node: Node
    size: int

    def arguments(self) -> Any:
        return t.SETATTR3args(self.node.handle, attributes(size=self.size), None)

    def touches(self) -> set[Hashable]:
        return {self.node}

    def apply(self, result: Any) -> None:
        self.node.content.resize(self.size)
        self.node.mtime = None

    def happened(self, client: Nfs3Client) -> bool | None:
        self.node.mtime = None
        found = read_all(client, self.node)
        before, after = self.node.content, self.node.content.copy()
        after.resize(self.size)
        if not after.why_not(found):
            return True
        if why := before.why_not(found):
            raise Impossible(f"SETATTR to size {self.size}: {why}")
        return False


@dataclass(slots=True)
class Write(Operation):
    procedure = "WRITE"
    node: Node
    offset: int
    data: bytes
    stable: t.stable_how
    verifier: bytes = b""

    def arguments(self) -> Any:
        return t.WRITE3args(self.node.handle, self.offset, len(self.data), self.stable, self.data)

    def touches(self) -> set[Hashable]:
        return {self.node}

    def apply(self, result: Any) -> None:
        self.node.mtime = None
        if result is None or result.committed is t.stable_how.UNSTABLE:
            self.node.content.write(self.offset, self.data)
        else:
            self.node.content.write_stable(self.offset, self.data)
        if result is not None:
            assert result.count == len(self.data), "a server may write less, ours does not"
            assert result.committed >= self.stable, "at least as stable as asked for"
            self.verifier = result.verf

    def happened(self, client: Nfs3Client) -> bool | None:
        self.apply(None)
        return None


@dataclass(slots=True)
class Commit(Operation):
    procedure = "COMMIT"
    node: Node
    verifier: bytes = b""

    def arguments(self) -> Any:
        return t.COMMIT3args(self.node.handle, 0, 0)

    def touches(self) -> set[Hashable]:
        return {self.node}

    def apply(self, result: Any) -> None:
        self.node.content.commit()
        self.verifier = result.verf

    def happened(self, client: Nfs3Client) -> bool | None:
        return None


@dataclass(slots=True)
class Read(Operation):
    """Not changing anything, but among the changes: what was written is seen at once."""

    procedure = "READ"
    node: Node

    def arguments(self) -> Any:
        return t.READ3args(self.node.handle, 0, 1 << 20)

    def touches(self) -> set[Hashable]:
        return {self.node}

    def apply(self, result: Any) -> None:
        if bytes(result.data) != self.node.content.visible():
            raise Impossible("READ does not give what was written")

    def happened(self, client: Nfs3Client) -> bool | None:
        return None


def read_all(client: Nfs3Client, node: Node) -> bytes:
    data = b""
    while True:
        part = client.read(node.handle, len(data), 1 << 20)
        data += bytes(part.data)
        if part.eof:
            return data
