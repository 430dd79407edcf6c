"""The checker finds what it is there to find."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from dittofs.files import checking, namespace
from dittofs.files.namespace import CreateMode
from dittofs.files.records import (
    DIRECTORIES,
    ENTRIES,
    INODES,
    RECLAIMS,
    SHARES,
    TRUNCATIONS,
    DirectoryState,
    Entry,
    FileType,
    Inode,
    Reclaim,
    ShareRecord,
    Truncation,
)
from dittofs.files.values import SetAttributes
from dittofs.model.ids import ContentId, FileId, ShareId
from tests.files.world import ROOT, SHARE, At, World

MISSING = FileId(999)


class Sample(World):
    """/, /d, /d/f, /d/e, and /g, which is a link to /d/f."""

    def __init__(self) -> None:
        super().__init__()
        self.d = self._made(namespace.make_directory, At(self.root), b"d", SetAttributes())
        self.f = self._made(namespace.create, At(self.d), b"f", SetAttributes(), CreateMode.GUARDED)
        self.e = self._made(namespace.make_directory, At(self.d), b"e", SetAttributes())
        self.call(namespace.link, ROOT, At(self.f), At(self.root), b"g")

    def _made(self, function: Callable[..., Any], *args: Any) -> FileId:
        file: FileId = self.call(function, ROOT, *args).file.id
        return file

    def change(self, table: Any, key: Any, **changes: Any) -> None:
        self.transactions.run(lambda view: view.put(table, key, replace(view.get(table, key), **changes)))

    def put(self, table: Any, key: Any, record: Any) -> None:
        self.transactions.run(lambda view: view.put(table, key, record))

    def delete(self, table: Any, key: Any) -> None:
        self.transactions.run(lambda view: view.delete(table, key))

    def place(self, name: bytes) -> int:
        return self.place_of(name)


def test_a_sound_tree_has_no_problems() -> None:
    world = Sample()
    report = world.transactions.run(checking.check, {SHARE: world.content}, lambda share: world.place_of)
    assert report.problems == []
    assert report.summary == "1 shares, 3 directories, 1 other files: no problems"


def inode(kind: FileType) -> Inode:
    return Inode(kind, 0o644, 0, 0, 1, 0, 0, 0, 0, 0)


DAMAGE: list[tuple[str, Callable[[Sample], None]]] = [
    ("has 2 names, but counts 3 links", lambda w: w.change(INODES, w.f, links=3)),
    ("has no name", lambda w: w.put(INODES, MISSING, inode(FileType.REGULAR))),
    ("which does not exist", lambda w: w.delete(INODES, w.f)),
    ("has no state", lambda w: w.delete(DIRECTORIES, w.e)),
    ("but no directory", lambda w: w.put(DIRECTORIES, w.f, DirectoryState(2, 0, 0, 0))),
    ("entries, but counts 5", lambda w: w.change(DIRECTORIES, w.d, entries=5)),
    ("but counts 9 links", lambda w: w.change(DIRECTORIES, w.d, links=9)),
    ("but its parent is", lambda w: w.change(INODES, w.e, parent=w.root)),
    ("is not below the root", lambda w: w.change(INODES, w.d, parent=w.e)),
    ("has a parent", lambda w: w.change(INODES, w.root, parent=w.d)),
    ("names instead of 1", lambda w: w.put(ENTRIES, (w.root, w.place(b"x")), Entry(b"x", w.e))),
    ("names instead of 0", lambda w: w.put(ENTRIES, (w.d, w.place(b"x")), Entry(b"x", w.root))),
    ("names instead of 1", lambda w: w.delete(ENTRIES, (w.d, w.place(b"e")))),
    ("which is not a directory", lambda w: w.put(ENTRIES, (w.f, w.place(b"x")), Entry(b"x", w.f))),
    ("which is no name", lambda w: w.put(ENTRIES, (w.d, w.place(b"..")), Entry(b"..", w.f))),
    ("which is no name", lambda w: w.put(ENTRIES, (w.d, w.place(b"a/b")), Entry(b"a/b", w.f))),
    ("has two entries b'f'", lambda w: w.put(ENTRIES, (w.d, 12345), Entry(b"f", w.f))),
    ("counts 0 displaced entries: there are 1", lambda w: w.put(ENTRIES, (w.d, 12345), Entry(b"x", w.f))),
    ("displaced entries: there are 0", lambda w: w.change(ENTRIES, (w.d, w.place(b"f")), displaced=1)),
    ("kept for nothing", lambda w: w.put(ENTRIES, (w.d, 12345), Entry(b"", FileId(0)))),
    ("lies at 2", lambda w: w.put(ENTRIES, (w.d, 2), Entry(b"x", w.f))),
    ("is to be reclaimed", lambda w: w.put(RECLAIMS, w.f, Reclaim(SHARE))),
    ("for a share that does not exist", lambda w: w.put(RECLAIMS, MISSING, Reclaim(b"another!"))),
    ("there is no such file", lambda w: w.put(TRUNCATIONS, MISSING, Truncation(SHARE, 0))),
    ("there is no such file", lambda w: w.put(TRUNCATIONS, w.d, Truncation(SHARE, 0))),
    ("but has no content", lambda w: w.change(INODES, w.f, size=5, used=5)),
    ("is not a directory", lambda w: w.put(SHARES, b"/other", ShareRecord(b"another!", MISSING, b"", 1))),
    ("which is not a regular file", lambda w: w.content.current.update({ContentId(SHARE, w.d): b"x"})),
]


@pytest.mark.parametrize(("problem", "damage"), DAMAGE, ids=[f"{number}" for number in range(len(DAMAGE))])
def test_damage_is_found(problem: str, damage: Callable[[Sample], None]) -> None:
    world = Sample()
    damage(world)
    assert any(problem in found for found in world.problems({SHARE: world.content})), world.problems()


def test_a_cut_that_would_cut_too_much_is_found() -> None:
    world = Sample()
    world.change(INODES, world.f, size=5)
    world.put(TRUNCATIONS, world.f, Truncation(SHARE, 5))
    assert world.problems() == []
    world.put(TRUNCATIONS, world.f, Truncation(SHARE, 3))
    assert world.problems() == [f"content of {world.f} is to be cut to 3, but its size is 5"]


def test_directories_in_a_circle_are_found() -> None:
    world = Sample()
    one, two = FileId(500), FileId(501)
    for file, parent in ((one, two), (two, one)):
        world.put(INODES, file, replace(inode(FileType.DIRECTORY), parent=parent, links=2))
        world.put(DIRECTORIES, file, DirectoryState(3, 1, 0, 0))
        world.put(ENTRIES, (parent, world.place(b"x")), Entry(b"x", file))
    assert world.problems() == [f"directory {file} is not below the root of any share" for file in (one, two)]


def test_orphans_are_listed_and_what_is_to_be_reclaimed_is_none() -> None:
    world = Sample()
    orphan, doomed = ContentId(SHARE, MISSING), ContentId(SHARE, FileId(998))
    world.content.current.update({orphan: b"x", doomed: b"y"})
    world.put(RECLAIMS, doomed.file, Reclaim(SHARE))
    report = world.transactions.run(checking.check, {SHARE: world.content}, lambda share: world.place_of)
    problem = f"share /export keeps content of file {MISSING}, which does not exist"
    assert report.orphans == {orphan: problem}
    assert report.problems == [problem]
    assert report.summary.endswith("1 problems")


def test_a_share_whose_content_is_not_given_is_checked_without() -> None:
    world = Sample()
    world.change(INODES, world.f, size=5, used=5)
    assert world.problems() == []
    assert world.problems({ShareId(b"another!"): world.content}) == []


def test_more_records_than_are_read_at_once() -> None:
    world = World()
    gone = world.call(namespace.make_symlink, ROOT, At(world.root), b"gone", b"t", SetAttributes()).file.id
    world.call(namespace.remove, ROOT, At(world.root), b"gone")
    for number in range(checking.AT_ONCE + 500):
        world.call(namespace.make_symlink, ROOT, At(world.root), b"%d" % number, b"t", SetAttributes())
        if number == 10:
            world.transactions.run(lambda view: view.put(RECLAIMS, gone, Reclaim(SHARE)))
    assert world.problems() == []
    last = FileId(world.transactions.last_file_id)
    world.transactions.run(lambda view: view.delete(INODES, last))
    assert len(world.problems()) == 1
