"""The contract of a store that several servers share, as tests [STORE-2].

Subclass it, say how a second and a third access to one and the same store are made, and run pytest::

    class TestMyStore(SharedStoreSuite):
        @pytest.fixture
        def make_store(self) -> Callable[[], SharedStore]:
            address = a_fresh_database()
            return lambda: MyStore(address)
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from itertools import pairwise

import pytest

from dittofs.stores.api import KEY_BYTES_MAX, StoreError
from dittofs.stores.sharing import ABSENT, UNKNOWN, Commit, Overtaken, Range, SharedStore, Versioned, version_of
from dittofs.testing.lock_suite import all_samples


class Writer:
    """Commits on one store, with the numbers that belong to it."""

    def __init__(self, store: SharedStore, epoch: int):
        self.store = store
        self.epoch = epoch
        self.sequence = 0

    def batch(self, seen: dict[bytes, int], values: dict[bytes, bytes | None]) -> Commit:
        return Commit(self.sequence + 1, dict(sorted(seen.items())), dict(sorted(values.items())), False)

    async def put(self, values: dict[bytes, bytes | None], seen: dict[bytes, int] | None = None) -> list[Versioned]:
        """What stood in the way."""
        conflicts = list(await self.store.commit(self.batch(seen or {}, values)))
        self.sequence += not conflicts
        return conflicts

    @property
    def version(self) -> int:
        return version_of(self.epoch, self.sequence)


async def wins(commit: Awaitable[list[Versioned]]) -> bool:
    try:
        return not await commit
    except Overtaken:
        return False


class SharedStoreSuite:
    """Every test gets a fresh store with two servers on it."""

    @pytest.fixture
    def make_store(self) -> Callable[[], SharedStore]:
        raise NotImplementedError("return what makes one more access to the store of this test")

    def tell(self, make_store: Callable[[], SharedStore], story: Callable[[Writer, Writer], Awaitable[None]]) -> None:
        async def told() -> None:
            async with AsyncExitStack() as opened:
                writers = []
                for _ in range(2):
                    store = make_store()
                    writers.append(Writer(store, await store.open()))
                    opened.push_async_callback(store.close)
                await story(*writers)

        asyncio.run(told())

    def test_every_process_has_an_epoch_of_its_own(self, make_store: Callable[[], SharedStore]) -> None:
        async def story(one: Writer, other: Writer) -> None:
            assert 0 < one.epoch < 2**31
            assert one.epoch < other.epoch < 2**31

        self.tell(make_store, story)

    def test_what_one_commits_the_other_sees_at_once(self, make_store: Callable[[], SharedStore]) -> None:
        async def story(one: Writer, other: Writer) -> None:
            assert await one.put({b"key": b"value", b"\x00\xff": b""}) == []
            found = await other.store.refresh({b"key": UNKNOWN, b"\x00\xff": UNKNOWN, b"none": UNKNOWN}, [])
            assert sorted(found.changed) == [
                Versioned(b"\x00\xff", one.version, b""),
                Versioned(b"key", one.version, b"value"),
                Versioned(b"none", ABSENT, None),
            ]

        self.tell(make_store, story)

    def test_lock_client_and_node_records_are_the_same_for_both(self, make_store: Callable[[], SharedStore]) -> None:
        """[KEEP-2]: all fields, at full 64-bit range, fragments and hostile names included."""

        async def story(one: Writer, other: Writer) -> None:
            written = dict(sample.change() for sample in all_samples())
            assert await one.put(dict(written)) == []
            found = await other.store.refresh(dict.fromkeys(written, UNKNOWN), [Range(b"\0", b"\xff", 1_000_000)])
            assert {record.key: record.value for record in found.changed} == written
            assert {record.key: record.value for record in found.ranges[0]} == written

        self.tell(make_store, story)

    def test_what_is_known_already_is_not_told_again(self, make_store: Callable[[], SharedStore]) -> None:
        async def story(one: Writer, other: Writer) -> None:
            await one.put({b"a": b"1", b"b": b"1"})
            first = one.version
            await one.put({b"b": b"2"})
            found = await other.store.refresh({b"a": first, b"b": first, b"c": ABSENT}, [])
            assert found.changed == [Versioned(b"b", one.version, b"2")]

        self.tell(make_store, story)

    def test_ranges_are_in_order_and_end_at_their_limit(self, make_store: Callable[[], SharedStore]) -> None:
        async def story(one: Writer, other: Writer) -> None:
            keys = [b"a", b"a\x00", b"a\xff", b"b", b"\x80", b"\xff"]
            await one.put(dict.fromkeys(keys, b"x"))
            ranges = [Range(b"a", b"b", 9), Range(b"a", b"\xff\xff", 4), Range(b"c", b"d", 9), Range(b"b", b"\x80", 9)]
            found = await other.store.refresh({b"b": UNKNOWN}, ranges)
            assert [[record.key for record in part] for part in found.ranges] == [keys[:3], keys[:4], [], [b"b"]]
            assert [record.key for record in found.changed] == [b"b"]

        self.tell(make_store, story)

    def test_commit_fails_if_what_was_seen_has_changed(self, make_store: Callable[[], SharedStore]) -> None:
        async def story(one: Writer, other: Writer) -> None:
            await one.put({b"a": b"1"})
            old = one.version
            await other.put({b"a": b"2"}, {b"a": old})
            conflicts = await one.put({b"b": b"1", b"a": None}, {b"a": old})
            assert conflicts == [Versioned(b"a", other.version, b"2")]
            assert (await other.store.refresh({b"b": ABSENT}, [])).changed == [], "nothing was written"

        self.tell(make_store, story)

    def test_commit_fails_if_what_was_absent_is_there(self, make_store: Callable[[], SharedStore]) -> None:
        async def story(one: Writer, other: Writer) -> None:
            await other.put({b"a": b"1"})
            assert await one.put({b"a": b"2"}, {b"a": ABSENT}) == [Versioned(b"a", other.version, b"1")]

        self.tell(make_store, story)

    def test_commit_fails_if_what_was_seen_is_gone(self, make_store: Callable[[], SharedStore]) -> None:
        async def story(one: Writer, other: Writer) -> None:
            await one.put({b"a": b"1"})
            await other.put({b"a": None})
            assert await one.put({b"b": b"2"}, {b"a": one.version}) == [Versioned(b"a", ABSENT, None)]

        self.tell(make_store, story)

    def test_of_many_who_create_one_key_one_succeeds(self, make_store: Callable[[], SharedStore]) -> None:
        async def story(one: Writer, other: Writer) -> None:
            for number in range(20):
                key = b"key%d" % number
                rivals = [writer.put({key: b"mine"}, {key: ABSENT}) for writer in (one, other)]
                assert sum(await asyncio.gather(*map(wins, rivals))) == 1

        self.tell(make_store, story)

    def test_no_update_is_lost(self, make_store: Callable[[], SharedStore]) -> None:
        async def story(one: Writer, other: Writer) -> None:
            await one.put({b"count": b"0"})

            async def count(writer: Writer) -> None:
                done = 0
                while done < 20:
                    (found,) = (await writer.store.refresh({b"count": UNKNOWN}, [])).changed
                    value = str(int(found.value or b"") + 1).encode()
                    done += await wins(writer.put({b"count": value}, {b"count": found.version}))

            await asyncio.gather(count(one), count(other))
            (found,) = (await one.store.refresh({b"count": UNKNOWN}, [])).changed
            assert found.value == b"40"

        self.tell(make_store, story)

    def test_two_cannot_both_rely_on_what_the_other_changes(self, make_store: Callable[[], SharedStore]) -> None:
        """Each reads both records, and writes one of them."""

        async def story(one: Writer, other: Writer) -> None:
            for _ in range(20):
                await one.put({b"a": b"1", b"b": b"1"})
                seen = {b"a": one.version, b"b": one.version}
                rivals = (one.put({b"a": b"0"}, seen), other.put({b"b": b"0"}, seen))
                assert sum(await asyncio.gather(*map(wins, rivals))) == 1

        self.tell(make_store, story)

    def test_locked_session_sees_what_is_and_cannot_lose(self, make_store: Callable[[], SharedStore]) -> None:
        async def story(one: Writer, other: Writer) -> None:
            await one.put({b"a": b"1"})
            async with other.store.locked({b"a": UNKNOWN, b"none": ABSENT}) as session:
                assert list(session.changed) == [Versioned(b"a", one.version, b"1")]
                rival = asyncio.ensure_future(one.put({b"a": b"3"}, {b"a": one.version}))
                await asyncio.sleep(0)
                assert list(await session.commit(other.batch({b"a": one.version}, {b"a": b"2"}))) == []
                assert not rival.done()
            other.sequence += 1
            assert await rival == [Versioned(b"a", other.version, b"2")]

        self.tell(make_store, story)

    def test_relaxed_commit_is_seen_at_once(self, make_store: Callable[[], SharedStore]) -> None:
        async def story(one: Writer, other: Writer) -> None:
            assert list(await one.store.commit(one.batch({}, {b"a": b"1"})._replace(is_relaxed=True))) == []
            assert [found.value for found in (await other.store.refresh({b"a": ABSENT}, [])).changed] == [b"1"]

        self.tell(make_store, story)

    def test_commit_can_be_found_out_about(self, make_store: Callable[[], SharedStore]) -> None:
        async def story(one: Writer, other: Writer) -> None:
            await one.put({b"a": b"1"})
            assert await one.store.was_committed(1)
            assert not await one.store.was_committed(2)
            await one.put({b"a": b"2"})
            assert await one.store.was_committed(2)
            assert not await other.store.was_committed(1)

        self.tell(make_store, story)

    def test_file_ids_are_given_out_once(self, make_store: Callable[[], SharedStore]) -> None:
        async def story(one: Writer, other: Writer) -> None:
            firsts = [await writer.store.reserve_file_ids(1000) for writer in (one, other, one)]
            assert firsts[0] >= 1
            assert firsts == sorted(set(firsts))
            assert all(b - a >= 1000 for a, b in pairwise(firsts))

        self.tell(make_store, story)

    @pytest.mark.parametrize("key", [b"", b"k" * (KEY_BYTES_MAX + 1)])
    def test_impossible_key_is_refused(self, make_store: Callable[[], SharedStore], key: bytes) -> None:
        async def story(one: Writer, other: Writer) -> None:
            with pytest.raises(StoreError):
                await one.put({b"a": b"1", key: b"x"})
            assert (await one.store.refresh({b"a": ABSENT}, [])).changed == []

        self.tell(make_store, story)

    def test_large_batches_and_values(self, make_store: Callable[[], SharedStore]) -> None:
        async def story(one: Writer, other: Writer) -> None:
            values: dict[bytes, bytes | None] = {b"%05d" % number: b"v" * 100 for number in range(5000)}
            values[b"large"] = b"x" * 2**20
            await one.put(values)
            found = await other.store.refresh(dict.fromkeys(values, UNKNOWN), [Range(b"0", b"9", 10_000)])
            assert {record.key: record.value for record in found.changed} == values
            assert len(found.ranges[0]) == 5000

        self.tell(make_store, story)
