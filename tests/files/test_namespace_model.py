"""Random operations by several users, compared with a tree of plain objects after each step."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from dittofs.files import namespace
from dittofs.files.attributes import set_attributes
from dittofs.files.namespace import CreateMode
from dittofs.files.records import FileType
from dittofs.files.renaming import rename
from dittofs.files.values import Removed, SetAttributes
from dittofs.model.errors import FileError, StaleHandle
from dittofs.model.identity import Identity
from dittofs.model.ids import FileId
from tests.files import model
from tests.files.world import ALICE, BOB, CAROL, ROOT, At, PlaceOf, World, weak_place_of

users = st.sampled_from([ROOT, ALICE, BOB, CAROL])
names = st.sampled_from([b"a", b"b", b"c", b"d", b"e", b"ab", b"long" * 60])
modes = st.sampled_from([0o777, 0o755, 0o700, 0o1777, 0o2777, 0o775, 0o577, 0o666, 0o333])


class NamespaceMachine(RuleBasedStateMachine):
    """Each rule does one thing to both; outcomes and then trees must agree."""

    place_of: PlaceOf | None = None

    nodes = Bundle("nodes")

    @initialize(target=nodes, mode=modes)
    def make_root(self, mode: int) -> model.Node:
        self.world = World(self.place_of, mode=mode)
        root = model.Node(FileType.DIRECTORY, mode, 0, 0, number=self.world.root)
        self.root = root
        self.removed: set[int] = set()
        return root

    def both(self, real: Callable[[], Any], expected: Callable[[], Any]) -> tuple[Any, Any]:
        """Run both; the same error from both, or a result from both.  Files that are gone are stale, for whoever."""
        before = self.snapshot()
        try:
            wanted = expected()
            failure = None
        except FileError as error:
            wanted, failure = None, type(error)
        if failure is None:
            return real(), wanted
        with pytest.raises(failure):
            real()
        assert self.snapshot() == before, "a refused call changed something"
        return None, None

    def snapshot(self) -> list[dict[Any, Any]]:
        return [dict(rows) for rows in self.world.transactions.rows]

    def is_gone(self, *nodes: model.Node) -> bool:
        """Handles of removed files are stale, whatever is asked of them."""
        gone = [node for node in nodes if node.number in self.removed]
        for node in gone:
            with pytest.raises(StaleHandle):
                self.world.load(FileId(node.number))
        return bool(gone)

    @rule(
        target=nodes,
        who=users,
        directory=nodes,
        name=names,
        mode=modes,
        kind=st.sampled_from(
            [FileType.REGULAR, FileType.DIRECTORY, FileType.DIRECTORY, FileType.SYMLINK, FileType.FIFO]
        ),
    )
    def create(self, who: Identity, directory: model.Node, name: bytes, mode: int, kind: FileType) -> Any:
        if self.is_gone(directory):
            return multiple()
        at, wanted = At(FileId(directory.number)), SetAttributes(mode=mode)
        calls: dict[FileType, Callable[[], Any]] = {
            FileType.REGULAR: lambda: self.world.call(namespace.create, who, at, name, wanted, CreateMode.UNCHECKED),
            FileType.DIRECTORY: lambda: self.world.call(namespace.make_directory, who, at, name, wanted),
            FileType.SYMLINK: lambda: self.world.call(namespace.make_symlink, who, at, name, b"target", wanted),
            FileType.FIFO: lambda: self.world.call(namespace.make_special, who, at, name, FileType.FIFO, wanted),
        }
        got, node = self.both(calls[kind], lambda: model.create(who, directory, name, kind, mode))
        if got is None:
            return multiple()
        node.number = node.number or got.file.id
        assert node.number == got.file.id
        assert got.after == self.world.load(FileId(directory.number))
        return node

    @rule(who=users, directory=nodes, name=names)
    def lookup(self, who: Identity, directory: model.Node, name: bytes) -> None:
        if self.is_gone(directory):
            return
        got, node = self.both(
            lambda: self.world.call(namespace.lookup, who, At(FileId(directory.number)), name),
            lambda: model.find(who, directory, name),
        )
        if got is not None:
            assert got.id == node.number

    @rule(who=users, node=nodes, directory=nodes, name=names)
    def link(self, who: Identity, node: model.Node, directory: model.Node, name: bytes) -> None:
        if self.is_gone(node, directory):
            return
        file, at = At(FileId(node.number)), At(FileId(directory.number))
        self.both(
            lambda: self.world.call(namespace.link, who, file, at, name),
            lambda: model.link(who, node, directory, name),
        )

    @rule(who=users, directory=nodes, name=names, is_directory=st.booleans())
    def remove(self, who: Identity, directory: model.Node, name: bytes, is_directory: bool) -> None:
        if self.is_gone(directory):
            return
        function = namespace.remove_directory if is_directory else namespace.remove
        got, node = self.both(
            lambda: self.world.call(function, who, At(FileId(directory.number)), name),
            lambda: model.remove(who, directory, name, is_directory=is_directory),
        )
        if got is not None:
            self.forget(node)
            assert got.after == self.world.load(FileId(directory.number))

    @rule(who=users, source=nodes, source_name=names, onto=nodes, onto_name=names)
    def rename(self, who: Identity, source: model.Node, source_name: bytes, onto: model.Node, onto_name: bytes) -> None:
        if self.is_gone(source, onto):
            return
        got, replaced = self.both(
            lambda: self.world.call(
                rename, who, At(FileId(source.number)), source_name, At(FileId(onto.number)), onto_name
            ),
            lambda: model.rename(who, source, source_name, onto, onto_name),
        )
        if replaced is not None:
            self.forget(replaced)
        if got is not None:
            assert got.from_after == self.world.load(FileId(source.number))
            assert got.to_after == self.world.load(FileId(onto.number))

    @rule(who=users, node=nodes, mode=modes)
    def change_mode(self, who: Identity, node: model.Node, mode: int) -> None:
        if self.is_gone(node):
            return
        self.both(
            lambda: self.world.transactions.run(
                set_attributes, who, self.world.load(FileId(node.number)), SetAttributes(mode=mode)
            ),
            lambda: model.change_mode(who, node, mode),
        )

    def forget(self, node: model.Node) -> None:
        if not node.names:
            self.removed.add(node.number)
            assert self.world.transactions.effects[-1] == Removed(self.world.tree.share, FileId(node.number))

    @invariant()
    def trees_are_equal(self) -> None:
        if not hasattr(self, "root"):
            return
        unseen = [self.root]
        while unseen:
            node = unseen.pop()
            file = self.world.load(FileId(node.number))
            inode = file.inode
            assert (inode.type, inode.mode, inode.uid, inode.gid) == (node.kind, node.mode, node.uid, node.gid)
            assert file.links == node.links
            if node.is_directory:
                listing = self.world.call(namespace.read_directory, ROOT, At(file.id), 2, 1_000)
                assert {entry.name: entry.id for entry in listing.entries} == {
                    name: child.number for name, child in node.children.items()
                }
                assert len(listing.entries) == len(node.children)
                assert inode.parent == (node.parent.number if node.parent else 0)
                unseen += node.children.values()

    @invariant()
    def everything_is_consistent(self) -> None:
        if hasattr(self, "world"):
            assert self.world.problems() == []


class CollidingMachine(NamespaceMachine):
    """The same, with names that nearly all have one home."""

    place_of = staticmethod(weak_place_of)


def test_names_behave_like_the_model() -> None:
    """[NFS-1]."""
    run_state_machine_as_test(NamespaceMachine, settings=settings(max_examples=15, stateful_step_count=30))


def test_colliding_names_behave_like_the_model() -> None:
    run_state_machine_as_test(CollidingMachine, settings=settings(max_examples=15, stateful_step_count=30))


@pytest.mark.slow
@pytest.mark.parametrize("machine", [NamespaceMachine, CollidingMachine])
def test_names_behave_like_the_model_for_long(machine: type[NamespaceMachine]) -> None:
    """[NFS-1]."""
    run_state_machine_as_test(machine, settings=settings(max_examples=150, stateful_step_count=60, deadline=None))
