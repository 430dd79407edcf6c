"""The driver for stores across a network: how often it asks, who runs again, and what happens when nobody answers."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest

from dittofs.files import namespace
from dittofs.files.inodes import load, make_root
from dittofs.files.namespace import CreateMode
from dittofs.files.tree import Tree, tree_of
from dittofs.files.values import NOTHING, File
from dittofs.model.errors import AlreadyExists, NotFound, StaleHandle, TryLater
from dittofs.model.identity import Identity
from dittofs.model.ids import FileId, ShareId
from dittofs.model.later import Later
from dittofs.stores.shared import SharedTransactions
from dittofs.stores.sharing import Commit, Range, Refreshed, Versioned
from dittofs.stores.tables import View
from dittofs.testing.shared_memory import MemorySharedStore, SharedMemory
from dittofs.testing.transactions_suite import COUNTS, Counter, increase, put, value_of

ROOT = Identity(0, 0)


class World:
    """Two servers on one store, with a share."""

    def __init__(self) -> None:
        self.memory = SharedMemory()
        self.stores = [MemorySharedStore(self.memory), MemorySharedStore(self.memory)]
        self.drivers = [SharedTransactions(store, patience_seconds=0.2) for store in self.stores]
        self.effects: list[object] = []
        self.tree: Tree
        self.root: FileId

    async def open(self) -> None:
        for driver in self.drivers:
            driver.on_effect = lambda effect, hold: self.effects.append(effect)
            await driver.open()
        self.root = await self.drivers[0].perform(lambda view: make_root(view, uid=0, gid=0, mode=0o777))
        self.tree = tree_of(ShareId(b"12345678"), self.root)

    def create(self, view: View, name: bytes, directory: FileId | None = None) -> FileId:
        parent = load(view, directory or self.root)
        return namespace.create(view, self.tree, ROOT, parent, name, NOTHING, CreateMode.GUARDED).file.id

    def mkdir(self, view: View, name: bytes) -> FileId:
        made = namespace.make_directory(view, self.tree, ROOT, load(view, self.root), name, NOTHING).file
        assert made is not None
        return made.id

    def lookup(self, view: View, name: bytes) -> File:
        return namespace.lookup(view, self.tree, ROOT, load(view, self.root), name)


def told(story: Callable[[World], Awaitable[None]]) -> None:
    async def tell() -> None:
        world = World()
        await world.open()
        await story(world)
        for driver in world.drivers:
            await driver.close()

    asyncio.run(tell())


class TestHowOftenTheStoreIsAsked:
    def test_a_thousand_files_in_one_turn_take_a_handful_of_queries(self) -> None:
        """Issue 6: not one query per call; also when nothing is known yet."""

        async def story(world: World) -> None:
            one, other = world.drivers
            ids = await asyncio.gather(*[one.perform(world.create, b"%d" % number) for number in range(1000)])
            for driver, store in zip((other, one, other), (*world.stores[::-1], world.stores[1]), strict=True):
                before = store.queries
                found = await asyncio.gather(*[driver.perform(load, file) for file in ids])
                assert [file.id for file in found] == ids
                assert store.queries - before <= 2

        told(story)

    def test_a_thousand_creates_in_one_turn_take_a_handful_of_queries(self) -> None:
        async def story(world: World) -> None:
            before = world.stores[0].queries
            await asyncio.gather(*[world.drivers[0].perform(world.create, b"%d" % number) for number in range(1000)])
            assert world.stores[0].queries - before <= 5

        told(story)

    def test_listing_with_files_asks_for_them_together(self) -> None:
        def listed(view: View, world: World) -> list[bytes]:
            directory = load(view, world.root)
            page = namespace.read_directory(view, world.tree, ROOT, directory, 0, 200, with_files=True)
            assert all(entry.file is not None for entry in page.entries)
            return [entry.name for entry in page.entries]

        async def story(world: World) -> None:
            one, other = world.drivers
            await asyncio.gather(*[one.perform(world.create, b"%d" % number) for number in range(100)])
            before = world.stores[1].queries
            assert len(await other.perform(listed, world)) == 102
            assert world.stores[1].queries - before <= 4

        told(story)


class TestWhoLosesRunsAgain:
    def test_two_servers_lose_no_update(self) -> None:
        async def story(world: World) -> None:
            drivers = world.drivers * 20
            counts = await asyncio.gather(*[driver.perform(increase, b"n") for driver in drivers])
            assert sorted(counts) == list(range(1, 41))

        told(story)

    def test_of_two_who_create_one_name_one_hears_that_it_is_taken(self) -> None:
        async def story(world: World) -> None:
            for number in range(10):
                tries = [driver.perform(world.create, b"%d" % number) for driver in world.drivers]
                results = await asyncio.gather(*tries, return_exceptions=True)
                assert sorted(type(result).__name__ for result in results) == ["AlreadyExists", "int"]

        told(story)

    def test_moment_and_ids_stay_and_effects_happen_once(self) -> None:
        runs: list[tuple[int, FileId]] = []

        def procedure(view: View) -> None:
            increase(view, b"n")
            runs.append((view.now, view.new_file_id()))
            view.after("done")

        async def story(world: World) -> None:
            one, other = world.drivers
            await one.perform(value_of, b"n")
            await other.perform(put, b"n", 10)
            await one.perform(procedure)
            assert len(runs) > 2
            assert len(set(runs)) == 1
            assert world.effects == ["done"]
            assert await other.perform(value_of, b"n") == 11

        told(story)

    def test_who_never_wins_is_told_to_come_again(self) -> None:
        """[NFS-1]: NFS3ERR_JUKEBOX, and nothing is half done."""

        class Rival(MemorySharedStore):
            async def commit(self, batch: Commit) -> Sequence[Versioned]:
                self.disturb()
                return await super().commit(batch)

            async def commit_alone(self, batch: Commit) -> Sequence[Versioned]:
                self.disturb()
                return await super().commit_alone(batch)

            def disturb(self) -> None:
                key = COUNTS.pack(b"n")
                version, _ = self.memory.records.get(key, (0, b""))
                self.memory.records[key] = (version + 1, COUNTS.encode(Counter(version)))

        async def story(world: World) -> None:
            driver = SharedTransactions(Rival(world.memory))
            await driver.open()
            with pytest.raises(TryLater):
                await driver.perform(increase, b"n")
            assert driver.counts.lost > 3
            await driver.close()

        told(story)


class TestSeveralRounds:
    def test_what_is_removed_between_two_rounds_is_not_a_dangling_reference(self) -> None:
        """DESIGN 2: a call that found the entry, and then no file, runs again and finds no entry either."""

        class Removing(MemorySharedStore):
            remove: Callable[[], Awaitable[Any]] | None = None

            async def refresh(self, known: Mapping[bytes, int], ranges: Sequence[Range]) -> Refreshed:
                found = await super().refresh(known, ranges)
                if self.remove is not None and any(record.key.startswith(b"e") for record in found.changed):
                    remove, self.remove = self.remove, None
                    await remove()
                return found

        def removed(view: View, world: World) -> None:
            namespace.remove(view, world.tree, ROOT, load(view, world.root), b"file")

        async def story(world: World) -> None:
            await world.drivers[0].perform(world.create, b"file")
            store = Removing(world.memory)
            driver = SharedTransactions(store)
            await driver.open()
            store.remove = lambda: world.drivers[0].perform(removed, world)
            with pytest.raises(NotFound):
                await driver.perform(world.lookup, b"file")
            assert store.remove is None, "it was removed between two rounds"
            await driver.close()

        told(story)

    def test_rmdir_beside_a_create_in_it(self) -> None:
        """DESIGN 2, phantoms: either the directory is gone or it is not empty."""

        def rmdir(view: View, world: World, name: bytes) -> None:
            namespace.remove_directory(view, world.tree, ROOT, load(view, world.root), name)

        async def story(world: World) -> None:
            one, other = world.drivers
            for number in range(20):
                name = b"%d" % number
                directory = await one.perform(world.mkdir, name)
                await other.perform(load, directory)
                results = await asyncio.gather(
                    one.perform(rmdir, world, name),
                    other.perform(world.create, b"f", directory),
                    return_exceptions=True,
                )
                is_removed = results[0] is None
                assert is_removed == isinstance(results[1], StaleHandle), results
                if not is_removed:
                    assert (await one.perform(load, directory)).state.entries == 1  # type: ignore[union-attr]

        told(story)


class TestWhenTheStoreIsAway:
    @pytest.mark.parametrize("happened", [True, False])
    def test_a_cut_commit_is_found_out_about_and_done_once(self, happened: bool) -> None:
        async def story(world: World) -> None:
            driver, store = world.drivers[0], world.stores[0]
            await driver.perform(increase, b"n")
            store.cut_after_commit, store.cut_before_commit = happened, not happened
            counts = await asyncio.gather(*[driver.perform(increase, b"n") for _ in range(3)])
            assert sorted(counts) == [2, 3, 4]
            assert await world.drivers[1].perform(value_of, b"n") == 4
            assert await driver.perform(increase, b"n") == 5

        told(story)

    def test_calls_wait_for_a_while_and_are_then_told_to_come_again(self) -> None:
        async def story(world: World) -> None:
            driver = world.drivers[0]
            world.memory.is_away = True
            asked = [
                asyncio.ensure_future(driver.perform(value_of, b"n")),
                asyncio.ensure_future(driver.perform(increase, b"n")),
            ]
            await asyncio.sleep(0)
            assert not any(one.done() for one in asked)
            for one in asked:
                with pytest.raises(TryLater):
                    await one
            world.memory.is_away = False
            assert await driver.perform(increase, b"n") == 1

        told(story)

    def test_a_short_absence_is_not_noticed(self) -> None:
        async def story(world: World) -> None:
            driver = world.drivers[0]
            world.memory.is_away = True
            asked = asyncio.ensure_future(driver.perform(increase, b"n"))
            while world.stores[0].queries < 4:
                await asyncio.sleep(0)
            world.memory.is_away = False
            assert await asked == 1

        told(story)


class TestAnswersThatComeLater:
    def test_a_failed_call_can_tell_what_it_saw(self) -> None:
        """The failure arm of an answer has attributes: those that the failed run has read, and no others."""

        async def story(world: World) -> None:
            driver = world.drivers[0]
            await driver.perform(world.create, b"file")
            stranger = await driver.perform(world.create, b"stranger")
            seen = asyncio.get_running_loop().create_future()

            def done(result: object, error: Exception | None) -> None:
                assert isinstance(error, AlreadyExists)
                with pytest.raises(TryLater):
                    driver.run(load, stranger)
                seen.set_result(driver.run(load, world.root))

            with pytest.raises(Later) as later:
                driver.run(world.create, b"file")
            later.value.when_done(done)
            root = await seen
            assert root.state.entries == 2

        told(story)

    def test_nobody_is_asked_before_somebody_wants_to_know(self) -> None:
        async def story(world: World) -> None:
            before = world.stores[0].queries
            with pytest.raises(Later):
                world.drivers[0].run(increase, b"n")
            assert await world.drivers[1].perform(value_of, b"n") is None
            assert world.stores[0].queries == before

        told(story)


@pytest.mark.parametrize("kept", [0, 8])
def test_records_are_evicted_and_found_again(kept: int) -> None:
    async def story(world: World) -> None:
        driver = SharedTransactions(MemorySharedStore(world.memory), cache_records=kept)
        await driver.open()
        made = await asyncio.gather(*[driver.perform(world.create, b"%d" % number) for number in range(50)])
        assert [file.id for file in await asyncio.gather(*[driver.perform(load, file) for file in made])] == made
        await asyncio.gather(*[driver.perform(put, b"%d" % number, number) for number in range(100)])
        found = await asyncio.gather(*[driver.perform(value_of, b"%d" % number) for number in range(100)])
        assert found == list(range(100))
        await driver.close()

    told(story)
