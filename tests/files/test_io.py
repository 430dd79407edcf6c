"""Reading and writing: what is seen, what is durable, and who waits for whom."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from dittofs.files import at_once, io, namespace, recovery
from dittofs.files.attributes import set_attributes
from dittofs.files.io import Stability
from dittofs.files.namespace import CreateMode
from dittofs.files.records import MAX_FILE_SIZE, TRUNCATIONS, UNSTABLE
from dittofs.files.values import NOTHING, File, SetAttributes
from dittofs.model.errors import (
    AccessDenied,
    AlreadyExists,
    FileError,
    FileTooBig,
    GuardFailed,
    InvalidArgument,
    IsADirectory,
    NoSpace,
    StaleHandle,
    StoreFailure,
)
from dittofs.model.identity import Identity
from dittofs.model.ids import ContentId, FileId
from dittofs.model.unread import Unread
from tests.files.world import ALICE, BOB, ROOT, SHARE, At, World

T = TypeVar("T")
UNSTABLE_WRITE, DATA_SYNC, FILE_SYNC = Stability.UNSTABLE, Stability.DATA_SYNC, Stability.FILE_SYNC


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, 10))


@pytest.fixture
def world() -> World:
    return World()


def make(world: World, name: bytes = b"f", mode: int = 0o644, who: Identity = ALICE) -> FileId:
    created = world.call(namespace.create, who, At(world.root), name, SetAttributes(mode=mode), CreateMode.GUARDED)
    world.transactions.flush()
    file: File = created.file
    return file.id


async def write(
    world: World, file: FileId, offset: int, data: bytes, stability: Stability = UNSTABLE_WRITE, who: Identity = ALICE
) -> io.WriteResult:
    world.transactions.now += 1_000
    return await io.write(world.volume, who, file, offset, data, stability)


async def content(world: World, file: FileId, who: Identity = ALICE) -> bytes:
    result = await io.read(world.volume, who, file, 0, 1_000_000)
    assert result.at_end
    assert len(result.data) == result.file.inode.size
    return bytes(result.data)


# What is seen.


def test_what_was_written_is_read(world: World) -> None:
    async def work() -> None:
        file = make(world)
        before = world.load(file)
        result = await write(world, file, 0, b"hello world")
        assert result.before == before
        assert result.after == world.load(file)
        assert result.after.inode.size == 11
        assert result.after.mtime == result.after.ctime > before.ctime
        assert await io.read(world.volume, ALICE, file, 6, 3) == (result.after, b"wor", False)
        assert await io.read(world.volume, ALICE, file, 6, 5) == (result.after, b"world", True)
        assert await io.read(world.volume, ALICE, file, 6, 100) == (result.after, b"world", True)
        assert await io.read(world.volume, ALICE, file, 11, 1) == (result.after, b"", True)
        assert await io.read(world.volume, ALICE, file, 2**64 - 1, 100) == (result.after, b"", True)
        assert await io.read(world.volume, ALICE, file, 3, 0) == (result.after, b"", False)

    run(work())


def test_holes_are_zeros_and_cost_nothing(world: World) -> None:
    """[NFS-1]: sparse files."""

    async def work() -> None:
        file = make(world)
        await write(world, file, 5, b"x")
        assert await content(world, file) == b"\0\0\0\0\0x"
        await io.truncate(world.volume, ALICE, file, 10)
        assert await content(world, file) == b"\0\0\0\0\0x\0\0\0\0"
        grown = make(world, b"g")
        change = await io.truncate(world.volume, ALICE, grown, 2**40)
        assert (change.after.inode.size, change.after.inode.used) == (2**40, 0)
        result = await io.read(world.volume, ALICE, grown, 2**39, 100)
        assert (result.data, result.at_end) == (bytes(100), False)

    run(work())


def test_writing_nothing_changes_nothing(world: World) -> None:
    async def work() -> None:
        file = make(world)
        before = world.load(file)
        assert await write(world, file, 100, b"", FILE_SYNC) == (before, before, FILE_SYNC)
        assert world.load(file) == before
        with pytest.raises(AccessDenied):
            await write(world, file, 0, b"", who=BOB)
        await io.truncate(world.volume, ALICE, file, 0)

    run(work())


def test_a_write_brings_the_time_back_from_the_future(world: World) -> None:
    async def work() -> None:
        file = make(world)
        world.transactions.run(set_attributes, ALICE, world.load(file), SetAttributes(mtime=2**62))
        assert (await write(world, file, 0, b"x")).after.mtime == world.transactions.now

    run(work())


@pytest.mark.parametrize(
    ("offset", "count", "fits"),
    [
        (MAX_FILE_SIZE - 1, 1, True),
        (MAX_FILE_SIZE, 1, False),
        (MAX_FILE_SIZE - 1, 2, False),
        (2**64 - 1, 1, False),
        (2**64 - 1, 0, False),
    ],
)
def test_the_largest_file(world: World, offset: int, count: int, fits: bool) -> None:
    async def work() -> None:
        file = make(world)
        world.volume.know_tail(file)
        world.content.fails_to.add("write")
        with pytest.raises(StoreFailure if fits else FileTooBig):
            await write(world, file, offset, b"x" * count)
        assert world.load(file).inode.size == 0

    run(work())


def test_the_largest_size_that_can_be_set(world: World) -> None:
    async def work() -> None:
        file = make(world)
        assert (await io.truncate(world.volume, ALICE, file, MAX_FILE_SIZE)).after.inode.size == 2**63 - 1
        with pytest.raises(FileTooBig):
            await io.truncate(world.volume, ALICE, file, MAX_FILE_SIZE + 1)
        assert world.load(file).inode.size == MAX_FILE_SIZE

    run(work())


def test_only_regular_files_have_content(world: World) -> None:
    async def work() -> None:
        link = world.call(namespace.make_symlink, ALICE, At(world.root), b"s", b"t", NOTHING).file.id
        for file, error in ((world.root, IsADirectory), (link, InvalidArgument), (FileId(99), StaleHandle)):
            expected: type[FileError] = error
            with pytest.raises(expected):
                await io.read(world.volume, ROOT, file, 0, 1)
            with pytest.raises(expected):
                await write(world, file, 0, b"x", who=ROOT)
            with pytest.raises(expected):
                await io.truncate(world.volume, ROOT, file, 0)

    run(work())


def test_who_may_read_and_write(world: World) -> None:
    """[NFS-4]."""

    async def work() -> None:
        file = make(world, mode=0o000)
        await write(world, file, 0, b"mine")
        assert await content(world, file) == b"mine"
        assert await content(world, file, ROOT) == b"mine"
        for attempt in (
            io.read(world.volume, BOB, file, 0, 1),
            write(world, file, 0, b"x", who=BOB),
            io.truncate(world.volume, BOB, file, 0),
        ):
            with pytest.raises(AccessDenied):
                await attempt
        program = make(world, b"p", mode=0o711)
        await write(world, program, 0, b"#!")
        assert await content(world, program, BOB) == b"#!"

    run(work())


@pytest.mark.parametrize("who", [ALICE, ROOT])
def test_writing_takes_privileges_away(world: World, who: Identity) -> None:
    """[NFS-4], and durably so."""

    async def work() -> None:
        file, cut = make(world, mode=0o6755), make(world, b"g", mode=0o6755)
        await write(world, file, 0, b"x", who=who)
        assert world.load(file).inode.mode == 0o755
        await io.commit(world.volume, file)
        await io.truncate(world.volume, who, cut, 5)
        world.lose_power()
        assert world.load(file).inode.mode == 0o755
        assert world.load(cut).inode.mode == 0o755

    run(work())


def test_a_written_file_is_not_recognised_as_just_created(world: World) -> None:
    async def work() -> None:
        created = world.call(namespace.create, ALICE, At(world.root), b"f", NOTHING, CreateMode.EXCLUSIVE, b"12345678")
        await write(world, created.file.id, 0, b"x")
        with pytest.raises(AlreadyExists):
            world.call(namespace.create, ALICE, At(world.root), b"f", NOTHING, CreateMode.EXCLUSIVE, b"12345678")

    run(work())


# What is durable.


def test_unstable_writes_flush_nothing_and_commit_makes_them_durable(world: World) -> None:
    """[NFS-1], [STORE-3]."""

    async def work() -> None:
        file = make(world)
        flushes = world.transactions.flushes
        assert (await write(world, file, 0, b"hello")).stability is UNSTABLE_WRITE
        assert (world.transactions.flushes, world.content.syncs) == (flushes, 0)
        before, after = await io.commit(world.volume, file)
        assert before.inode == after.inode == world.load(file).inode
        world.lose_power()
        assert await content(world, file) == b"hello"

    run(work())


def test_without_a_commit_everything_may_be_lost_but_nothing_is_broken(world: World) -> None:
    async def work() -> None:
        file = make(world)
        await write(world, file, 0, b"hello")
        world.lose_power()
        assert await content(world, file) == b""
        assert world.problems({SHARE: world.content}) == []

    run(work())


@pytest.mark.parametrize("stability", [DATA_SYNC, FILE_SYNC])
def test_stable_writes_are_durable_at_once(world: World, stability: Stability) -> None:
    """[NFS-1], [STORE-3]: with everything that was written before."""

    async def work() -> None:
        file = make(world)
        await write(world, file, 0, b"hello ")
        assert (await write(world, file, 6, b"world", stability)).stability is FILE_SYNC
        assert file not in world.volume.dirty
        world.lose_power()
        assert await content(world, file) == b"hello world"

    run(work())


def test_content_is_durable_before_the_inode_says_so(world: World) -> None:
    """[STORE-3]: metadata never points at content that is not there."""

    async def work() -> None:
        file = make(world)
        await write(world, file, 0, b"hello")
        world.content.pause("sync")
        commit = asyncio.create_task(io.commit(world.volume, file))
        await world.content.reached["sync"].wait()
        world.transactions.flush()
        commit.cancel()
        world.lose_power()
        assert await content(world, file) == b""

    run(work())


def test_a_commit_covers_what_came_before_and_not_what_came_meanwhile(world: World) -> None:
    async def work() -> None:
        file = make(world)
        await write(world, file, 0, b"old")
        world.content.pause("sync")
        commit = asyncio.create_task(io.commit(world.volume, file))
        await world.content.reached["sync"].wait()
        await write(world, file, 3, b"new")
        world.content.go_on("sync")
        await commit
        assert await content(world, file) == b"oldnew"
        assert file in world.volume.dirty
        world.lose_power()
        assert await content(world, file) == b"old"

    run(work())


def test_changes_of_a_file_that_is_being_written_to_survive_each_other(world: World) -> None:
    async def work() -> None:
        file = make(world)
        await write(world, file, 0, b"hello")
        world.transactions.run(set_attributes, ALICE, world.load(file), SetAttributes(mode=0o600, mtime=77))
        world.call(namespace.link, ALICE, At(file), At(world.root), b"g")
        world.content.pause("sync")
        commit = asyncio.create_task(io.commit(world.volume, file))
        await world.content.reached["sync"].wait()
        world.transactions.run(set_attributes, ALICE, world.load(file), SetAttributes(mode=0o640))
        world.call(namespace.link, ALICE, At(file), At(world.root), b"h")
        world.content.go_on("sync")
        await commit
        world.lose_power()
        found = world.load(file)
        assert (found.inode.mode, found.links, found.mtime, found.inode.size) == (0o640, 3, 77, 5)
        assert world.problems({SHARE: world.content}) == []

    run(work())


def test_a_failed_flush_of_content_is_told_and_changes_the_write_verifier(world: World) -> None:
    async def work() -> None:
        file = make(world)
        verifier = world.volume.write_verifier
        assert len(verifier) == 8
        await write(world, file, 0, b"hello")
        assert world.volume.write_verifier == verifier
        world.content.fails_to.add("sync")
        with pytest.raises(StoreFailure):
            await io.commit(world.volume, file)
        assert world.volume.write_verifier != verifier
        assert await content(world, file) == b"hello"
        world.content.fails_to.clear()
        await write(world, file, 0, b"again")
        await io.commit(world.volume, file)
        world.lose_power()
        assert await content(world, file) == b"again"

    run(work())


def test_the_write_verifier_changes_at_each_start(world: World) -> None:
    """[NFS-1]."""
    before = world.volume.write_verifier
    world.restart()
    assert world.volume.write_verifier != before


def test_a_commit_that_the_metadata_store_lost_can_be_repeated(world: World) -> None:
    async def work() -> None:
        file = make(world)
        await write(world, file, 0, b"hello")
        world.transactions.fail_next = NoSpace("full")
        with pytest.raises(NoSpace):
            await io.commit(world.volume, file)
        world.volume.reconcile()
        assert await content(world, file) == b"hello"
        await io.commit(world.volume, file)
        world.lose_power()
        assert await content(world, file) == b"hello"

    run(work())


def test_shadows_forget_what_the_metadata_store_lost(world: World) -> None:
    """A link that never happened must not be counted, and a file that was never made has no shadow."""

    async def work() -> None:
        file = make(world)
        await write(world, file, 0, b"hello")
        world.call(namespace.link, ALICE, At(file), At(world.root), b"g")
        lost = world.call(namespace.create, ALICE, At(world.root), b"lost", NOTHING, CreateMode.GUARDED).file.id
        world.transactions.run(io.written, lost, 1, 1)
        world.volume.dirty[lost] = None
        world.transactions.fail_next = StoreFailure("broken")
        with pytest.raises(StoreFailure):
            await world.transactions.perform(set_attributes, ALICE, world.load(file), SetAttributes(mode=0))
        verifier = world.volume.write_verifier
        world.volume.reconcile()
        assert world.volume.write_verifier != verifier
        found = world.load(file)
        assert (found.links, found.inode.size, found.inode.mode) == (1, 5, 0o644)
        assert lost not in world.transactions.rows[UNSTABLE.number]
        await io.commit(world.volume, file)
        assert world.problems({SHARE: world.content}) == []

    run(work())


def test_shadows_are_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io, "MAX_SHADOWS", 2)

    async def work() -> None:
        files = [make(world, b"%d" % number) for number in range(5)]
        for file in files:
            await write(world, file, 0, b"x")
        assert list(world.volume.dirty) == files[3:]
        assert len(world.transactions.rows[UNSTABLE.number]) == 2
        world.lose_power()
        assert [await content(world, file) for file in files] == [b"x", b"x", b"x", b"", b""]

    run(work())


def test_a_relaxed_share_answers_without_waiting() -> None:
    world = World(is_relaxed=True)

    async def work() -> None:
        file = make(world)
        flushes = world.transactions.flushes
        assert (await write(world, file, 0, b"hello", FILE_SYNC)).stability is FILE_SYNC
        await io.commit(world.volume, file)
        assert (world.transactions.flushes, world.content.syncs) == (flushes, 0)
        await io.settle(world.volume, file)
        world.transactions.flush()
        world.lose_power()
        assert await content(world, file) == b"hello"

    run(work())


# No room.


def test_a_write_without_room_leaves_nothing_behind(world: World) -> None:
    """Disk full: NOSPC and nothing is corrupted."""

    async def work() -> None:
        file = make(world)
        await write(world, file, 0, b"hello", FILE_SYNC)
        before = world.load(file)
        world.content.is_full = True
        with pytest.raises(NoSpace):
            await write(world, file, 5, b"0123456789")
        assert world.load(file) == before
        assert world.content.current[world.volume.content_of(file)] == b"hello", "room that was taken is given back"
        world.content.is_full = False
        await io.truncate(world.volume, ALICE, file, 10)
        assert await content(world, file) == b"hello\0\0\0\0\0"

    run(work())


@pytest.mark.parametrize("grow_by_write", [True, False])
def test_half_a_write_never_appears(world: World, grow_by_write: bool) -> None:
    """Not even if the store could not take it back."""

    async def work() -> None:
        file = make(world)
        await write(world, file, 0, b"hello")
        world.content.is_full = True
        world.content.fails_to.add("truncate")
        with pytest.raises(NoSpace):
            await write(world, file, 5, b"0123456789")
        world.content.is_full = False
        world.content.fails_to.clear()
        if grow_by_write:
            await write(world, file, 12, b"x")
            assert await content(world, file) == b"hello\0\0\0\0\0\0\0x"
        else:
            await io.truncate(world.volume, ALICE, file, 10)
            assert await content(world, file) == b"hello\0\0\0\0\0"

    run(work())


def test_a_full_metadata_store_takes_the_bytes_back(world: World) -> None:
    async def work() -> None:
        file = make(world)
        world.transactions.run(set_attributes, ALICE, world.load(file), SetAttributes(mode=0o600))
        world.transactions.fail_next = NoSpace("full")
        with pytest.raises(NoSpace):
            await write(world, file, 0, b"hello")
        assert await content(world, file) == b""

    run(work())


# Setting the size.


def test_size_and_other_attributes_are_set_together(world: World) -> None:
    async def work() -> None:
        file = make(world)
        await write(world, file, 0, b"hello world")
        before = world.load(file)
        wanted = SetAttributes(mode=0o600, size=5, mtime=77)
        with pytest.raises(GuardFailed):
            await io.set_attributes(world.volume, ALICE, file, wanted, before.ctime + 1)
        assert world.load(file) == before
        change = await io.set_attributes(world.volume, ALICE, file, wanted, before.ctime)
        assert (change.before, change.after) == (before, world.load(file))
        assert (change.after.inode.mode, change.after.inode.size, change.after.mtime) == (0o600, 5, 77)
        assert await content(world, file) == b"hello"
        change = await io.set_attributes(world.volume, ALICE, file, SetAttributes(mode=0o640))
        assert change.after.inode.mode == 0o640

    run(work())


def test_a_new_size_moves_the_times(world: World) -> None:
    async def work() -> None:
        file = make(world)
        for size in (5, 3, 3, 0):
            world.transactions.now += 1_000
            change = await io.truncate(world.volume, ALICE, file, size)
            assert change.after.mtime == change.after.ctime == world.transactions.now

    run(work())


@pytest.mark.parametrize("cache_survives", [True, False])
def test_a_cut_that_a_crash_interrupted_is_repeated(world: World, cache_survives: bool) -> None:
    """Old bytes never reappear."""

    async def work() -> None:
        file = make(world)
        await write(world, file, 0, b"hello world", FILE_SYNC)
        world.content.pause("truncate")
        cut = asyncio.create_task(io.truncate(world.volume, ALICE, file, 5))
        await world.content.reached["truncate"].wait()
        cut.cancel()
        world.content.go_on("truncate")
        world.lose_power(cache_survives=cache_survives)
        await recovery.recover(world.volume)
        assert world.transactions.rows[TRUNCATIONS.number] == {}
        assert world.content.durable[world.volume.content_of(file)] == b"hello"
        assert await content(world, file) == b"hello"

    run(work())


def test_a_cut_is_recorded_until_it_is_durable(world: World) -> None:
    async def work() -> None:
        file = make(world)
        await write(world, file, 0, b"hello world", FILE_SYNC)
        await io.truncate(world.volume, ALICE, file, 5)
        assert world.transactions.rows[TRUNCATIONS.number][file].size == 5
        await write(world, file, 5, b"!!!!")
        await io.commit(world.volume, file)
        assert world.transactions.rows[TRUNCATIONS.number] == {}
        world.lose_power()
        await recovery.recover(world.volume)
        assert await content(world, file) == b"hello!!!!"

    run(work())


def test_a_file_that_grows_over_a_cut_needs_no_record_of_it(world: World) -> None:
    async def work() -> None:
        file = make(world)
        await write(world, file, 0, b"hello world", FILE_SYNC)
        await io.truncate(world.volume, ALICE, file, 5)
        await io.truncate(world.volume, ALICE, file, 8)
        assert world.problems({SHARE: world.content}) == []
        world.lose_power()
        await recovery.recover(world.volume)
        assert await content(world, file) == b"hello\0\0\0"

    run(work())


def test_an_old_cut_is_not_repeated_over_what_became_durable_since(world: World) -> None:
    """Here by a SETATTR that leaves the size as it is, but makes it durable."""

    async def work() -> None:
        file = make(world)
        await write(world, file, 0, b"hello world", FILE_SYNC)
        await io.truncate(world.volume, ALICE, file, 0)
        await write(world, file, 0, b"new")
        await io.truncate(world.volume, ALICE, file, 3)
        world.lose_power()
        await recovery.recover(world.volume)
        assert await content(world, file) == b"new"

    run(work())


def test_a_cut_of_unstable_writes_does_not_pretend_they_are_durable(world: World) -> None:
    """A COMMIT after it still has something to do."""

    async def work() -> None:
        file = make(world)
        await write(world, file, 0, b"hello world")
        await io.truncate(world.volume, ALICE, file, 5)
        await io.commit(world.volume, file)
        world.lose_power()
        await recovery.recover(world.volume)
        assert await content(world, file) == b"hello"

    run(work())


def test_a_cut_that_fails_is_told_and_made_up_for(world: World) -> None:
    async def work() -> None:
        file = make(world)
        await write(world, file, 0, b"hello world", FILE_SYNC)
        world.content.fails_to.add("truncate")
        with pytest.raises(StoreFailure):
            await io.truncate(world.volume, ALICE, file, 5)
        world.content.fails_to.clear()
        await write(world, file, 8, b"x")
        assert await content(world, file) == b"hello\0\0\0x"

    run(work())


@pytest.mark.parametrize("grow_by_write", [True, False])
def test_bytes_that_a_crash_cut_off_from_their_size_never_appear(world: World, grow_by_write: bool) -> None:
    """A kill keeps what was written, but not the size that came with it."""

    async def work() -> None:
        file = make(world)
        await write(world, file, 0, b"hello", FILE_SYNC)
        await write(world, file, 5, b" world")
        world.lose_power(cache_survives=True)
        assert await content(world, file) == b"hello"
        if grow_by_write:
            await write(world, file, 8, b"x", FILE_SYNC)
        else:
            await io.truncate(world.volume, ALICE, file, 9)
        expected = b"hello\0\0\0x" if grow_by_write else b"hello\0\0\0\0"
        assert await content(world, file) == expected
        world.lose_power()
        assert await content(world, file) == expected

    run(work())


# Who waits for whom.


def test_a_write_waits_for_a_cut_and_a_cut_for_a_write(world: World) -> None:
    async def work() -> None:
        file = make(world)
        await write(world, file, 0, b"hello world")
        world.content.pause("write")
        writing = asyncio.create_task(write(world, file, 11, b"!"))
        await world.content.reached["write"].wait()
        cutting = asyncio.create_task(io.truncate(world.volume, ALICE, file, 5))
        late = asyncio.create_task(write(world, file, 5, b"?"))
        for _ in range(20):
            await asyncio.sleep(0)
        assert world.load(file).inode.size == 11, "the cut waits for the write that is under way"
        world.content.go_on("write")
        await asyncio.gather(writing, cutting, late)
        assert await content(world, file) == b"hello?"

    run(work())


def test_a_read_beside_a_cut_sees_no_zeros_that_never_were(world: World) -> None:
    async def work() -> None:
        file = make(world)
        await write(world, file, 0, b"hello world")
        world.content.pause("read")
        reading = asyncio.create_task(io.read(world.volume, ALICE, file, 0, 100))
        await world.content.reached["read"].wait()
        await io.truncate(world.volume, ALICE, file, 5)
        world.content.go_on("read")
        result = await reading
        assert (result.data, result.at_end, result.file.inode.size) == (b"hello", True, 5)

    run(work())


def test_a_removed_file_takes_its_content_along_also_from_under_a_writer(world: World) -> None:
    async def work() -> None:
        file = make(world)
        world.content.pause("write")
        writing = asyncio.create_task(write(world, file, 0, b"hello"))
        await world.content.reached["write"].wait()
        world.call(namespace.remove, ALICE, At(world.root), b"f")
        reclaiming = asyncio.create_task(recovery.reclaim(world.volume))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not reclaiming.done(), "it waits for the write that is under way"
        world.content.go_on("write")
        with pytest.raises(StaleHandle):
            await writing
        assert await reclaiming == 1
        assert world.content.current == {}
        assert world.problems({SHARE: world.content}) == []

    run(work())


def test_a_cancelled_write_lets_others_go_on(world: World) -> None:
    async def work() -> None:
        file = make(world)
        world.content.pause("write")
        writing = asyncio.create_task(write(world, file, 0, b"hello"))
        await world.content.reached["write"].wait()
        cutting = asyncio.create_task(io.truncate(world.volume, ALICE, file, 5))
        waiting = asyncio.create_task(io.truncate(world.volume, ALICE, file, 6))
        for _ in range(5):
            await asyncio.sleep(0)
        writing.cancel()
        waiting.cancel()
        await cutting
        world.content.go_on("write")
        await write(world, file, 0, b"x")
        assert await content(world, file) == b"x\0\0\0\0"

    run(work())


def test_a_cancelled_cut_opens_the_gate_again(world: World) -> None:
    async def work() -> None:
        file = make(world)
        world.content.pause("write")
        writing = asyncio.create_task(write(world, file, 0, b"hello"))
        await world.content.reached["write"].wait()
        cutting = asyncio.create_task(io.truncate(world.volume, ALICE, file, 2))
        await asyncio.sleep(0)
        cutting.cancel()
        late = asyncio.create_task(write(world, file, 5, b"!"))
        await asyncio.sleep(0)
        world.content.go_on("write")
        await asyncio.gather(writing, late)
        assert await content(world, file) == b"hello!"

    run(work())


# Without waiting.


def write_now(
    world: World, file: FileId, offset: int, data: bytes, stability: Stability = UNSTABLE_WRITE, who: Identity = ALICE
) -> io.WriteResult | None:
    world.transactions.now += 1_000
    return at_once.write(world.volume, who, file, offset, data, stability, None)


def test_what_is_at_hand_is_read_and_written_at_once(world: World) -> None:
    file = make(world)
    world.content.is_quick = True
    before = world.load(file)
    result = write_now(world, file, 0, b"hello world")
    assert result == (before, world.load(file), UNSTABLE_WRITE)
    assert result.after.mtime == result.after.ctime > before.ctime
    assert write_now(world, file, 5, b"") == (result.after, result.after, UNSTABLE_WRITE)
    assert at_once.read(world.volume, ALICE, file, 6, 3, None) == (result.after, b"wor", False)
    assert at_once.read(world.volume, ALICE, file, 6, 100, None) == (result.after, b"world", True)
    assert at_once.read(world.volume, ALICE, file, 11, 1, None) == (result.after, b"", True)
    with pytest.raises(AccessDenied):
        write_now(world, file, 0, b"x", who=BOB)
    with pytest.raises(FileTooBig):
        write_now(world, file, MAX_FILE_SIZE, b"x")
    run(io.commit(world.volume, file))
    world.lose_power()
    run(recovery.recover(world.volume))
    assert run(content(world, file)) == b"hello world"


def test_nothing_is_told_at_once_that_is_not_durable(world: World) -> None:
    file = make(world, mode=0o600)
    world.content.is_quick = True
    world.transactions.hold = object()
    for who in (ALICE, BOB):  # an error tells something too
        assert at_once.read(world.volume, who, file, 0, 1, None) is None
        assert write_now(world, file, 0, b"x", who=who) is None
    assert not world.content.current


def test_what_has_to_wait_is_not_done_at_once(world: World) -> None:
    file = make(world)
    assert write_now(world, file, 0, b"the store waits") is None
    world.content.is_quick = True
    assert write_now(world, file, 0, b"for the disk", FILE_SYNC) is None
    assert write_now(world, file, 10, b"for a cut over the gap") is None
    assert not world.content.current
    assert at_once.read(world.volume, ALICE, file, 0, 1, None) == (world.load(file), b"", True)
    run(io.truncate(world.volume, ALICE, file, 5))
    assert at_once.read(world.volume, ALICE, file, 0, 5, None) is None, "a hole at the end"
    world.content.is_full = True
    assert write_now(world, file, 0, b"for room") is None
    assert not world.volume.dirty


def test_nobody_writes_at_once_while_a_file_is_cut(world: World) -> None:
    async def work() -> None:
        file = make(world)
        await write(world, file, 0, b"hello world")
        world.content.pause("truncate")
        cut = asyncio.ensure_future(io.truncate(world.volume, ALICE, file, 5))
        await world.content.reached["truncate"].wait()
        world.content.is_quick = True
        assert write_now(world, file, 0, b"HELLO") is None
        world.content.go_on("truncate")
        await cut
        assert write_now(world, file, 0, b"HELLO") is not None
        assert await content(world, file) == b"HELLO"

    run(work())


def test_a_relaxed_share_writes_at_once_whatever_is_asked_for() -> None:
    world = World(is_relaxed=True)
    file = make(world)
    world.content.is_quick = True
    result = write_now(world, file, 0, b"x", DATA_SYNC)
    assert result is not None
    assert result.stability is FILE_SYNC


def test_too_many_shadows_are_not_made_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io, "MAX_SHADOWS", 1)
    world.content.is_quick = True
    assert write_now(world, make(world, b"one"), 0, b"x") is not None
    assert write_now(world, make(world, b"two"), 0, b"x") is None


def test_much_that_is_at_hand_is_left_to_the_socket(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    file = make(world)
    world.content.is_quick = True
    assert write_now(world, file, 0, b"x" * at_once.UNREAD_BYTES) is not None

    class Whole(Unread):
        def __len__(self) -> int:
            return at_once.UNREAD_BYTES

    unread = Whole()
    asked: list[tuple[int, int]] = []

    def find(content: ContentId, offset: int, count: int) -> Unread:
        asked.append((offset, count))
        return unread

    monkeypatch.setattr(world.content, "unread", find)
    found = at_once.read(world.volume, ALICE, file, 0, 1 << 20, None)
    assert found == (world.load(file), unread, True)
    assert asked == [(0, at_once.UNREAD_BYTES)]
    found = at_once.read(world.volume, ALICE, file, 1, 1 << 20, None)
    assert found == (world.load(file), b"x" * (at_once.UNREAD_BYTES - 1), True)
