"""The contract of a metadata store, as tests [STORE-2].

Subclass it, say how your store is made, and run pytest::

    class TestMyStore(DurableMetadataStoreSuite):  # or MetadataStoreSuite, if everything is lost at a restart
        def make_store(self, path: Path) -> MetadataStore:
            return MyStore(path / "records")

`make_store` is called again with the same path to see what survives; the store before it was closed, or, where a
test says "crash", left as it was (override `crash` if your store must let go of something, such as a lock).
"""

import shutil
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

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

from dittofs.stores.api import KEY_BYTES_MAX, Change, MetadataStore, StoreError
from dittofs.testing.lock_suite import LockRecordSuite, all_samples

LAST = b"\xff" * (KEY_BYTES_MAX + 1)
"""Behind every key."""


class MetadataStoreSuite(LockRecordSuite):
    """Every test gets a fresh store."""

    model_examples = 40
    """How many stories the property test tells; a store that is slow to open may lower it."""

    def make_store(self, path: Path) -> MetadataStore:
        raise NotImplementedError("return a store that keeps everything below `path`")

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        path = tmp_path / "store"
        path.mkdir()
        return path

    @pytest.fixture
    def store(self, path: Path) -> Iterator[MetadataStore]:
        store = self.make_store(path)
        store.open()
        yield store
        store.close()

    def test_suite_fits_the_store(self, store: MetadataStore) -> None:
        """A store that survives a restart has more to prove."""
        assert store.is_volatile is not isinstance(self, DurableMetadataStoreSuite)

    # Reading.

    def test_unknown_key_has_no_value(self, store: MetadataStore) -> None:
        assert store.get(b"nothing") is None
        assert list(store.scan(b"\0", LAST, 10)) == []

    @pytest.mark.parametrize("key", [b"\0", b"\xff", b"a\0b", b"\xff" * KEY_BYTES_MAX, b"k" * KEY_BYTES_MAX, b"\0" * 9])
    @pytest.mark.parametrize("value", [b"", b"\0", b"value", b"\xff" * 5000])
    def test_keys_and_values_are_any_bytes(self, store: MetadataStore, key: bytes, value: bytes) -> None:
        store.apply([(key, value)])
        assert store.get(key) == value
        assert list(store.scan(b"\0", LAST, 10)) == [(key, value)]

    def test_values_up_to_a_mebibyte(self, store: MetadataStore) -> None:
        large = bytes(range(256)) * 4096
        store.apply([(b"large", large), (b"small", b"1")])
        assert store.get(b"large") == large
        assert list(store.scan(b"l", b"m", 5)) == [(b"large", large)]

    @pytest.mark.parametrize("key", [b"", b"k" * (KEY_BYTES_MAX + 1)])
    def test_impossible_key_is_refused_and_changes_nothing(self, store: MetadataStore, key: bytes) -> None:
        with pytest.raises(StoreError):
            store.apply([(b"good", b"1"), (key, b"2")])
        assert store.get(b"good") is None
        store.apply([(b"good", b"3")])
        assert list(store.scan(b"\0", LAST, 5)) == [(b"good", b"3")]

    def test_scan_is_in_the_order_of_unsigned_bytes(self, store: MetadataStore) -> None:
        keys = [b"b", b"a\xff", b"a", b"a\0", b"\x80", b"\x7f", b"ab", b"\xff\xff", b"\xff", b"aa"]
        store.apply([(key, key) for key in keys])
        assert [key for key, _ in store.scan(b"\0", LAST, 100)] == sorted(keys)

    def test_scan_takes_its_start_and_leaves_its_end(self, store: MetadataStore) -> None:
        store.apply([(key, b"") for key in (b"a", b"b", b"c", b"d")])
        assert [key for key, _ in store.scan(b"b", b"d", 10)] == [b"b", b"c"]
        assert [key for key, _ in store.scan(b"a\0", b"c\0", 10)] == [b"b", b"c"]
        assert list(store.scan(b"b", b"b", 10)) == []
        assert list(store.scan(b"c", b"a", 10)) == []

    @pytest.mark.parametrize("limit", [0, 1, 2, 7, 8, 9, 1000])
    def test_scan_stops_at_its_limit(self, store: MetadataStore, limit: int) -> None:
        store.apply([(b"%d" % number, b"v") for number in range(8)])
        assert [key for key, _ in store.scan(b"0", b"9", limit)] == [b"%d" % number for number in range(min(limit, 8))]

    def test_limit_does_not_count_removed_records(self, store: MetadataStore) -> None:
        store.apply([(b"%02d" % number, b"v") for number in range(20)])
        store.apply([(b"%02d" % number, None) for number in range(10)])
        assert [key for key, _ in store.scan(b"0", b"9", 3)] == [b"10", b"11", b"12"]

    def test_pages_of_a_scan_while_entries_come_and_go(self, store: MetadataStore) -> None:
        store.apply([(b"d%04d" % number, b"old") for number in range(0, 400, 2)])
        seen: list[bytes] = []
        start = b"d"
        step = 0
        while page := store.scan(start, b"e", 16):
            seen.extend(key for key, _ in page)
            start = page[-1][0] + b"\0"
            store.apply([(b"d%04d" % (2 * step + 1), b"behind"), (b"c%d" % step, b"outside"), (page[0][0], None)])
            step += 1
        stable = [b"d%04d" % number for number in range(0, 400, 2)]
        assert [key for key in seen if key in set(stable)] == stable
        assert seen == sorted(set(seen))

    # Batches.

    def test_batch_puts_and_removes(self, store: MetadataStore) -> None:
        store.apply([(b"a", b"1"), (b"b", b"2"), (b"c", b"3")])
        store.apply([(b"a", b"one"), (b"b", None), (b"never there", None)])
        assert list(store.scan(b"\0", LAST, 10)) == [(b"a", b"one"), (b"c", b"3")]

    def test_later_change_in_one_batch_wins(self, store: MetadataStore) -> None:
        store.apply([(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"b", None), (b"c", None), (b"c", b"3")])
        assert list(store.scan(b"\0", LAST, 10)) == [(b"a", b"2"), (b"c", b"3")]

    def test_removed_key_can_come_back(self, store: MetadataStore) -> None:
        for number in range(5):
            store.apply([(b"k", b"%d" % number)])
            assert list(store.scan(b"a", b"z", 9)) == [(b"k", b"%d" % number)]
            store.apply([(b"k", None)])
            assert list(store.scan(b"a", b"z", 9)) == []
            assert store.get(b"k") is None

    def test_empty_batch_is_fine(self, store: MetadataStore) -> None:
        store.apply([])
        assert list(store.scan(b"\0", LAST, 10)) == []

    @pytest.mark.slow
    def test_any_story_ends_as_a_dict_would(self) -> None:
        run_state_machine_as_test(
            _machine_over(self),
            settings=settings(
                max_examples=self.model_examples,
                stateful_step_count=30,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )


class DurableMetadataStoreSuite(MetadataStoreSuite):
    """What a store that is not volatile has to show besides [STORE-3]."""

    def crash(self, store: MetadataStore, path: Path) -> MetadataStore:
        """The server dies without closing: return a store, opened, over what it left behind at that moment.

        The default looks at a copy of the files, as the next process would after `kill -9`.
        """
        left_behind = path.with_name(path.name + "-crashed")
        shutil.copytree(path, left_behind)
        recovered = self.make_store(left_behind)
        recovered.open()
        return recovered

    def test_caller_may_change_the_list_afterwards(self, store: MetadataStore, path: Path) -> None:
        changes: list[Change] = [(b"a", b"1")]
        store.apply(changes)
        changes[0] = (b"b", b"2")
        store.flush()
        assert list(self._reopened(store, path)) == [(b"a", b"1")]

    def test_batches_are_visible_before_they_are_durable(self, store: MetadataStore) -> None:
        store.apply([(b"a", b"1")])
        assert store.get(b"a") == b"1"
        store.flush()
        store.apply([(b"a", None), (b"b", b"2")])
        assert list(store.scan(b"\0", LAST, 10)) == [(b"b", b"2")]

    def test_flushed_batches_survive_a_crash(self, store: MetadataStore, path: Path) -> None:
        """[STORE-3]"""
        store.apply([(b"a", b"1"), (b"b", b"2")])
        store.flush()
        store.apply([(b"b", None), (b"c", b"")])
        store.flush()
        recovered = self.crash(store, path)
        try:
            assert list(recovered.scan(b"\0", LAST, 10)) == [(b"a", b"1"), (b"c", b"")]
        finally:
            recovered.close()

    def test_batch_survives_a_crash_whole_or_not_at_all(self, store: MetadataStore, path: Path) -> None:
        store.apply([(b"kept", b"1")])
        store.flush()
        store.apply([(b"%03d" % number, b"x" * 1000) for number in range(200)])
        recovered = self.crash(store, path)
        try:
            assert len(recovered.scan(b"\0", LAST, 1000)) in (1, 201)
            assert recovered.get(b"kept") == b"1"
        finally:
            recovered.close()

    def test_close_flushes(self, store: MetadataStore, path: Path) -> None:
        store.apply([(b"a", b"1")])
        assert list(self._reopened(store, path)) == [(b"a", b"1")]

    def test_store_can_be_reopened_and_changed_many_times(self, store: MetadataStore, path: Path) -> None:
        expected: dict[bytes, bytes] = {}
        for number in range(4):
            changes: list[Change] = [(b"%d-%d" % (number, entry), b"v%d" % number) for entry in range(3)]
            changes.append((b"counter", b"%d" % number))
            store.apply(changes)
            expected.update({key: value for key, value in changes if value is not None})
            store.flush()
            store.close()
            store.open()
            assert dict(store.scan(b"\0", LAST, 100)) == expected

    def test_flush_without_changes_is_fine(self, store: MetadataStore) -> None:
        store.flush()
        store.flush()

    def test_large_batches_and_values_survive(self, store: MetadataStore, path: Path) -> None:
        large = bytes(range(256)) * 4096
        store.apply([(b"large-%d" % number, large) for number in range(3)])
        store.apply([(b"%05d" % number, b"%d" % number) for number in range(5000)])
        found = dict(self._reopened(store, path))
        assert len(found) == 5003
        assert found[b"large-2"] == large

    def test_lock_client_and_node_records_survive(self, store: MetadataStore, path: Path) -> None:
        """[KEEP-2]: a restart and a crash."""
        expected = sorted(sample.change() for sample in all_samples())
        store.apply(expected)
        assert sorted(self._reopened(store, path)) == expected
        store.flush()
        recovered = self.crash(store, path)
        try:
            assert sorted(recovered.scan(b"\0", LAST, 1_000_000)) == expected
        finally:
            recovered.close()

    def test_revert_drops_exactly_what_is_not_durable(self, store: MetadataStore) -> None:
        store.apply([(b"a", b"1"), (b"b", b"1")])
        store.flush()
        store.apply([(b"a", b"2"), (b"b", None), (b"c", b"2")])
        store.apply([(b"a", b"3"), (b"d", b"3")])
        store.revert()
        assert list(store.scan(b"\0", LAST, 10)) == [(b"a", b"1"), (b"b", b"1")]
        assert store.get(b"c") is None
        store.apply([(b"e", b"4")])
        store.flush()
        assert list(store.scan(b"\0", LAST, 10)) == [(b"a", b"1"), (b"b", b"1"), (b"e", b"4")]

    def test_reverted_batches_stay_away_after_a_crash(self, store: MetadataStore, path: Path) -> None:
        store.apply([(b"a", b"1")])
        store.flush()
        store.apply([(b"lost", b"1")])
        store.revert()
        store.apply([(b"b", b"2")])
        store.flush()
        recovered = self.crash(store, path)
        try:
            assert list(recovered.scan(b"\0", LAST, 10)) == [(b"a", b"1"), (b"b", b"2")]
        finally:
            recovered.close()

    def test_flush_runs_beside_everything_else(self, store: MetadataStore, path: Path) -> None:
        """The flushing thread and the others share no batch: each one is durable after the flush that followed it."""
        failures: list[BaseException] = []
        is_over = threading.Event()

        def flush_on() -> None:
            try:
                while not is_over.is_set():
                    store.flush()
            except BaseException as error:
                failures.append(error)

        committer = threading.Thread(target=flush_on)
        committer.start()
        try:
            for number in range(300):
                store.apply([(b"%04d" % number, b"v"), (b"newest", b"%04d" % number)])
                assert store.get(b"newest") == b"%04d" % number
                if number % 10 == 0:
                    assert len(store.scan(b"0", b"9", 1000)) == number + 1
        finally:
            is_over.set()
            committer.join()
        assert failures == []
        store.flush()
        recovered = self.crash(store, path)
        try:
            assert len(recovered.scan(b"0", b"9", 1000)) == 300
        finally:
            recovered.close()

    def _reopened(self, store: MetadataStore, path: Path) -> Sequence[tuple[bytes, bytes]]:
        """What is there after a restart; `store` is open again then, for its fixture."""
        store.close()
        again = self.make_store(path)
        again.open()
        found = again.scan(b"\0", LAST, 1_000_000)
        again.close()
        store.open()
        return found


KEYS = st.one_of(
    st.sampled_from([b"\0", b"a", b"a\0", b"ab", b"b", b"\xff", b"\xff\xff", b"k" * KEY_BYTES_MAX]),
    st.binary(min_size=1, max_size=4),
)
VALUES = st.one_of(st.none(), st.binary(max_size=20), st.sampled_from([b"v" * 3000]))
BATCHES = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=8)


