"""What a metadata procedure can rely on, whichever driver and store are below, as tests [STORE-2].

Subclass it and say how a driver over a fresh store is opened, and opened again::

    class TestMine(DurableTransactionsSuite):  # or TransactionsSuite, if everything is lost at a restart
        @pytest.fixture
        def opened(self, tmp_path: Path) -> Opened:
            @asynccontextmanager
            async def open_driver() -> AsyncIterator[Driver]: ...

            return open_driver
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

import msgspec
import pytest

from dittofs.model.errors import NotFound
from dittofs.model.ids import FileId
from dittofs.stores.tables import NamedTable, Table, View

T = TypeVar("T")


class Counter(msgspec.Struct, frozen=True, array_like=True):
    value: int


COUNTS: NamedTable[Counter] = NamedTable("suite-count", b"\x01", Counter)
PAIRS: Table[tuple[int, int], Counter] = Table("suite-pair", b"\x02", "QQ", Counter)
NOTES: NamedTable[Counter] = NamedTable("suite-note", b"\x03", Counter, is_volatile=True)


class Driver(Protocol):
    """What every driver has."""

    on_effect: Any

    async def perform(self, function: Callable[..., T], /, *args: Any, is_relaxed: bool = False) -> T: ...


Opened = Callable[[], AbstractAsyncContextManager[Driver]]
Story = Callable[[Driver], Awaitable[None]]


def value_of(view: View, name: bytes) -> int | None:
    found = view.get(COUNTS, name)
    return None if found is None else found.value


def put(view: View, name: bytes, value: int) -> None:
    view.put(COUNTS, name, Counter(value))


def increase(view: View, name: bytes) -> int:
    value = (value_of(view, name) or 0) + 1
    put(view, name, value)
    return value


def fail_after_writing(view: View, name: bytes) -> None:
    put(view, name, 99)
    view.after("an effect of what failed")
    raise NotFound("on purpose")


def put_pairs(view: View, first: int, seconds: range) -> None:
    for second in seconds:
        view.put(PAIRS, (first, second), Counter(second))


def seconds_of(view: View, first: int, limit: int = 1000) -> list[int]:
    return [second for (_, second), _ in view.scan(PAIRS, (first, 0), (first + 1, 0), limit)]


class TransactionsSuite:
    """Every test gets a fresh store."""

    @pytest.fixture
    def opened(self) -> Opened:
        raise NotImplementedError("return what opens a driver over the store of this test")

    def tell(self, opened: Opened, story: Story) -> None:
        async def told() -> None:
            async with opened() as driver:
                await story(driver)

        asyncio.run(told())

    def test_what_returns_is_kept_and_what_raises_leaves_nothing(self, opened: Opened) -> None:
        async def story(driver: Driver) -> None:
            effects: list[object] = []
            driver.on_effect = lambda effect, hold: effects.append(effect)
            assert await driver.perform(value_of, b"a") is None
            await driver.perform(put, b"a", 1)
            with pytest.raises(NotFound):
                await driver.perform(fail_after_writing, b"a")
            assert await driver.perform(value_of, b"a") == 1
            assert effects == []

        self.tell(opened, story)

    def test_a_procedure_sees_its_own_writes(self, opened: Opened) -> None:
        def procedure(view: View) -> tuple[int | None, list[int], list[int]]:
            put(view, b"a", 5)
            put(view, b"b", 6)
            view.delete(COUNTS, b"b")
            before = seconds_of(view, 1)
            put_pairs(view, 1, range(5, 7))
            view.delete(PAIRS, (1, 3))
            assert value_of(view, b"b") is None
            return value_of(view, b"a"), before, seconds_of(view, 1)

        async def story(driver: Driver) -> None:
            await driver.perform(put_pairs, 1, range(2, 5))
            assert await driver.perform(procedure) == (5, [2, 3, 4], [2, 4, 5, 6])

        self.tell(opened, story)

    @pytest.mark.parametrize("limit", [1, 3, 4, 5])
    def test_scan_with_own_writes_ends_at_its_limit(self, opened: Opened, limit: int) -> None:
        def procedure(view: View) -> list[int]:
            view.delete(PAIRS, (1, 0))
            view.delete(PAIRS, (1, 2))
            view.put(PAIRS, (1, 1), Counter(1))
            return seconds_of(view, 1, limit)

        async def story(driver: Driver) -> None:
            await driver.perform(put_pairs, 1, range(0, 10, 2))
            await driver.perform(put_pairs, 2, range(3))
            assert await driver.perform(procedure) == [1, 4, 6, 8][:limit]

        self.tell(opened, story)

    def test_many_keys_at_once_are_as_one_by_one(self, opened: Opened) -> None:
        keys = [b"written", b"kept", b"missing", b"removed", b"taken"]

        def procedure(view: View, *, changes: bool) -> list[int | None]:
            if changes:
                put(view, b"written", 7)
                view.delete(COUNTS, b"taken")
            found = view.get_all(COUNTS, keys)
            assert found == [view.get(COUNTS, key) for key in keys]
            assert view.get_all(COUNTS, []) == []
            notes = view.get_all(NOTES, [b"kept", b"missing"])
            assert [None if note is None else note.value for note in notes] == [5, None]
            return [None if record is None else record.value for record in found]

        def prepare(view: View) -> None:
            for name in (b"kept", b"removed", b"taken"):
                put(view, name, 1)
            view.put(NOTES, b"kept", Counter(5))

        async def story(driver: Driver) -> None:
            await driver.perform(prepare)
            await driver.perform(lambda view: view.delete(COUNTS, b"removed"))
            assert await driver.perform(lambda view: procedure(view, changes=False)) == [None, 1, None, None, 1]
            assert await driver.perform(lambda view: procedure(view, changes=True)) == [7, 1, None, None, None]

        self.tell(opened, story)

    def test_many_at_once_lose_no_update(self, opened: Opened) -> None:
        async def story(driver: Driver) -> None:
            told = await asyncio.gather(*[driver.perform(increase, b"n") for _ in range(50)])
            assert sorted(told) == list(range(1, 51))
            assert await driver.perform(value_of, b"n") == 50

        self.tell(opened, story)

    def test_effects_are_performed_once_for_what_is_kept(self, opened: Opened) -> None:
        def procedure(view: View, number: int) -> None:
            increase(view, b"n")
            view.after(number)

        async def story(driver: Driver) -> None:
            effects: list[object] = []
            driver.on_effect = lambda effect, hold: effects.append(effect)
            await asyncio.gather(*[driver.perform(procedure, number) for number in range(20)])
            assert sorted(map(str, effects)) == sorted(map(str, range(20)))

        self.tell(opened, story)

    def test_merge_changes_what_is_there(self, opened: Opened) -> None:
        def add(record: Counter, amount: int) -> Counter:
            return Counter(record.value + amount)

        def procedure(view: View, amount: int) -> int:
            return view.merge(COUNTS, b"n", add, amount).value

        async def story(driver: Driver) -> None:
            await driver.perform(put, b"n", 100)
            told = await asyncio.gather(*[driver.perform(procedure, amount) for amount in (1, 2, 3)])
            assert max(told) == 106
            assert await driver.perform(value_of, b"n") == 106

        self.tell(opened, story)

    def test_volatile_records_are_seen_by_everybody_and_forgotten(self, opened: Opened) -> None:
        def note(view: View, amount: int) -> None:
            found = view.get(NOTES, b"n")
            view.put(NOTES, b"n", Counter((found.value if found else 0) + amount))

        def noted(view: View) -> Counter | None:
            return view.get(NOTES, b"n")

        async def story(driver: Driver) -> None:
            assert await driver.perform(noted) is None
            await asyncio.gather(*[driver.perform(note, 1, is_relaxed=True) for _ in range(20)])
            assert await driver.perform(noted) == Counter(20)
            await driver.perform(lambda view: view.delete(NOTES, b"n"))
            assert await driver.perform(noted) is None

        self.tell(opened, story)

    def test_a_call_has_one_moment_and_file_ids_are_new(self, opened: Opened) -> None:
        def procedure(view: View) -> tuple[int, int, FileId, FileId]:
            increase(view, b"n")
            return view.now, view.now, view.new_file_id(), view.new_file_id()

        async def story(driver: Driver) -> None:
            told = await asyncio.gather(*[driver.perform(procedure) for _ in range(20)])
            assert all(first == second > 0 for first, second, _, _ in told)
            assert len({number for _, _, *ids in told for number in ids}) == 40

        self.tell(opened, story)


class DurableTransactionsSuite(TransactionsSuite):
    """For stores that outlive their process."""

    def test_what_was_committed_is_there_when_it_is_opened_again(self, opened: Opened) -> None:
        ids: list[FileId] = []

        def procedure(view: View) -> None:
            increase(view, b"n")
            ids.append(view.new_file_id())

        async def story(driver: Driver) -> None:
            await driver.perform(procedure)
            await driver.perform(put_pairs, 1, range(3))

        async def again(driver: Driver) -> None:
            assert await driver.perform(value_of, b"n") == 1
            assert await driver.perform(seconds_of, 1) == [0, 1, 2]
            await driver.perform(procedure)
            assert len(set(ids)) == 2

        self.tell(opened, story)
        self.tell(opened, again)
