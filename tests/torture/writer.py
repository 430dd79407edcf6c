"""One simulated client: works through random operations until the server is gone, and afterwards says whether what it
finds is what it was promised."""

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from dittofs.client.nfs3 import EXCHANGES, Nfs3Client, attributes
from dittofs.client.transports import NoReply
from dittofs.protocols.nfs3 import types as t
from tests.end_to_end.server_process import MountedClient
from tests.torture import operations as o
from tests.torture.model import Node, walk
from tests.torture.operations import Impossible, Operation

MOST_NODES = 40
MOST_AT_ONCE = 8
LARGEST_FILE = 96 * 1024
MOST_REMEMBERED = 40


@dataclass(slots=True)
class Sent:
    operation: Operation
    xid: int


@dataclass(slots=True)
class Writer:
    """Works below `home`, a directory of its own, and in the shared directory under names of its own."""

    name: str
    random: random.Random
    home: Node
    shared: Node
    under_way: list[Sent] = field(default_factory=list)
    """Calls without an answer."""
    acknowledged: Counter[str] = field(default_factory=Counter)
    ambiguous: Counter[str] = field(default_factory=Counter)
    """Calls without an answer, by procedure and by whether they had been executed."""
    history: list[str] = field(default_factory=list)
    _made: int = 0
    _verifier: bytes = b""

    @classmethod
    def new(cls, name: str, generator: random.Random, client: MountedClient, shared: bytes) -> "Writer":
        made = client.mkdir(client.root, name.encode(), attributes(mode=0o755))
        home = Node(t.ftype3.NF3DIR, 0o755, made.obj, made.obj_attributes.fileid)
        return cls(name, generator, home, Node(t.ftype3.NF3DIR, None, shared))

    # Working.

    def work(self, client: Nfs3Client) -> None:
        """Until the server is gone."""
        self._verifier = b""
        try:
            while True:
                self._send(client, self._choose_batch())
                while self.under_way:
                    self._receive(client)
        except (NoReply, OSError):
            return

    def _send(self, client: Nfs3Client, batch: list[Operation]) -> None:
        for operation in batch:
            # Noted first: a call that could not be sent as a whole may still have arrived.
            sent = Sent(operation, 0)
            self.under_way.append(sent)
            sent.xid = client.transport.send(EXCHANGES[operation.procedure], operation.arguments())

    def _receive(self, client: Nfs3Client) -> None:
        sent = self.under_way[0]
        operation = sent.operation
        result = client.transport.receive(sent.xid, EXCHANGES[operation.procedure])
        del self.under_way[0]
        self._note(operation, result.discriminant)
        if result.discriminant != o.OK:
            raise Impossible(f"{operation.procedure} {summary(operation)} is refused: {result.discriminant!r}")
        operation.apply(result.value)
        self.acknowledged[operation.procedure] += 1
        if isinstance(operation, o.Write | o.Commit):
            assert self._verifier in (b"", operation.verifier), "the write verifier changed while the server ran"
            self._verifier = operation.verifier

    def _note(self, operation: Operation, what: object) -> None:
        self.history = [*self.history[1 - MOST_REMEMBERED :], f"{operation.procedure} {summary(operation)}: {what!r}"]

    # Choosing.

    def _choose_batch(self) -> list[Operation]:
        batch: list[Operation] = []
        for _ in range(self.random.choice((1, 1, 2, 4, MOST_AT_ONCE))):
            operation = self._choose()
            if operation is not None and all(operation.is_independent_of(other) for other in batch):
                batch.append(operation)
        return batch

    def _choose(self) -> Operation | None:
        entries = [*walk(self.home), *walk(self.shared)]
        directories = [self.home, self.shared, *(node for _, _, node in entries if node.is_directory)]
        into = self.random.choice(directories)
        if not entries or self.random.random() < 0.30 * (len(entries) < MOST_NODES):
            return self._choose_new(into)
        directory, name, node = self.random.choice(entries)
        if self.random.random() < (0.2 if len(entries) < MOST_NODES else 0.4):
            return self._choose_removal(directory, name, node)
        if self.random.random() < 0.35:
            return self._choose_naming(directory, name, node, into)
        if node.type is t.ftype3.NF3REG and self.random.random() < 0.9:
            return self._choose_content(node)
        if node.type is t.ftype3.NF3LNK:
            return None
        moment = t.nfstime3(self.random.randrange(2**31), self.random.randrange(10**9))
        return o.SetMode(node, self.random.choice((0o600, 0o640, 0o755, 0o777)), moment)

    def _new_name(self) -> bytes:
        self._made += 1
        return f"{self.name}-{self._made}".encode() + b"x" * self.random.choice((0, 0, 0, 200))

    def _choose_new(self, directory: Node) -> Operation:
        name, mode = self._new_name(), self.random.choice((0o600, 0o644, 0o755))
        kind = self.random.choices(
            (o.Create, o.CreateUnchecked, o.CreateExclusive, o.Mkdir, o.Symlink, o.Mknod), (4, 2, 2, 3, 1, 1)
        )[0]
        if kind is o.CreateExclusive:
            return o.CreateExclusive(directory, name, Node(t.ftype3.NF3REG, None))
        if kind is o.Mkdir:
            return o.Mkdir(directory, name, Node(t.ftype3.NF3DIR, mode))
        if kind is o.Symlink:
            return o.Symlink(directory, name, Node(t.ftype3.NF3LNK, 0o777, target=b"to/" + name))
        if kind is o.Mknod:
            return o.Mknod(directory, name, Node(t.ftype3.NF3FIFO, mode))
        return kind(directory, name, Node(t.ftype3.NF3REG, mode))

    def _choose_removal(self, directory: Node, name: bytes, node: Node) -> Operation | None:
        if not node.is_directory:
            return o.Remove(directory, name)
        return None if node.entries else o.Rmdir(directory, name)

    def _choose_naming(self, directory: Node, name: bytes, node: Node, into: Node) -> Operation | None:
        if self.random.random() < 0.3 and not node.is_directory:
            return o.Link(node, into, self._new_name())
        if node.is_directory and into.is_below(node):
            return None
        over = self.random.choice([None, None, *into.entries])
        if over is None:
            return o.Rename(directory, name, into, self._new_name())
        target = into.entries[over]
        if target is node or target.is_directory != node.is_directory or target.entries:
            return None
        return o.Rename(directory, name, into, over)

    def _choose_content(self, node: Node) -> Operation:
        size = len(node.content.visible())
        choice = self.random.random()
        if choice < 0.1:
            return o.Read(node)
        if choice < 0.25:
            return o.Commit(node)
        if choice < 0.4:
            return o.SetSize(node, self.random.choice((0, size // 2, max(size - 1, 0), size, size + 5000)))
        count = self.random.choice((1, 100, 4096, 9000, 60_000))
        offset = self.random.choice((0, size, size // 3, size + 3000))
        offset = min(offset, LARGEST_FILE - count)
        stable = self.random.choice((t.stable_how.UNSTABLE, t.stable_how.FILE_SYNC, t.stable_how.DATA_SYNC))
        return o.Write(node, offset, self.random.randbytes(count), stable)

    # After the crash.

    def recover(self, client: Nfs3Client) -> None:
        """Find out what became of the calls without an answer, compare everything, and send them again."""
        under_way, self.under_way = self.under_way, []
        outcomes = [(sent, self._outcome(client, sent.operation)) for sent in under_way]
        self.compare(client)
        for sent, happened in outcomes:
            self._send_again(client, sent, happened)

    def _outcome(self, client: Nfs3Client, operation: Operation) -> bool | None:
        happened = operation.happened(client)
        if happened:
            operation.apply(None)
        if happened is not None:
            self.ambiguous[f"{operation.procedure} {'done' if happened else 'not done'}"] += 1
        self._note(operation, {True: "unanswered, but done", False: "unanswered, not done"}.get(happened, "unanswered"))
        return happened

    def _send_again(self, client: Nfs3Client, sent: Sent, happened: bool | None) -> None:
        """As a client does that got no answer: with the same number."""
        operation = sent.operation
        exchange = EXCHANGES[operation.procedure]
        credential = client.transport.credential
        xid = sent.xid or 1
        client.transport.send_record(exchange.encode(xid, operation.arguments(), credential=credential))
        result = client.transport.receive(xid, exchange)
        self._note(operation, ("again", result.discriminant))
        expected = operation.repeated if happened else o.OK
        if result.discriminant != expected:
            raise Impossible(f"{operation.procedure} sent again: {result.discriminant!r} instead of {expected!r}")
        if result.discriminant == o.OK:
            if happened and isinstance(operation, o.Make) and result.value.obj != operation.node.handle:
                raise Impossible(f"{operation.procedure} sent again made another file")
            operation.apply(result.value)

    def compare(self, client: Nfs3Client) -> None:
        """Everything that is there with everything that should be."""
        self._compare_directory(client, self.home, b"")
        self._compare_directory(client, self.shared, self.name.encode() + b"-")
        if why := self.home.why_not(client.getattr(self.home.handle)):
            raise Impossible(f"{self.name}: {why}")

    def _compare_directory(self, client: Nfs3Client, directory: Node, prefix: bytes) -> None:
        found = {e.name: e for e in client.list_directory(directory.handle) if e.name not in (b".", b"..")}
        names = {name for name in found if name.startswith(prefix)}
        if names != directory.entries.keys():
            lost, extra = directory.entries.keys() - names, names - directory.entries.keys()
            raise Impossible(f"{self.name}: names lost {sorted(lost)}, names nobody made {sorted(extra)}")
        for name, node in directory.entries.items():
            self._compare_node(client, node, name, found[name])
            if node.is_directory:
                self._compare_directory(client, node, b"")

    def _compare_node(self, client: Nfs3Client, node: Node, name: bytes, entry: t.entryplus3) -> None:
        if entry.name_handle != node.handle:
            raise Impossible(f"{self.name}: {name!r} has another handle")
        assert entry.name_attributes is not None, "our server gives attributes with every entry"
        why = node.why_not(entry.name_attributes)
        if node.type is t.ftype3.NF3REG:
            data = o.read_all(client, node)
            if len(data) != entry.name_attributes.size:
                why = why or f"{len(data)} bytes can be read, the size is {entry.name_attributes.size}"
            why = why or node.content.why_not(data)
            node.content.settle(data)
        elif node.type is t.ftype3.NF3LNK and client.readlink(node.handle).data != node.target:
            why = why or "it leads elsewhere"
        if why:
            raise Impossible(f"{self.name}: {name!r}: {why}")


def summary(operation: Operation) -> str:
    """Which file, where and how much: enough to follow a history."""
    parts: list[Any] = []
    for key in ("directory", "name", "to_directory", "to_name", "node", "offset", "data", "size", "stable", "mode"):
        value = getattr(operation, key, None)
        if isinstance(value, Node):
            value = f"#{value.fileid}"
        elif key == "data" and value is not None:
            value = f"{len(value)} bytes"
        if value is not None:
            parts.append(value.name if isinstance(value, t.stable_how) else value)
    return " ".join(map(str, parts))
