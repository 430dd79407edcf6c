"""The contract of a content store, as tests [STORE-2].

Subclass it, say how your store is made, and run pytest::

    class TestMyStore(DurableContentStoreSuite):  # or ContentStoreSuite, if everything is lost at a restart
        def make_store(self, path: Path) -> ContentStore:
            return MyStore(path / "files")
"""

import asyncio
import shutil
import socket
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from dittofs.model.ids import ContentId, FileId, ShareId
from dittofs.model.unread import Unread
from dittofs.stores.api import ContentStore

T = TypeVar("T")
Run = Callable[[Coroutine[Any, Any, T]], T]

SHARE = ShareId(b"share-01")
OTHER_SHARE = ShareId(b"share-02")
ONE = ContentId(SHARE, FileId(1))
TWO = ContentId(SHARE, FileId(2))
LARGEST = ContentId(ShareId(b"\xff" * 8), FileId(2**64 - 1))


class ContentStoreSuite:
    """Every test gets a fresh store and `run`, which runs one coroutine to its end."""

    model_examples = 40

    def make_store(self, path: Path) -> ContentStore:
        raise NotImplementedError("return a store that keeps everything below `path`")

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        path = tmp_path / "store"
        path.mkdir()
        return path

    @pytest.fixture
    def run(self) -> Iterator[Run[Any]]:
        with asyncio.Runner() as runner:
            yield runner.run

    @pytest.fixture
    def store(self, path: Path, run: Run[Any]) -> Iterator[ContentStore]:
        store = self.make_store(path)
        store.open()
        yield store
        store.close()

    def test_suite_fits_the_store(self, store: ContentStore) -> None:
        """A store that survives a restart has more to prove."""
        assert store.is_volatile is not isinstance(self, DurableContentStoreSuite)

    # Reading and writing.

    def test_content_that_was_never_written_is_empty(self, store: ContentStore, run: Run[Any]) -> None:
        assert bytes(run(store.read(ONE, 0, 100))) == b""
        assert bytes(run(store.read(ONE, 2**40, 100))) == b""
        assert run(store.allocated(ONE)) == 0

    def test_what_was_written_is_read(self, store: ContentStore, run: Run[Any]) -> None:
        run(store.write(ONE, 0, b"hello world"))
        assert bytes(run(store.read(ONE, 0, 100))) == b"hello world"
        assert bytes(run(store.read(ONE, 6, 3))) == b"wor"
        assert bytes(run(store.read(ONE, 11, 10))) == b""
        assert bytes(run(store.read(ONE, 12, 10))) == b""
        assert bytes(run(store.read(ONE, 0, 0))) == b""

    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
    def test_data_may_be_any_buffer(self, store: ContentStore, run: Run[Any], kind: Callable[[bytes], Any]) -> None:
        run(store.write(ONE, 3, kind(b"buffer")))
        assert bytes(run(store.read(ONE, 0, 100))) == b"\0\0\0buffer"

    def test_data_is_not_kept_after_the_return(self, store: ContentStore, run: Run[Any]) -> None:
        data = bytearray(b"before" * 50_000)
        run(store.write(ONE, 0, memoryview(data)))
        data[:] = b"after." * 50_000
        assert bytes(run(store.read(ONE, 0, len(data)))) == b"before" * 50_000

    def test_what_was_read_does_not_change_later(self, store: ContentStore, run: Run[Any]) -> None:
        run(store.write(ONE, 0, b"a" * 200_000))
        first = run(store.read(ONE, 0, 200_000))
        run(store.write(ONE, 0, b"b" * 200_000))
        second = run(store.read(ONE, 0, 200_000))
        assert bytes(first) == b"a" * 200_000
        assert bytes(second) == b"b" * 200_000

    def test_what_is_at_hand_is_what_would_be_read(self, store: ContentStore, run: Run[Any]) -> None:
        """`read_now` may always say None, but it never says anything else than `read`."""
        assert not store.read_now(ONE, 0, 100)
        data = bytes(range(250)) * 1_000
        run(store.write(ONE, 0, data))
        for offset, count in ((0, 300_000), (6, 3), (65_530, 4_096), (250_000, 10), (250_001, 10), (0, 0)):
            found = store.read_now(ONE, offset, count)
            assert found is None or bytes(found) == data[offset : offset + count]

    @pytest.mark.parametrize("count", [4_096, 200_000])
    def test_what_was_at_hand_does_not_change_later(self, store: ContentStore, run: Run[Any], count: int) -> None:
        run(store.write(ONE, 0, b"a" * count))
        first = store.read_now(ONE, 0, count)
        run(store.write(ONE, 0, b"b" * count))
        second = store.read_now(ONE, 0, count)
        assert first is None or bytes(first) == b"a" * count
        assert second is None or bytes(second) == b"b" * count

    def test_what_a_socket_takes_is_what_would_be_read(self, store: ContentStore, run: Run[Any]) -> None:
        """`unread` may always say None, but it never stands for other bytes."""
        data = bytes(range(250)) * 1_000
        run(store.write(ONE, 0, data))
        for offset, count in ((0, 250_000), (6, 3), (65_530, 70_000)):
            unread = store.unread(ONE, offset, count)
            assert unread is None or len(unread) == count
            assert unread is None or _taken(unread) == data[offset : offset + count]
        assert store.unread(ONE, 200_000, 50_001) is None, "so many are not there"
        assert store.unread(TWO, 0, 1) is None

    def test_what_was_not_read_can_be_read_after_all(self, store: ContentStore, run: Run[Any]) -> None:
        data = bytes(range(250)) * 1_000
        run(store.write(ONE, 0, data))
        unread = store.unread(ONE, 1_000, 200_000)
        run(store.remove(ONE))
        assert unread is None or bytes(unread.rest(500)) == data[1_500:201_000]

    def test_what_is_written_at_once_is_written(self, store: ContentStore, run: Run[Any]) -> None:
        is_written = store.write_now(ONE, 3, memoryview(b"buffer"))
        assert bytes(run(store.read(ONE, 0, 100))) == (b"\0\0\0buffer" if is_written else b"")
        run(store.sync(ONE))
        assert bytes(run(store.read(ONE, 0, 100))) == (b"\0\0\0buffer" if is_written else b"")

    def test_holes_may_be_skipped_but_no_bytes(self, store: ContentStore, run: Run[Any]) -> None:
        assert run(store.data_from(ONE, 0)) is None
        run(store.write(ONE, 300_000, b"after a hole"))
        found = run(store.data_from(ONE, 0))
        assert found is not None
        assert found <= 300_000
        assert run(store.data_from(ONE, 300_003)) == 300_003
        assert run(store.data_from(ONE, 400_000)) is None
        run(store.truncate(ONE, 100))
        assert run(store.data_from(ONE, 100)) is None

    def test_overwrite_in_the_middle(self, store: ContentStore, run: Run[Any]) -> None:
        run(store.write(ONE, 0, b"a" * 200_000))
        run(store.write(ONE, 65_530, b"b" * 12))
        assert bytes(run(store.read(ONE, 65_528, 16))) == b"aa" + b"b" * 12 + b"aa"
        assert len(run(store.read(ONE, 0, 300_000))) == 200_000

    def test_holes_read_as_zeros(self, store: ContentStore, run: Run[Any]) -> None:
        run(store.write(ONE, 300_000, b"end"))
        run(store.write(ONE, 100_000, b"middle"))
        expected = bytes(100_000) + b"middle" + bytes(199_994) + b"end"
        assert bytes(run(store.read(ONE, 0, 400_000))) == expected
        assert bytes(run(store.read(ONE, 99_999, 8))) == b"\0middle\0"

    @pytest.mark.parametrize("offset", [2**31 - 3, 2**32 - 3, 2**40 + 5])
    def test_large_offsets_cost_nothing(self, store: ContentStore, run: Run[Any], offset: int) -> None:
        """[NFS-1] sparse files, 64-bit sizes"""
        run(store.write(ONE, offset, b"far away"))
        assert bytes(run(store.read(ONE, offset - 4, 100))) == b"\0\0\0\0far away"
        assert bytes(run(store.read(ONE, 0, 10))) == bytes(10)
        assert run(store.allocated(ONE)) < 2**21

    def test_large_writes_and_reads(self, store: ContentStore, run: Run[Any]) -> None:
        data = bytes(range(251)) * 16_711  # about 4 MiB, and no power of two repeats in it
        run(store.write(ONE, 12_345, data))
        assert bytes(run(store.read(ONE, 12_345, len(data)))) == data
        assert bytes(run(store.read(ONE, 12_345 + 2**20, 2**20))) == data[2**20 : 2**21]

    def test_empty_write_changes_nothing_visible(self, store: ContentStore, run: Run[Any]) -> None:
        run(store.write(ONE, 0, b"abc"))
        run(store.write(ONE, 100, b""))
        assert bytes(run(store.read(ONE, 0, 200))) == b"abc"

    # Cutting and removing.

    def test_truncate_cuts(self, store: ContentStore, run: Run[Any]) -> None:
        run(store.write(ONE, 0, b"a" * 150_000))
        run(store.truncate(ONE, 70_000))
        assert bytes(run(store.read(ONE, 0, 200_000))) == b"a" * 70_000
        run(store.truncate(ONE, 0))
        assert bytes(run(store.read(ONE, 0, 200_000))) == b""

    @pytest.mark.parametrize("cut", [0, 1, 65_535, 65_536, 65_537, 100_000])
    def test_what_was_cut_never_comes_back(self, store: ContentStore, run: Run[Any], cut: int) -> None:
        run(store.write(ONE, 0, b"secret" * 30_000))
        run(store.truncate(ONE, cut))
        run(store.write(ONE, 200_000, b"!"))
        assert bytes(run(store.read(ONE, cut, 200_001 - cut))) == bytes(200_000 - cut) + b"!"

    def test_truncate_cuts_only(self, store: ContentStore, run: Run[Any]) -> None:
        run(store.write(ONE, 0, b"abc"))
        run(store.truncate(ONE, 3))
        run(store.truncate(ONE, 2**40))
        assert bytes(run(store.read(ONE, 0, 100))) == b"abc"
        run(store.truncate(TWO, 100))
        assert bytes(run(store.read(TWO, 0, 100))) == b""

    def test_remove_forgets(self, store: ContentStore, run: Run[Any]) -> None:
        run(store.write(ONE, 0, b"abc"))
        run(store.write(TWO, 0, b"def"))
        run(store.remove(ONE))
        assert bytes(run(store.read(ONE, 0, 100))) == b""
        assert bytes(run(store.read(TWO, 0, 100))) == b"def"
        assert run(store.allocated(ONE)) == 0
        assert list(store.contents(SHARE)) == [TWO]

    def test_removing_what_is_not_there_succeeds(self, store: ContentStore, run: Run[Any]) -> None:
        run(store.remove(ONE))
        run(store.write(ONE, 0, b"abc"))
        run(store.remove(ONE))
        run(store.remove(ONE))

    # Many contents.

    def test_contents_are_apart(self, store: ContentStore, run: Run[Any]) -> None:
        """The same file id in two shares is two files."""
        ids = [
            ContentId(share, FileId(file)) for share in (SHARE, OTHER_SHARE) for file in (1, 2, 257, 65_537, 2**32 + 1)
        ]
        ids.append(LARGEST)
        for number, content in enumerate(ids):
            run(store.write(content, number, b"%d" % number))
        for number, content in enumerate(ids):
            assert bytes(run(store.read(content, 0, 100))) == bytes(number) + b"%d" % number
        assert sorted(store.contents(SHARE)) == sorted(ids[:5])
        assert sorted(store.contents(OTHER_SHARE)) == sorted(ids[5:10])
        assert list(store.contents(ShareId(b"unknown!"))) == []

    def test_more_contents_than_can_be_open_at_once(self, store: ContentStore, run: Run[Any]) -> None:
        ids = [ContentId(SHARE, FileId(number)) for number in range(1, 700)]

        async def write_and_read() -> None:
            for content in ids:
                await store.write(content, 0, b"%d" % content.file)
            for content in ids:
                assert bytes(await store.read(content, 0, 100)) == b"%d" % content.file

        run(write_and_read())
        assert sorted(store.contents(SHARE)) == ids

    def test_many_at_the_same_time(self, store: ContentStore, run: Run[Any]) -> None:
        async def one(number: int) -> None:
            content = ContentId(SHARE, FileId(number % 5 + 1))
            await store.write(content, number * 1000, b"%04d" % number * 250)
            await store.sync(content)
            assert bytes(await store.read(content, number * 1000, 1000)) == b"%04d" % number * 250
            await store.sync(content)

        async def all_of_them() -> None:
            await asyncio.gather(*(one(number) for number in range(50)))

        run(all_of_them())

    # Room.

    def test_usage_is_plausible(self, store: ContentStore, run: Run[Any]) -> None:
        run(store.write(ONE, 0, b"x" * 100_000))
        usage = store.usage()
        assert 0 <= usage.available <= usage.free <= usage.total
        assert usage.total > 100_000

    def test_allocated_counts_what_was_written_not_holes(self, store: ContentStore, run: Run[Any]) -> None:
        run(store.write(ONE, 0, bytes(range(1, 251)) * 1000))
        run(store.write(ONE, 2**30, b"x"))
        run(store.sync(ONE))
        assert 0 < run(store.allocated(ONE)) < 2**21

    def test_sync_of_nothing_is_fine(self, store: ContentStore, run: Run[Any]) -> None:
        run(store.sync(ONE))
        run(store.write(ONE, 0, b"abc"))
        run(store.sync(ONE))
        run(store.sync(ONE))

    @pytest.mark.slow
    def test_any_story_ends_as_a_bytearray_would(self) -> None:
        run_state_machine_as_test(
            _machine_over(self),
            settings=settings(
                max_examples=self.model_examples,
                stateful_step_count=40,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )


class DurableContentStoreSuite(ContentStoreSuite):
    """What a store that is not volatile has to show besides [STORE-3]."""

    def crash(self, store: ContentStore, path: Path) -> ContentStore:
        """The server dies without closing: return a store, opened, over what it left behind at that moment."""
        left_behind = path.with_name(path.name + "-crashed")
        shutil.copytree(path, left_behind)
        recovered = self.make_store(left_behind)
        recovered.open()
        return recovered

    def test_synced_content_survives_a_crash(self, store: ContentStore, path: Path, run: Run[Any]) -> None:
        run(store.write(ONE, 100, b"abc"))
        run(store.write(TWO, 0, b"d" * 100_000))
        run(store.truncate(TWO, 70_000))
        for content in (ONE, TWO):
            run(store.sync(content))
        recovered = self.crash(store, path)
        try:
            assert bytes(run(recovered.read(ONE, 0, 1000))) == bytes(100) + b"abc"
            assert bytes(run(recovered.read(TWO, 0, 100_000))) == b"d" * 70_000
            assert sorted(recovered.contents(SHARE)) == [ONE, TWO]
        finally:
            recovered.close()

    def test_flushed_removals_survive_a_crash(self, store: ContentStore, path: Path, run: Run[Any]) -> None:
        for content in (ONE, TWO):
            run(store.write(content, 0, b"abc"))
            run(store.sync(content))
        run(store.remove(ONE))
        run(store.sync_removals())
        recovered = self.crash(store, path)
        try:
            assert list(recovered.contents(SHARE)) == [TWO]
        finally:
            recovered.close()

    def test_content_survives_a_restart(self, store: ContentStore, path: Path, run: Run[Any]) -> None:
        run(store.write(ONE, 0, b"abc"))
        run(store.sync(ONE))
        store.close()
        store.open()
        assert bytes(run(store.read(ONE, 0, 100))) == b"abc"
        run(store.write(ONE, 3, b"def"))
        run(store.remove(TWO))
        assert bytes(run(store.read(ONE, 0, 100))) == b"abcdef"

    def test_removed_content_stays_away(self, store: ContentStore, run: Run[Any]) -> None:
        run(store.write(ONE, 0, b"abc"))
        run(store.sync(ONE))
        run(store.remove(ONE))
        store.close()
        store.open()
        assert bytes(run(store.read(ONE, 0, 100))) == b""
        assert list(store.contents(SHARE)) == []


OFFSETS = st.one_of(st.integers(0, 20), st.integers(65_520, 65_550), st.integers(0, 140_000))
DATA = st.one_of(st.binary(max_size=20), st.sampled_from([b"x" * 4096, b"y" * 65_536, b"z" * 70_001]))
CONTENTS = st.sampled_from([ONE, TWO, ContentId(OTHER_SHARE, FileId(1))])


def _taken(unread: Unread) -> bytes:
    """What comes out of a socket."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        sent = unread.send(ours.fileno())
        ours.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: theirs.recv(65_536), b"")) + bytes(unread.rest(sent))


def _write(store: ContentStore, run: Run[None], content: ContentId, offset: int, data: bytes, at_once: bool) -> None:
    if not (at_once and store.write_now(content, offset, data)):
        run(store.write(content, offset, data))


def _machine_over(suite: ContentStoreSuite) -> type[RuleBasedStateMachine]:
    class StoreMachine(RuleBasedStateMachine):
        @initialize()
        def begin(self) -> None:
            self.runner = asyncio.Runner()
            self.directory = TemporaryDirectory()
            self.store = suite.make_store(Path(self.directory.name))
            self.store.open()
            self.model: dict[ContentId, bytearray] = {}

        def run(self, work: Coroutine[Any, Any, T]) -> T:
            return self.runner.run(work)

        @rule(content=CONTENTS, offset=OFFSETS, data=DATA, at_once=st.booleans())
        def write(self, content: ContentId, offset: int, data: bytes, at_once: bool) -> None:
            _write(self.store, self.run, content, offset, data, at_once)
            expected = self.model.setdefault(content, bytearray())
            if data:
                expected.extend(bytes(max(0, offset - len(expected))))
                expected[offset : offset + len(data)] = data

        @rule(content=CONTENTS, size=OFFSETS)
        def truncate(self, content: ContentId, size: int) -> None:
            self.run(self.store.truncate(content, size))
            del self.model.setdefault(content, bytearray())[size:]

        @rule(content=CONTENTS)
        def remove(self, content: ContentId) -> None:
            self.run(self.store.remove(content))
            self.model.pop(content, None)

        @rule(content=CONTENTS)
        def sync(self, content: ContentId) -> None:
            self.run(self.store.sync(content))
            self.run(self.store.sync_removals())

        @rule(content=CONTENTS, offset=OFFSETS, count=st.integers(0, 100_000))
        def read(self, content: ContentId, offset: int, count: int) -> None:
            expected = self.model.get(content, bytearray())[offset : offset + count]
            assert bytes(self.run(self.store.read(content, offset, count))) == expected
            at_hand = self.store.read_now(content, offset, count)
            assert at_hand is None or bytes(at_hand) == expected

        @precondition(lambda self: not self.store.is_volatile)
        @rule()
        def reopen(self) -> None:
            self.store.close()
            self.store = suite.make_store(Path(self.directory.name))
            self.store.open()

        @invariant()
        def everything_is_there(self) -> None:
            for content, expected in getattr(self, "model", {}).items():
                assert bytes(self.run(self.store.read(content, 0, 2**20))) == expected

        def teardown(self) -> None:
            if hasattr(self, "store"):
                self.store.close()
                self.runner.close()
                self.directory.cleanup()

    machine: type[Any] = StoreMachine
    return machine