def _machine_over(suite: MetadataStoreSuite) -> type[RuleBasedStateMachine]:
    """A store beside two dicts: what is visible, and what is store."""

    class StoreMachine(RuleBasedStateMachine):
        @initialize()
        def begin(self) -> None:
            self.directory = TemporaryDirectory()
            self.path = Path(self.directory.name) / "store"
            self.path.mkdir()
            self.crashes = 0
            self.store = suite.make_store(self.path)
            self.store.open()
            self.visible: dict[bytes, bytes] = {}
            self.durable: dict[bytes, bytes] = {}

        @rule(changes=BATCHES)
        def apply(self, changes: list[Change]) -> None:
            self.store.apply(changes)
            for key, value in changes:
                if value is None:
                    self.visible.pop(key, None)
                else:
                    self.visible[key] = value

        @precondition(lambda self: not self.store.is_volatile)
        @rule()
        def flush(self) -> None:
            self.store.flush()
            self.durable = dict(self.visible)

        @precondition(lambda self: not self.store.is_volatile)
        @rule()
        def revert(self) -> None:
            self.store.revert()
            self.visible = dict(self.durable)

        @precondition(lambda self: not self.store.is_volatile)
        @rule()
        def reopen(self) -> None:
            self.store.close()
            self.store = suite.make_store(self.path)
            self.store.open()
            self.durable = dict(self.visible)

        @rule(key=KEYS)
        def get(self, key: bytes) -> None:
            assert self.store.get(key) == self.visible.get(key)

        @rule(start=KEYS, end=KEYS, limit=st.integers(0, 12))
        def scan(self, start: bytes, end: bytes, limit: int) -> None:
            expected = [item for item in sorted(self.visible.items()) if start <= item[0] < end]
            assert list(self.store.scan(start, end, limit)) == expected[:limit]

        @invariant()
        def everything_is_there(self) -> None:
            if hasattr(self, "store"):
                assert list(self.store.scan(b"\0", LAST, 10_000)) == sorted(self.visible.items())

        def teardown(self) -> None:
            if hasattr(self, "store"):
                self.store.close()
                self.directory.cleanup()

    machine: type[Any] = StoreMachine
    return machine
