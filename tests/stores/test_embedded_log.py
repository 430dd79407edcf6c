"""The log after a power cut, a scratch on the disk and a failed write: what is read back is what was promised."""

import errno
import fcntl
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dittofs.stores import data_directory
from dittofs.stores.api import StoreError, StoreFull
from dittofs.stores.metadata.embedded import EmbeddedMetadataStore
from dittofs.stores.metadata.log import BLOCK_BYTES, Log, encode_batch, read_log

STORE = b"sixteen bytes id"
SEGMENT = 16 * BLOCK_BYTES


def batch(number: int) -> bytes:
    return encode_batch([(b"key %d" % number, b"value %d" % number * (number % 40)), (b"removed", None)])


class Written:
    """A log with one batch per flush, and where in which file each of them ended."""

    def __init__(self, directory: Path, batches: int, segment_bytes: int = SEGMENT) -> None:
        self.directory = directory
        self.log = Log(directory, STORE, segment_bytes=segment_bytes)
        self.log.start(1)
        self.ends: list[tuple[str, int, int]] = []
        for number in range(1, batches + 1):
            self.log.append(number, [batch(number)], number - 1)
            current = self.log._current
            assert current is not None
            self.ends.append((current.path.name, current.first, current.offset))

    def read(self, after: int = 0) -> list[int]:
        return [frame.first for frame in read_log(self.directory, STORE, after=after)]


def test_everything_written_is_read_back(tmp_path: Path) -> None:
    written = Written(tmp_path, 50)
    assert len({name for name, _, _ in written.ends}) > 3
    assert written.read() == list(range(1, 51))
    assert written.read(after=20)[-1] == 50
    frames = list(read_log(tmp_path, STORE, after=0))
    assert frames[11].batches == [[(b"key 12", b"value 12" * 12), (b"removed", None)]]


def test_reading_stops_at_the_batch_asked_for(tmp_path: Path) -> None:
    written = Written(tmp_path, 50)
    for through in (1, 17, 49, 50):
        assert [frame.first for frame in read_log(tmp_path, STORE, after=0, through=through)] == list(
            range(1, through + 1)
        )
    with pytest.raises(StoreError, match="batches 51 to 60"):
        list(read_log(tmp_path, STORE, after=0, through=60))
    assert written.read() == list(range(1, 51))


@pytest.mark.slow
@pytest.mark.parametrize("filler", ["zeros", "ones", "an earlier life"])
def test_log_torn_at_every_byte_gives_a_prefix(tmp_path: Path, filler: str) -> None:
    """[STORE-3] Whatever of the last flushes reached the disk: exactly the whole ones before the tear are there."""
    log = Written(tmp_path, 40)
    background = {path.name: path.read_bytes() for path in tmp_path.glob("*.log")}
    log.log.release(40)
    ends = []
    for number in range(41, 200):
        log.log.append(number, [batch(number)], number - 1)
        current = log.log._current
        assert current is not None
        ends.append((number, current))
        if number > 60 and current.last - current.first > 4 and current.path.name in background:
            break
    path = current.path
    whole = path.read_bytes()
    before = {"zeros": bytes(len(whole)), "ones": b"\xff" * len(whole)}.get(filler, background[path.name])
    assert before[BLOCK_BYTES:] != whole[BLOCK_BYTES:]
    last = current.last
    sizes = [_blocks(batch(number)) for number in range(last - 2, last + 1)]
    start = current.offset - sum(sizes)
    for tear in range(start, current.offset + 1):
        path.write_bytes(whole[:tear] + before[tear:])
        found = log.read(after=last - 3)
        position, complete = start, []
        for number, size in zip(range(last - 2, last + 1), sizes, strict=True):
            position += size
            # Padding behind a frame may be lost; the frame's own bytes may not.
            if tear >= position - size + 32 + 5 + len(batch(number)) or whole[tear:position] == before[tear:position]:
                complete.append(number)
        assert found == complete
    path.write_bytes(whole)


