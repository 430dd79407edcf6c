"""What happens by itself: write-back, reclaiming, and what a start finds to be done."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from dittofs.files import io, namespace, recovery
from dittofs.files.io import Stability
from dittofs.files.namespace import CreateMode
from dittofs.files.records import INODES, RECLAIMS, TRUNCATIONS, UNSTABLE, Reclaim, Truncation
from dittofs.files.upkeep import Upkeep
from dittofs.files.values import Removed, SetAttributes
from dittofs.files.volume import Volume
from dittofs.model.ids import ContentId, FileId, ShareId
from tests.files.world import ALICE, SHARE, At, World

OTHER_SHARE = ShareId(b"another!")


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 10))


async def until(condition: Callable[[], bool]) -> None:
    """Let others run until something is so; whoever waits for ever is stopped by the test's own limit."""
    while not condition():
        await asyncio.sleep(0)


async def make(world: World, name: bytes, data: bytes = b"", stability: Stability = Stability.UNSTABLE) -> FileId:
    created = world.call(namespace.create, ALICE, At(world.root), name, SetAttributes(mode=0o644), CreateMode.GUARDED)
    world.transactions.flush()
    file: FileId = created.file.id
    if data:
        await io.write(world.volume, ALICE, file, 0, data, stability)
    return file


def remove(world: World, name: bytes) -> None:
    world.call(namespace.remove, ALICE, At(world.root), name)
    effect = world.transactions.effects.pop()
    assert isinstance(effect, Removed)
    world.volume.removed(effect)


def test_what_nobody_commits_is_written_back() -> None:
    async def work() -> None:
        world = World()
        upkeep = Upkeep(world.volume, write_back_seconds=0)
        upkeep.start()
        files = [await make(world, b"%d" % number, b"hello") for number in range(100)]
        await until(lambda: not world.volume.dirty)
        await upkeep.stop()
        assert world.transactions.rows[UNSTABLE.number] == {}
        world.lose_power()
        assert all(world.load(file).inode.size == 5 for file in files)

    run(work())


def test_a_clean_stop_makes_everything_durable() -> None:
    async def work() -> None:
        world = World()
        upkeep = Upkeep(world.volume)
        upkeep.start()
        file = await make(world, b"f", b"hello")
        await upkeep.stop()
        world.lose_power()
        assert world.load(file).inode.size == 5

    run(work())


def test_a_write_back_that_fails_is_tried_again_and_does_not_stop_the_others() -> None:
    async def work() -> None:
        world = World()
        await make(world, b"f", b"hello")
        upkeep = Upkeep(world.volume, write_back_seconds=0)
        world.content.fails_to.add("sync")
        verifier = world.volume.write_verifier
        upkeep.start()
        await until(lambda: world.volume.write_verifier != verifier)
        assert world.volume.dirty
        world.content.fails_to.clear()
        await until(lambda: not world.volume.dirty)
        await upkeep.stop()

    run(work())


def test_content_of_removed_files_is_reclaimed() -> None:
    async def work() -> None:
        world = World()
        upkeep = Upkeep(world.volume)
        upkeep.start()
        kept = await make(world, b"kept", b"kept", Stability.FILE_SYNC)
        for number in range(3):
            await make(world, b"%d" % number, b"hello")
            remove(world, b"%d" % number)
        await until(lambda: not world.transactions.rows[RECLAIMS.number])
        await upkeep.stop()
        assert list(world.content.current) == [ContentId(SHARE, kept)]
        assert world.problems({SHARE: world.content}) == []

    run(work())


def test_what_is_removed_one_after_the_other_is_reclaimed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        world = World()
        rounds: list[int] = []
        reclaim = recovery.reclaim

        async def counted(volume: Volume) -> int:
            rounds.append(await reclaim(volume))
            return rounds[-1]

        monkeypatch.setattr(recovery, "reclaim", counted)
        upkeep = Upkeep(world.volume)
        upkeep.start()
        for number in range(20):
            await make(world, b"%d" % number, b"hello")
            remove(world, b"%d" % number)
            await asyncio.sleep(0)
        await until(lambda: sum(rounds) == 20)
        await upkeep.stop()
        assert len(rounds) <= 4

    run(work())


