"""Creates, renames and removes of the same names from two live servers at once, judged by a model: what happened must
be what one of the possible orders would have done, to the last file id."""

import copy
import itertools
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dittofs.client.nfs3 import Nfs3Error, attributes
from dittofs.files.records import FileType
from dittofs.model.errors import FileError, StaleHandle
from dittofs.protocols.nfs3 import types as t
from dittofs.protocols.nfs3.errors import status_of as status_of_error
from tests.end_to_end.server_process import MountedClient
from tests.files import model
from tests.files.model import Node
from tests.files.world import ROOT
from tests.postgres.servers import OK, at_once, two_servers

pytestmark = pytest.mark.slow

ROUNDS = int(os.environ.get("DITTOFS_TEST_ROUNDS", "60"))
NAMES = (b"a", b"b", b"c")
DIRECTORIES_AT_MOST = 6


@dataclass(frozen=True)
class Operation:
    """Directories are named by their numbers, which are file ids."""

    kind: str
    directory: int
    name: bytes
    to_directory: int = 0
    to_name: bytes = b""


@dataclass
class Tree:
    """A state of the model: all nodes by their numbers, also directories that are gone."""

    root: Node
    nodes: dict[int, Node] = field(default_factory=dict)

    def apply(self, operation: Operation, number: int) -> t.nfsstat3:
        """`number` is what the server gave to a new file, if it made one."""
        try:
            directory = self._directory(operation.directory)
            match operation.kind:
                case "create" | "mkdir":
                    kind = FileType.REGULAR if operation.kind == "create" else FileType.DIRECTORY
                    if operation.name in directory.children:
                        return t.nfsstat3.NFS3ERR_EXIST
                    made = model.create(ROOT, directory, operation.name, kind, 0o777)
                    made.number = number
                    self.nodes[number] = made
                case "remove" | "rmdir":
                    model.remove(ROOT, directory, operation.name, is_directory=operation.kind == "rmdir")
                case "rename":
                    to = self._directory(operation.to_directory)
                    model.rename(ROOT, directory, operation.name, to, operation.to_name)
        except FileError as error:
            return status_of_error(error)
        return OK

    def _directory(self, number: int) -> Node:
        node = self.nodes[number]
        if node is not self.root and node.names == 0:
            raise StaleHandle
        return node

    def shape(self, node: Node | None = None) -> Any:
        """Names and numbers, all the way down."""
        node = node or self.root
        if not node.is_directory:
            return node.number, node.names
        return node.number, node.links, {name: self.shape(child) for name, child in node.children.items()}


def shape_of(client: MountedClient, directory: bytes) -> Any:
    found = client.getattr(directory)
    children = {}
    for entry in client.list_directory(directory):
        if entry.name in (b".", b".."):
            continue
        assert entry.name_attributes is not None
        assert entry.name_handle is not None
        is_directory = entry.name_attributes.type == t.ftype3.NF3DIR
        told = shape_of(client, bytes(entry.name_handle)) if is_directory else None
        children[bytes(entry.name)] = told or (entry.fileid, entry.name_attributes.nlink)
    return found.fileid, found.nlink, children


class Story:
    def __init__(self, clients: list[MountedClient], chance: random.Random):
        self.clients = clients
        self.chance = chance
        self.handles: dict[int, bytes] = {}
        top = bytes(clients[0].mkdir(clients[0].root, b"top").obj)
        number = clients[0].getattr(top).fileid
        self.handles[number] = self.top = top
        root = Node(FileType.DIRECTORY, 0o777, 0, 0, names=1, number=number)
        self.tree = Tree(root, {number: root})

    def choose(self) -> Operation:
        chance = self.chance
        alive = [number for number, node in self.tree.nodes.items() if node.is_directory and node.names]
        kinds = ["create", "remove", "rename", "rename", "rmdir"]
        if len(alive) < DIRECTORIES_AT_MOST:
            kinds += ["mkdir", "mkdir"]
        return Operation(
            chance.choice(kinds),
            chance.choice(alive),
            chance.choice(NAMES),
            chance.choice(alive),
            chance.choice(NAMES),
        )

    def perform(self, client: MountedClient, operation: Operation) -> tuple[t.nfsstat3, int]:
        directory, name = self.handles[operation.directory], operation.name
        made: Any = None
        try:
            match operation.kind:
                case "create":
                    made = client.create(directory, name, t.createhow3(t.createmode3.GUARDED, attributes(mode=0o777)))
                case "mkdir":
                    made = client.mkdir(directory, name, attributes(mode=0o777))
                case "remove":
                    client.remove(directory, name)
                case "rmdir":
                    client.rmdir(directory, name)
                case "rename":
                    client.rename(directory, name, self.handles[operation.to_directory], operation.to_name)
        except Nfs3Error as refused:
            return refused.status, 0
        if made is None:
            return OK, 0
        self.handles[made.obj_attributes.fileid] = bytes(made.obj)
        return OK, int(made.obj_attributes.fileid)

    def round(self) -> None:
        operations = [self.choose() for _ in self.clients]
        calls: list[Callable[[], tuple[t.nfsstat3, int]]] = [
            partial(self.perform, client, operation) for client, operation in zip(self.clients, operations, strict=True)
        ]
        told = at_once(*calls)
        seen = [shape_of(client, self.top) for client in self.clients]
        assert all(shape == seen[0] for shape in seen), "both servers show one tree"
        for order in itertools.permutations(range(len(operations))):
            tree = copy.deepcopy(self.tree)
            if all(tree.apply(operations[i], told[i][1]) == told[i][0] for i in order) and tree.shape() == seen[0]:
                self.tree = tree
                return
        raise AssertionError(f"no order explains {operations}: {told}, {self.tree.shape()} became {seen[0]}")


def test_what_two_servers_do_at_once_has_an_order(dsn: str, tmp_path: Path) -> None:
    seed = int(os.environ.get("DITTOFS_TEST_SEED", random.randrange(2**32)))
    print("DITTOFS_TEST_SEED", seed)
    with two_servers(tmp_path, dsn) as pair:
        third = pair.servers[0].connect()
        story = Story([pair.one, pair.other, third], random.Random(seed))
        for _ in range(ROUNDS):
            story.round()
        third.transport.close()
        for server in pair.servers:
            server.terminate()
            checked = server.check()
            assert checked.returncode == 0, checked.stdout + checked.stderr