def _blocks(encoded: bytes) -> int:
    return -(-(32 + 5 + len(encoded)) // BLOCK_BYTES) * BLOCK_BYTES


def test_segment_torn_while_it_was_begun_holds_nothing(tmp_path: Path) -> None:
    log = Written(tmp_path, 1)
    first_of = {name: first for name, first, _ in log.ends}
    (name,) = first_of
    header = (tmp_path / name).read_bytes()[:BLOCK_BYTES]
    for tear in range(1, 40):
        (tmp_path / name).write_bytes(header[:tear] + bytes(SEGMENT - tear))
        assert log.read() == []


def test_segment_that_lost_its_beginning_is_told(tmp_path: Path) -> None:
    log = Written(tmp_path, 40)
    name = log.ends[-1][0]
    spoiled = bytearray((tmp_path / name).read_bytes())
    spoiled[20] ^= 1
    (tmp_path / name).write_bytes(spoiled)
    with pytest.raises(StoreError, match=f"the beginning of .*{name} is not to be read"):
        log.read()


def test_damage_before_acknowledged_batches_is_told(tmp_path: Path) -> None:
    """A flipped bit is not a power cut: going on would lose what clients were promised."""
    log = Written(tmp_path, 40)
    name, first, _ = log.ends[-1]
    path = tmp_path / name
    whole = path.read_bytes()
    spoiled = bytearray(whole)
    spoiled[BLOCK_BYTES + 60] ^= 1
    path.write_bytes(spoiled)
    with pytest.raises(StoreError, match=f"batches {first} to .* are not to be read in .*{name}"):
        log.read()
    path.write_bytes(whole)
    (older, *_) = [segment for segment, _, _ in log.ends if segment != name][-1:]
    spoiled = bytearray((tmp_path / older).read_bytes())
    spoiled[BLOCK_BYTES + 60] ^= 1
    (tmp_path / older).write_bytes(spoiled)
    with pytest.raises(StoreError, match=f"the log is damaged.*{older}"):
        log.read()
    assert log.read(after=first - 1) == list(range(first, 41))


def test_missing_segment_is_told(tmp_path: Path) -> None:
    log = Written(tmp_path, 40)
    names = list(dict.fromkeys(name for name, _, _ in log.ends))
    (tmp_path / names[1]).unlink()
    with pytest.raises(StoreError, match="the log is damaged"):
        log.read()


def test_any_flipped_bit_gives_a_prefix_or_is_told(tmp_path: Path) -> None:
    log = Written(tmp_path, 30)
    chance = random.Random(4)
    files = {path: path.read_bytes() for path in sorted(tmp_path.glob("*.log"))}
    for _ in range(300):
        path = chance.choice(list(files))
        spoiled = bytearray(files[path])
        spoiled[chance.randrange(len(spoiled))] ^= 1 << chance.randrange(8)
        path.write_bytes(spoiled)
        try:
            found = log.read()
        except StoreError:
            pass
        else:
            assert found == list(range(1, len(found) + 1))
        path.write_bytes(files[path])


def test_what_an_earlier_life_left_is_not_read(tmp_path: Path) -> None:
    """Segments are written over: old frames behind the new ones have good checksums of their own."""
    log = Written(tmp_path, 40)
    files = len(list(tmp_path.glob("*.log")))
    log.log.release(40)
    for number in range(41, 80):
        log.log.append(number, [batch(number)], number - 1)
        log.log.release(number - 1)
        assert log.read(after=number - 1) == [number]
        assert log.read(after=40)[-1:] == [number] if number < 45 else True
    assert len(list(tmp_path.glob("*.log"))) == files


def test_restart_supersedes_what_was_not_acknowledged(tmp_path: Path) -> None:
    log = Written(tmp_path, 10)
    log.log.append(11, [batch(11), batch(12)], 10)
    log.log.restart(11)
    assert log.read() == list(range(1, 11))
    log.log.append(11, [encode_batch([(b"other", b"1")])], 10)
    frames = list(read_log(tmp_path, STORE, after=10))
    assert [frame.batches for frame in frames] == [[[(b"other", b"1")]]]


def test_batch_larger_than_a_segment(tmp_path: Path) -> None:
    log = Written(tmp_path, 3)
    large = encode_batch([(b"large", bytes(range(256)) * 1000)])
    log.log.append(4, [batch(4), large, batch(6)], 3)
    log.log.append(7, [batch(7)], 6)
    frames = list(read_log(tmp_path, STORE, after=0))
    assert sum(len(frame.batches) for frame in frames) == 7
    assert frames[4].batches[0] == [(b"large", bytes(range(256)) * 1000)]
    log.log.release(7)
    for number in range(8, 40):
        log.log.append(number, [batch(number)], number - 1)
        log.log.release(number)
    assert {path.stat().st_size for path in tmp_path.glob("*.log")} == {SEGMENT}


def test_segment_of_another_store_is_refused(tmp_path: Path) -> None:
    Written(tmp_path, 3)
    with pytest.raises(StoreError, match="belongs to another store"):
        list(read_log(tmp_path, b"another store id", after=0))


# The whole store.


def small_store(path: Path, sync: Callable[[int], None] = os.fdatasync, **options: int) -> EmbeddedMetadataStore:
    sizes = {"segment_bytes": SEGMENT, "log_bytes": 64 * SEGMENT, "map_bytes": 1 << 20, "reserve_bytes": 1 << 16}
    return EmbeddedMetadataStore(path, sync=sync, **(sizes | options))


def filled(path: Path, batches: int) -> EmbeddedMetadataStore:
    store = small_store(path)
    store.open()
    for number in range(1, batches + 1):
        store.apply([(b"%04d" % number, b"v" * (number % 50)), (b"newest", b"%04d" % number)])
        store.flush()
    return store


@pytest.mark.slow
def test_store_torn_at_every_byte_opens_with_a_prefix(tmp_path: Path) -> None:
    """[STORE-3] Simulated power loss, through the whole store."""
    store = filled(tmp_path / "store", 24)
    current = store._log._current
    assert current is not None
    shutil.copytree(tmp_path / "store", tmp_path / "torn")
    store.close()
    path = tmp_path / "torn" / "log" / current.path.name
    whole = path.read_bytes()
    counts = set()
    for tear in range(BLOCK_BYTES, current.offset + 1):
        path.write_bytes(whole[:tear] + bytes(len(whole) - tear))
        torn = small_store(tmp_path / "torn", is_read_only=True)
        torn.open()
        keys = [key for key, _ in torn.scan(b"0", b"9", 100)]
        assert keys == [b"%04d" % number for number in range(1, len(keys) + 1)]
        assert torn.get(b"newest") == (b"%04d" % len(keys) if keys else None)
        complete = (tear - BLOCK_BYTES) // BLOCK_BYTES
        assert current.first - 1 + complete <= len(keys) <= current.first + complete
        counts.add(len(keys))
        torn.close()
    assert max(counts) == 24


def test_torn_store_goes_on_and_never_meets_the_torn_part_again(tmp_path: Path) -> None:
    store = filled(tmp_path / "store", 10)
    current = store._log._current
    assert current is not None
    shutil.copytree(tmp_path / "store", tmp_path / "torn")
    store.close()
    path = tmp_path / "torn" / "log" / current.path.name
    data = bytearray(path.read_bytes())
    # The flush before the last one is lost, the last one is not: the disk wrote them in another order.
    data[current.offset - 2 * BLOCK_BYTES : current.offset - BLOCK_BYTES] = bytes(BLOCK_BYTES)
    header = current.offset - BLOCK_BYTES + 8 + 4 + 4 + 8
    assert int.from_bytes(data[header : header + 8], "little") == 9, "the frame says what was durable before it"
    path.write_bytes(data)
    with pytest.raises(StoreError, match="the log is damaged: batches 9 to 9"):
        small_store(tmp_path / "torn").open()
    data[current.offset - BLOCK_BYTES : current.offset] = bytes(BLOCK_BYTES)
    path.write_bytes(data)
    for round_number in range(3):
        torn = small_store(tmp_path / "torn")
        torn.open()
        assert torn.get(b"newest") == (b"0008" if round_number == 0 else b"again %d" % (round_number - 1))
        torn.apply([(b"newest", b"again %d" % round_number)])
        torn.close()


class FailingSync:
    """A disk whose next flush fails, when told so."""

    def __init__(self) -> None:
        self.fails_with: int | None = None
        self.calls = 0

    def __call__(self, descriptor: int) -> None:
        self.calls += 1
        if self.fails_with is not None:
            code, self.fails_with = self.fails_with, None
            raise OSError(code, os.strerror(code))
        os.fdatasync(descriptor)


def test_failed_flush_is_undone_and_the_store_goes_on(tmp_path: Path) -> None:
    sync = FailingSync()
    store = small_store(tmp_path / "store", sync)
    store.open()
    store.apply([(b"a", b"1")])
    store.flush()
    store.apply([(b"a", b"2"), (b"lost", b"1")])
    sync.fails_with = errno.EIO
    with pytest.raises(StoreError, match="Input/output error"):
        store.flush()
    store.apply([(b"lost too", b"1")])
    with pytest.raises(StoreError, match="revert before"):
        store.flush()
    store.revert()
    assert store.scan(b"\0", b"\xff", 10) == [(b"a", b"1")]
    shutil.copytree(tmp_path / "store", tmp_path / "crashed")
    store.apply([(b"b", b"3")])
    store.flush()
    shutil.copytree(tmp_path / "store", tmp_path / "crashed later")
    store.close()
    for name, expected in (("crashed", [(b"a", b"1")]), ("crashed later", [(b"a", b"1"), (b"b", b"3")])):
        again = small_store(tmp_path / name)
        again.open()
        assert again.scan(b"\0", b"\xff", 10) == expected
        again.close()


def test_disk_that_fails_for_good_stops_the_store_and_loses_nothing(tmp_path: Path) -> None:
    is_broken = False

    def sync(descriptor: int) -> None:
        if is_broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        os.fdatasync(descriptor)

    store = small_store(tmp_path / "store", sync)
    store.open()
    store.apply([(b"a", b"1")])
    store.flush()
    is_broken = True
    store.apply([(b"lost", b"1")])
    with pytest.raises(StoreError):
        store.flush()
    with pytest.raises(StoreError, match="Input/output error"):
        store.revert()
    with pytest.raises(StoreError, match="Input/output error"):
        store.apply([(b"b", b"1")])
    assert store.get(b"a") == b"1"
    store.close()
    is_broken = False
    store = small_store(tmp_path / "store", sync)
    store.open()
    assert store.get(b"a") == b"1"
    store.close()


def test_one_flush_of_the_device_per_flush(tmp_path: Path) -> None:
    """Many batches, one flush: that is what group commit is for."""
    sync = FailingSync()
    store = small_store(tmp_path / "store", sync)
    store.open()
    store.flush()
    before = sync.calls
    for number in range(20):
        store.apply([(b"%d" % number, b"v")])
    store.flush()
    store.flush()
    assert sync.calls == before + 1
    store.close()


def test_full_disk_when_a_segment_is_needed(tmp_path: Path) -> None:
    """Nothing was written then, so nothing has to be undone on disk."""
    store = small_store(tmp_path / "store")
    store.open()
    store.apply([(b"a", b"1")])
    store.flush()

    def no_room(size: int) -> None:
        raise StoreFull("no room")

    create = store._log._create
    store._log._create = no_room  # type: ignore[method-assign, assignment]
    store.apply([(b"%d" % number, b"v" * 4000) for number in range(30)])
    with pytest.raises(StoreFull):
        store.flush()
    store.revert()
    assert store.scan(b"\0", b"\xff", 10) == [(b"a", b"1")]
    with pytest.raises(StoreFull, match="only removing"):
        store.apply([(b"b", b"1")])
    store.apply([(b"a", None)])
    store.flush()
    assert store.scan(b"\0", b"\xff", 10) == []
    store._log._create = create  # type: ignore[method-assign]
    store.close()


# Who may open it.


def test_newer_format_is_refused_by_name(tmp_path: Path) -> None:
    """[STORE-3]"""
    filled(tmp_path, 1).close()
    format_file = tmp_path / "format"
    format_file.write_text(format_file.read_text().replace("format 1", "format 2"))
    for is_read_only in (False, True):
        with pytest.raises(StoreError, match="embedded-metadata format 2, written by a newer DittoFS"):
            small_store(tmp_path, is_read_only=is_read_only).open()


def test_log_has_room_for_four_segments_at_least(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="at least four segments"):
        small_store(tmp_path, log_bytes=3 * SEGMENT)


def test_store_that_failed_can_be_opened_anew(tmp_path: Path) -> None:
    sync = FailingSync()
    store = small_store(tmp_path, sync)
    store.open()
    store.apply([(b"a", b"1")])
    sync.fails_with = errno.EIO
    with pytest.raises(StoreError):
        store.flush()
    store.close()
    store.open()
    # Nobody was told what became of `a`: the flush failed, and the server died before it could undo anything.
    assert store.get(b"a") in (None, b"1")
    store.apply([(b"a", None), (b"b", b"2")])
    store.flush()
    store.close()
    store.open()
    assert store.scan(b"\0", b"\xff", 5) == [(b"b", b"2")]
    store.close()


def test_newer_log_format_is_refused_by_name(tmp_path: Path) -> None:
    import struct
    import zlib

    log = Written(tmp_path, 1)
    path = tmp_path / log.ends[0][0]
    data = bytearray(path.read_bytes())
    data[8:12] = struct.pack("<I", 9)
    data[44:48] = struct.pack("<I", zlib.crc32(data[:44]))
    path.write_bytes(data)
    with pytest.raises(StoreError, match="log format 9, written by a newer DittoFS"):
        log.read()


def test_second_opener_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    store = filled(tmp_path, 1)
    for is_read_only in (False, True):
        with pytest.raises(StoreError, match=f"in use by another process \\(pid {os.getpid()}\\)"):
            small_store(tmp_path, is_read_only=is_read_only).open()
    store.close()


def test_lock_that_outlives_a_killed_server_for_a_moment_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child that a killed server was just starting has it, until the child has come to its own program."""
    filled(tmp_path, 1).close()
    killed = subprocess.Popen([sys.executable, "-c", ""])
    killed.wait()
    lock = os.open(tmp_path / "lock", os.O_RDWR)
    os.pwrite(lock, b"%d\n" % killed.pid, 0)
    fcntl.flock(lock, fcntl.LOCK_EX)
    waits = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            os.close(lock)

    monkeypatch.setattr(data_directory.time, "sleep", wait)
    store = small_store(tmp_path)
    store.open()
    assert len(waits) == 3
    store.close()


def test_reading_only_shows_everything_and_changes_nothing(tmp_path: Path) -> None:
    """What `dittofs check` does after a crash."""
    store = filled(tmp_path / "store", 20)
    shutil.copytree(tmp_path / "store", tmp_path / "crashed")
    store.close()

    def everything() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in (tmp_path / "crashed").rglob("*") if path.is_file()}

    before = everything()
    crashed = small_store(tmp_path / "crashed", is_read_only=True)
    crashed.open()
    assert len(crashed.scan(b"0", b"9", 100)) == 20
    with pytest.raises(StoreError, match="for reading only"):
        crashed.apply([(b"a", b"1")])
    crashed.close()
    assert everything() == before


def test_there_is_nothing_to_read_in_an_empty_directory(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store in"):
        small_store(tmp_path, is_read_only=True).open()
    assert list(tmp_path.iterdir()) == []