def test_more_files_than_are_reclaimed_at_once() -> None:
    async def work() -> None:
        world = World()
        for number in range(2 * recovery.AT_ONCE + 1):
            content = ContentId(SHARE, FileId(1_000 + number))
            await world.content.write(content, 0, b"x")
            world.transactions.run(lambda view, file=content.file: view.put(RECLAIMS, file, Reclaim(SHARE)))
        assert await recovery.reclaim(world.volume) == 2 * recovery.AT_ONCE + 1
        assert world.content.current == {}

    run(work())


def test_content_is_not_removed_before_the_removal_is_durable() -> None:
    """[STORE-3]: after a crash the name may be there again."""

    async def work() -> None:
        world = World()
        file = await make(world, b"f", b"hello", Stability.FILE_SYNC)
        world.content.pause("remove")
        remove(world, b"f")
        reclaiming = asyncio.create_task(recovery.reclaim(world.volume))
        await world.content.reached["remove"].wait()
        reclaiming.cancel()
        world.lose_power()
        assert file not in world.transactions.rows[INODES.number], "its content was about to go"
        assert file in world.transactions.rows[RECLAIMS.number]

    run(work())


def test_reclaiming_goes_on_after_a_crash_in_between() -> None:
    async def work() -> None:
        world = World()
        await make(world, b"f", b"hello", Stability.FILE_SYNC)
        remove(world, b"f")
        world.transactions.flush()
        world.lose_power()
        assert world.content.current
        upkeep = Upkeep(world.volume)
        upkeep.start()
        await until(lambda: not world.transactions.rows[RECLAIMS.number])
        await upkeep.stop()
        assert world.content.current == {}

    run(work())


def test_content_that_a_loss_of_power_brings_back_is_reclaimed_again() -> None:
    """[STORE-3]: nobody forgets that content is to go before it is gone for good."""

    async def work() -> None:
        world = World()
        await make(world, b"f", b"hello", Stability.FILE_SYNC)
        remove(world, b"f")
        world.content.pause("sync_removals")
        reclaiming = asyncio.create_task(recovery.reclaim(world.volume))
        await world.content.reached["sync_removals"].wait()
        assert world.content.current == {}
        reclaiming.cancel()
        world.lose_power()
        assert world.content.current, "the power came back, and the content with it"
        assert world.problems({SHARE: world.content}) == []
        world.content.go_on("sync_removals")
        assert await recovery.reclaim(world.volume) == 1
        world.lose_power()
        assert world.content.current == {}

    run(work())


def test_removals_that_cannot_be_flushed_are_tried_again() -> None:
    async def work() -> None:
        world = World()
        file = await make(world, b"f", b"hello", Stability.FILE_SYNC)
        remove(world, b"f")
        world.content.fails_to.add("sync_removals")
        assert await recovery.reclaim(world.volume) == 0
        assert file in world.transactions.rows[RECLAIMS.number]
        world.content.fails_to.clear()
        assert await recovery.reclaim(world.volume) == 1

    run(work())


def test_content_that_cannot_be_removed_stays_recorded() -> None:
    async def work() -> None:
        world = World()
        file = await make(world, b"f", b"hello", Stability.FILE_SYNC)
        remove(world, b"f")
        world.content.fails_to.add("remove")
        assert await recovery.reclaim(world.volume) == 0
        assert file in world.transactions.rows[RECLAIMS.number]
        world.content.fails_to.clear()
        assert await recovery.reclaim(world.volume) == 1

    run(work())


def test_what_belongs_to_another_share_is_left_alone() -> None:
    """Several shares may be kept in one metadata store."""

    async def work() -> None:
        world = World()
        others = FileId(77)
        await world.content.write(world.volume.content_of(others), 0, b"hello")
        world.transactions.run(lambda view: view.put(RECLAIMS, others, Reclaim(OTHER_SHARE)))
        world.transactions.run(lambda view: view.put(TRUNCATIONS, others, Truncation(OTHER_SHARE, 0)))
        await recovery.recover(world.volume)
        assert await recovery.reclaim(world.volume) == 0
        assert world.content.current[world.volume.content_of(others)] == b"hello"
        assert others in world.transactions.rows[RECLAIMS.number]
        assert others in world.transactions.rows[TRUNCATIONS.number]

    run(work())
