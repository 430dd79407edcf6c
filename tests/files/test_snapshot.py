"""A snapshot shows one moment, whatever is done to the files while it is read."""

import asyncio
import tempfile
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dittofs.files import io, namespace, recovery, snapshot
from dittofs.files.io import Stability
from dittofs.files.namespace import CreateMode
from dittofs.files.records import INODES
from dittofs.files.snapshot import Snapshot, SnapshotLost
from dittofs.files.values import SetAttributes
from dittofs.model.errors import FileError
from dittofs.model.ids import FileId
from tests.files.world import ALICE, At, World

T = TypeVar("T")
BLOCK = 8


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, 20))


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Any:
    """So that a few bytes are several blocks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot, "BLOCK_BYTES", BLOCK)
        yield


def make(world: World, name: bytes) -> FileId:
    created = world.call(namespace.create, ALICE, At(world.root), name, SetAttributes(mode=0o644), CreateMode.GUARDED)
    file: FileId = created.file.id
    return file


async def write(world: World, file: FileId, offset: int, data: bytes) -> None:
    await io.write(world.volume, ALICE, file, offset, data, Stability.UNSTABLE)


async def sizes_of(taken: Snapshot) -> dict[FileId, int]:
    return {one.file.id: one.file.inode.size async for some in taken.walk() for one in some}


async def read(taken: Snapshot, sizes: dict[FileId, int]) -> dict[FileId, bytes]:
    found = {file: bytearray(size) for file, size in sizes.items()}
    async for file, offset, data in taken.contents():
        found[file][offset : offset + len(data)] = data
    return {file: bytes(data) for file, data in found.items()}


async def content(world: World, file: FileId) -> bytes:
    return bytes((await io.read(world.volume, ALICE, file, 0, 10_000)).data)


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["write", "cut", "remove", "reclaim", "settle"]),
        st.integers(0, 2),
        st.integers(0, 5 * BLOCK),
        st.integers(1, 2 * BLOCK),
    ),
    max_size=15,
)


async def change(world: World, files: list[FileId], operation: tuple[str, int, int, int]) -> None:
    what, index, place, count = operation
    file = files[index]
    if what == "reclaim":
        await recovery.reclaim(world.volume)
        return
    if not world.transactions.run(lambda view: is_there(view, file)):
        return
    if what == "write":
        await write(world, file, place, bytes([65 + index]) * count)
    elif what == "cut":
        await io.truncate(world.volume, ALICE, file, place)
    elif what == "settle":
        await io.settle(world.volume, file)
    else:
        world.call(namespace.remove, ALICE, At(world.root), b"file %d" % index)
        world.transactions.flush()


def is_there(view: Any, file: FileId) -> bool:
    return view.get(INODES, file) is not None


@given(before=OPERATIONS, meanwhile=OPERATIONS, pauses=st.lists(st.integers(0, 4), min_size=15, max_size=15))
def test_one_moment_is_seen(
    before: list[tuple[str, int, int, int]], meanwhile: list[tuple[str, int, int, int]], pauses: list[int]
) -> None:
    async def course() -> None:
        world = World()
        files = [make(world, b"file %d" % number) for number in range(3)]
        for operation in before:
            await change(world, files, operation)
        with tempfile.TemporaryFile() as spool:
            taken = Snapshot(world.volume, spool)
            with taken.taken():
                sizes = await sizes_of(taken)
                expected = {file: await content(world, file) for file in sizes}
                taken.thaw()
                reading = asyncio.ensure_future(read(taken, sizes))
                jobs = []
                for operation, pause in zip(meanwhile, pauses, strict=False):
                    jobs.append(asyncio.ensure_future(change_or_gone(world, files, operation)))
                    for _ in range(pause):
                        await asyncio.sleep(0)
                await asyncio.gather(*jobs)
                assert await reading == expected
        assert world.volume.snapshot is None
        await recovery.reclaim(world.volume)
        assert world.problems() == []

    run(course())


async def change_or_gone(world: World, files: list[FileId], operation: tuple[str, int, int, int]) -> None:
    """Between two looks somebody else may have removed the file."""
    try:
        await change(world, files, operation)
    except FileError:
        return


def test_content_of_a_removed_file_is_reclaimed_when_the_snapshot_ends() -> None:
    async def course() -> None:
        world = World()
        file = make(world, b"f")
        await write(world, file, 0, b"content")
        with tempfile.TemporaryFile() as spool:
            taken = Snapshot(world.volume, spool)
            looks = []
            world.volume.on_removed = lambda: looks.append(1)
            with taken.taken():
                sizes = await sizes_of(taken)
                taken.thaw()
                world.call(namespace.remove, ALICE, At(world.root), b"f")
                assert await recovery.reclaim(world.volume) == 0
                assert await read(taken, sizes) == {file: b"content"}
            assert looks, "there is a new look"
            assert await recovery.reclaim(world.volume) == 1

    run(course())


def test_a_write_succeeds_although_the_snapshot_cannot_put_the_old_bytes_aside() -> None:
    async def course() -> None:
        world = World()
        file = make(world, b"f")
        await write(world, file, 0, b"old bytes")
        with tempfile.TemporaryFile() as spool:
            taken = Snapshot(world.volume, spool)
            with taken.taken():
                sizes = await sizes_of(taken)
                taken.thaw()
                world.content.fails_to.add("read")
                await write(world, file, 0, b"new")
                world.content.fails_to.clear()
                with pytest.raises(SnapshotLost, match="could not be put aside"):
                    await read(taken, sizes)
                assert await content(world, file) == b"new bytes"

    run(course())


@pytest.mark.parametrize("what", ["write", "cut", "remove"])
def test_what_is_changed_before_it_is_read_is_read_as_it_was(what: str) -> None:
    async def course() -> None:
        world = World()
        file = make(world, b"file 0")
        await write(world, file, 0, b"as it was at the moment")
        with tempfile.TemporaryFile() as spool:
            taken = Snapshot(world.volume, spool)
            with taken.taken():
                sizes = await sizes_of(taken)
                taken.thaw()
                await change(world, [file], (what, 0, 3, 10))
                assert await read(taken, sizes) == {file: b"as it was at the moment"}

    run(course())


def test_of_two_who_put_the_same_block_aside_the_later_one_does_not_count() -> None:
    async def course() -> None:
        world = World()
        file = make(world, b"f")
        await write(world, file, 0, b"old")
        with tempfile.TemporaryFile() as spool:
            taken = Snapshot(world.volume, spool)
            with taken.taken():
                sizes = await sizes_of(taken)
                taken.thaw()
                world.content.pause("read")
                second = asyncio.ensure_future(taken.put_aside(file, 0, 3))
                await world.content.reached["read"].wait()
                held_up = world.content.paused.pop("read")
                await taken.put_aside(file, 0, 3)
                await world.content.write(world.volume.content_of(file), 0, b"new")
                held_up.set()
                await second
                assert await read(taken, sizes) == {file: b"old"}

    run(course())
