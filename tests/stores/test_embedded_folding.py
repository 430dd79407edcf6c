"""Folding beside everything else: reads stay right, memory and log stay bounded, and no kill loses anything."""

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dittofs.stores.api import Change, StoreError, StoreFull
from dittofs.stores.metadata.embedded import SPARED_BYTES, EmbeddedMetadataStore
from tests.end_to_end.small_disk import small_disk
from tests.stores.embedded_worker import WINDOW, key_of, store_at, value_of

WORKER = Path(__file__).with_name("embedded_worker.py")


def wait_for_fold(store: EmbeddedMetadataStore) -> None:
    store.flush()
    store._folder.wait()


@pytest.mark.slow
def test_everything_stays_right_while_folds_go_on(tmp_path: Path) -> None:
    """Scans merge three layers; every fold takes one of them away."""
    store = store_at(tmp_path)
    store.open()
    chance = random.Random(7)
    model: dict[bytes, bytes] = {}
    folds = 0
    folded = 0
    for step in range(6000):
        changes: list[Change] = []
        for _ in range(chance.randrange(1, 5)):
            key = b"%05d" % chance.randrange(3000)
            changes.append((key, None if chance.random() < 0.3 else chance.randbytes(chance.randrange(200))))
        store.apply(changes)
        for key, value in changes:
            if value is None:
                model.pop(key, None)
            else:
                model[key] = value
        if step % 3 == 0:
            store.flush()
        if store._folded != folded:
            folds, folded = folds + 1, store._folded
        if step % 50 == 0:
            start = b"%05d" % chance.randrange(3000)
            expected = [item for item in sorted(model.items()) if item[0] >= start][:40]
            assert store.scan(start, b"\xff", 40) == expected
        key = b"%05d" % chance.randrange(3000)
        assert store.get(key) == model.get(key)
    assert folds >= 3
    assert store.scan(b"\0", b"\xff", 10_000) == sorted(model.items())
    assert len(list((tmp_path / "log").glob("*.log"))) < 20
    store.close()
    again = store_at(tmp_path)
    again.open()
    assert again.scan(b"\0", b"\xff", 10_000) == sorted(model.items())
    assert again._records.folded == again._durable
    again.close()


@pytest.mark.slow
def test_map_grows_under_open_readers(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    store.open()
    before = store._records.map_bytes
    for number in range(3000):
        store.apply([(b"%06d" % number, b"v" * 2000)])
        if number % 50 == 0:
            store.flush()
            assert store.get(b"000000") == b"v" * 2000
    wait_for_fold(store)
    store.apply([(b"last", b"1")])
    assert store._records.map_bytes > 4 * before
    assert len(store.scan(b"0", b"9", 10_000)) == 3000
    store.close()


@pytest.mark.slow
def test_flush_waits_when_folding_is_slower_than_writing(tmp_path: Path) -> None:
    """Back-pressure: the overlay does not grow without bound."""
    store = store_at(tmp_path)
    store.open()
    most = 0
    congested = 0
    for number in range(1500):
        store.apply([(b"%06d-%d" % (number, part), b"v" * 100) for part in range(20)])
        congested += store.is_congested
        store.flush()
        most = max(most, store._active_bytes)
    assert most < 256 << 10
    assert congested > 0
    store.close()


@pytest.mark.slow
def test_folding_process_that_died_is_started_anew(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    store.open()
    number = 0
    killed = 0
    while killed < 3:
        number += 1
        store.apply([(b"%06d" % number, b"v" * 500)])
        store.flush()
        process = store._folder._process
        if process is not None and number % 400 == 0 and process.poll() is None:
            process.kill()
            killed += 1
    for extra in range(1000):
        store.apply([(b"x%06d" % extra, b"v" * 500)])
        store.flush()
    wait_for_fold(store)
    assert store._folder.error is None
    assert len(store.scan(b"0", b"9", 10_000)) == number
    store.close()


def test_folding_process_that_cannot_run_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything acknowledged stays readable and durable; what would grow without bound is refused."""
    store = store_at(tmp_path / "store")
    store.open()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no such program"))
    number = 0
    try:
        while number < 5000:
            store.apply([(b"%06d" % number, b"v" * 500)])
            store.flush()
            number += 1
    except StoreError as error:
        assert "cannot start the folding process: No such file" in str(error)  # noqa: PT017
    assert 100 < number < 5000
    assert len(store.scan(b"0", b"9", 10_000)) == number
    shutil.copytree(tmp_path / "store", tmp_path / "crashed")
    store.close()
    for name in ("store", "crashed"):
        again = store_at(tmp_path / name)
        again.open()
        assert len(again.scan(b"0", b"9", 10_000)) == number
        again.close()


@pytest.mark.slow
def test_late_fold_of_a_dead_server_changes_nothing(tmp_path: Path) -> None:
    """The folding process of a killed server may wake up when the next server is at work."""
    store = store_at(tmp_path)
    store.open()
    store.apply([(b"a", b"old")])
    store.flush()
    arguments = [str(tmp_path / "records"), str(tmp_path / "log"), store._directory.identity.hex(), str(1 << 20)]
    late = subprocess.Popen(
        [sys.executable, "-m", "dittofs.stores.metadata.folding", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    store.apply([(b"a", b"new")])
    store.flush()
    store.close()
    store.open()
    store.apply([(b"a", b"newest")])
    store.flush()
    answer, _ = late.communicate(b"1\n", timeout=20)
    assert answer.startswith(b"folded")
    assert store.get(b"a") == b"newest"
    store.close()
    store.open()
    assert store.get(b"a") == b"newest"
    store.close()


def check_survivors(path: Path, acknowledged: int) -> int:
    """Everything up to some batch at or behind the acknowledged one, and nothing else.  Returns that batch."""
    store = store_at(path)
    store.open()
    try:
        count = int(store.get(b"count") or b"0")
        assert count >= acknowledged, "an acknowledged batch is lost"
        expected = {key_of(number): value_of(number) for number in range(max(1, count - WINDOW + 1), count + 1)}
        assert dict(store.scan(b"entry", b"entrz", 10_000)) == expected
    finally:
        store.close()
    return count


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_kill_at_any_moment_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """[STORE-3] Applying, flushing and folding are all going on when SIGKILL comes."""
    seed = int(os.environ.get("DITTOFS_TEST_SEED", random.randrange(2**32)))
    print(f"DITTOFS_TEST_SEED={seed}")
    chance = random.Random(seed)
    count = 0
    for _ in range(int(os.environ.get("DITTOFS_TEST_STORE_KILLS", "20"))):
        worker = subprocess.Popen(
            [sys.executable, str(WORKER), str(tmp_path), str(count + 1)],
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert worker.stdout is not None
        first = worker.stdout.readline()
        assert first, "the worker died by itself"
        deadline = threading.Timer(chance.uniform(0.0, 0.6), worker.send_signal, [signal.SIGKILL])
        deadline.start()
        lines = worker.stdout.read().splitlines(keepends=True)
        deadline.join()
        assert worker.wait() == -signal.SIGKILL
        worker.stdout.close()
        whole = [first, *(line for line in lines if line.endswith(b"\n"))]
        count = check_survivors(tmp_path, int(whole[-1]))
    assert count > 1000


RSS_PROBE = """
import sys
from pathlib import Path
from dittofs.stores.metadata.embedded import SPARED_BYTES, EmbeddedMetadataStore
from tests.end_to_end.small_disk import small_disk

def resident():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) // 1024

store = EmbeddedMetadataStore(Path(sys.argv[1]), overlay_bytes=8 << 20)
store.open()
number = 0
for total in (60_000, 240_000):
    while number < total:
        store.apply([(b"%012d-%d" % (number * 7919 % 1_000_003, part), b"v" * 160) for part in range(10)])
        number += 10
        if number % 500 == 0:
            store.flush()
    print(resident())
store.close()
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux' /proc to see anonymous memory")
def test_memory_does_not_grow_with_the_number_of_records(tmp_path: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-c", RSS_PROBE, str(tmp_path / "store")],
        check=True,
        capture_output=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        timeout=100,
    )
    early, late = map(int, finished.stdout.split())
    assert late < early + 12, f"RssAnon {early} MiB with 60,000 records, {late} MiB with 240,000"
    assert late < 60


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    with small_disk(tmp_path / "disk", 4) as path:
        yield path


@pytest.mark.root
@pytest.mark.slow
def test_full_disk_refuses_what_grows_and_can_be_emptied(disk: Path) -> None:
    """Disk full is NOSPC for whoever writes, nothing is lost, and removing makes room again."""

    def make() -> EmbeddedMetadataStore:
        return EmbeddedMetadataStore(
            disk / "store",
            overlay_bytes=128 << 10,
            log_bytes=512 << 10,
            segment_bytes=64 << 10,
            reserve_bytes=512 << 10,
        )

    store = make()
    store.open()
    durable = number = 0
    refused = 0
    while refused < 3:
        try:
            store.apply([(b"%06d" % number, os.urandom(700))])
            store.flush()
            number = durable = number + 1
        except StoreFull:
            refused += 1
            store.revert()
        assert number < 10_000
    assert durable > 500
    assert len(store.scan(b"0", b"9", 10_000)) == durable

    # A restart with a full disk works, too.
    store.close()
    store = make()
    store.open()
    assert len(store.scan(b"0", b"9", 10_000)) == durable
    # What a start and a stop change is let through, but not for ever.
    store.apply([(b"000000", b"changed")])
    store.flush()
    assert store.get(b"000000") == b"changed"
    with pytest.raises(StoreFull, match="only removing"):
        store.apply([(b"new", b"")])
    for _ in range(SPARED_BYTES // 710):
        store.apply([(b"000001", b"v" * 700)])
    with pytest.raises(StoreFull, match="only removing"):
        store.apply([(b"000001", b"v" * 1000)])
    removed = 0
    deadline = time.monotonic() + 90
    while removed < durable - 10:
        assert time.monotonic() < deadline
        try:
            store.apply([(b"%06d" % removed, None)])
            store.flush()
            removed += 1
        except StoreFull:
            store.revert()
    store.close()
    store = make()
    store.open()
    assert [key for key, _ in store.scan(b"0", b"9", 10_000)] == [
        b"%06d" % number for number in range(removed, durable)
    ]
    store.apply([(b"there is room again", b"v" * 1000)])
    store.flush()
    store.close()
