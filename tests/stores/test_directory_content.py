"""The directory content store against the contract, and what only it can do wrong."""

import asyncio
import errno
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dittofs.model.ids import ContentId, FileId, ShareId
from dittofs.stores.api import ContentStore, StoreError, StoreFull
from dittofs.stores.content import directory
from dittofs.stores.content.directory import DirectoryContentStore
from dittofs.testing.content_suite import DurableContentStoreSuite

SHARE = ShareId(b"share-01")
ONE = ContentId(SHARE, FileId(1))


class TestDirectoryContentStore(DurableContentStoreSuite):
    def make_store(self, path: Path) -> ContentStore:
        return DirectoryContentStore(path)


class TestDirectoryContentStoreWithFewDescriptors(DurableContentStoreSuite):
    def make_store(self, path: Path) -> ContentStore:
        return DirectoryContentStore(path, open_files=1, threads=2)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small file system")
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", path], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"cannot mount a small file system: {mounted.stderr.decode().strip()}")
    yield path
    subprocess.run(["umount", path], check=True)


@pytest.mark.root
def test_full_disk_refuses_a_write_and_leaves_the_file_as_long_as_it_was(small_disk: Path) -> None:
    store = DirectoryContentStore(small_disk / "store")
    store.open()
    other = ContentId(SHARE, FileId(2))

    async def story() -> None:
        await store.write(ONE, 0, b"a" * 100_000)
        with pytest.raises(StoreFull, match="No space left"):
            await store.write(ONE, 100_000, b"b" * (4 << 20))
        assert bytes(await store.read(ONE, 0, 200_000)) == b"a" * 100_000
        await store.write(other, 0, b"c" * (1 << 20))
        await store.sync(other)
        await store.remove(other)
        await store.write(ONE, 100_000, b"d" * (1 << 20))
        assert store.usage().total == 2 << 20

    try:
        asyncio.run(story())
    finally:
        store.close()


class GatedSync:
    """A flush that counts, and waits until it is let through."""

    def __init__(self) -> None:
        self.flushed: list[bytes] = []
        self.gate = threading.Event()
        self.has_begun = threading.Event()

    def __call__(self, descriptor: int) -> None:
        self.flushed.append(os.pread(descriptor, 100, 0))
        self.has_begun.set()
        assert self.gate.wait(10)
        os.fdatasync(descriptor)


def test_flushes_of_one_file_are_shared_but_never_missed(tmp_path: Path) -> None:
    """Whoever writes while a flush runs is not content with that one."""
    sync = GatedSync()
    store = DirectoryContentStore(tmp_path, sync=sync)
    store.open()

    async def story() -> None:
        await store.write(ONE, 0, b"first")
        first = asyncio.ensure_future(store.sync(ONE))
        await asyncio.get_running_loop().run_in_executor(None, sync.has_begun.wait, 10)
        await store.write(ONE, 0, b"second")
        later = [asyncio.ensure_future(store.sync(ONE)) for _ in range(10)]
        await asyncio.sleep(0)
        assert not any(task.done() for task in [first, *later])
        sync.gate.set()
        await asyncio.gather(first, *later)

    asyncio.run(story())
    store.close()
    assert sync.flushed == [b"first", b"second"]


def test_nothing_new_needs_no_flush(tmp_path: Path) -> None:
    calls: list[int] = []
    store = DirectoryContentStore(tmp_path, sync=calls.append)
    store.open()

    async def story() -> None:
        await store.write(ONE, 0, b"x")
        await store.sync(ONE)
        await store.sync(ONE)
        await store.read(ONE, 0, 1)
        await store.sync(ONE)
        assert len(calls) == 1
        await store.truncate(ONE, 0)
        await store.sync(ONE)
        assert len(calls) == 2

    asyncio.run(story())
    store.close()


def test_failed_flush_is_final_for_that_file(tmp_path: Path) -> None:
    """The kernel forgets what it could not write and reports success the next time; we must not."""
    failing = [True]

    def sync(descriptor: int) -> None:
        if failing.pop() if failing else False:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    store = DirectoryContentStore(tmp_path, sync=sync)
    store.open()

    async def story() -> None:
        await store.write(ONE, 0, b"x")
        with pytest.raises(StoreError, match="Input/output error"):
            await store.sync(ONE)
        with pytest.raises(StoreError, match="lost data"):
            await store.sync(ONE)
        other = ContentId(SHARE, FileId(2))
        await store.write(other, 0, b"y")
        await store.sync(other)
        await store.remove(ONE)
        await store.sync(ONE)

    asyncio.run(story())
    store.close()


def test_names_of_new_files_are_flushed_with_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A content file whose directory entry is lost is lost itself."""
    flushed: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        flushed.append(str(Path(os.readlink(f"/proc/self/fd/{descriptor}")).relative_to(tmp_path)))
        real(descriptor)

    store = DirectoryContentStore(tmp_path)
    store.open()
    monkeypatch.setattr(os, "fsync", fsync)

    async def story() -> None:
        await store.write(ONE, 0, b"x")
        assert flushed == []
        await store.sync(ONE)
        share = SHARE.hex()
        assert sorted(flushed) == sorted([".", share, f"{share}/000", f"{share}/000/00"])
        flushed.clear()
        await store.write(ONE, 1, b"y")
        await store.sync(ONE)
        assert flushed == []
        await store.write(ContentId(SHARE, FileId(2)), 0, b"x")
        await store.sync(ContentId(SHARE, FileId(2)))
        assert flushed == [f"{share}/000/00"]

    asyncio.run(story())
    store.close()


@pytest.mark.parametrize("count", [11, 200_000])
def test_what_was_just_written_is_at_hand(tmp_path: Path, count: int) -> None:
    store = DirectoryContentStore(tmp_path / "store")
    store.open()
    assert store.write_now(ONE, 0, b"a" * count)
    found = store.read_now(ONE, 0, count)
    assert found is not None
    assert bytes(found) == b"a" * count
    store.close()


def test_a_slice_of_a_file_that_was_cut_goes_on_with_zeros(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "is_cached", lambda *_: True)
    store = DirectoryContentStore(tmp_path / "store")
    store.open()
    store.write_now(ONE, 0, b"a" * 100_000)
    unread = store.unread(ONE, 0, 100_000)
    assert unread is not None
    asyncio.run(store.truncate(ONE, 10_000))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert unread.send(ours.fileno()) == 10_000
    assert bytes(unread.rest(10_000)) == bytes(90_000)
    assert bytes(unread.rest(9_999)) == b"a" + bytes(90_000)
    store.close()


def test_a_slice_keeps_its_file_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "is_cached", lambda *_: True)
    before = len(os.listdir("/proc/self/fd"))
    store = DirectoryContentStore(tmp_path / "store", open_files=1)
    store.open()
    store.write_now(ONE, 0, b"a" * 100_000)
    unread = store.unread(ONE, 0, 100_000)
    store.write_now(ContentId(SHARE, FileId(2)), 0, b"b" * 100_000)
    assert unread is not None
    assert bytes(unread.rest(0)) == b"a" * 100_000
    store.close()
    del unread
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_is_not_in_memory_is_not_given_to_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "is_cached", lambda *_: False)
    store = DirectoryContentStore(tmp_path / "store")
    store.open()
    store.write_now(ONE, 0, b"a" * 100_000)
    assert store.unread(ONE, 0, 100_000) is None
    store.close()


def test_cold_data_is_read_in_a_thread(tmp_path: Path) -> None:
    store = DirectoryContentStore(tmp_path)
    store.open()
    data = os.urandom(1 << 20)

    async def story() -> None:
        await store.write(ONE, 0, data)
        await store.sync(ONE)
        (path,) = tmp_path.glob("*/*/*/*")
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        assert bytes(await store.read(ONE, 0, 2 << 20)) == data

    asyncio.run(story())
    store.close()


def test_file_stays_open_while_a_thread_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one descriptor for everybody, the next file must not close it under a reading thread."""
    begun, gate = threading.Event(), threading.Event()
    real = os.preadv

    def preadv(descriptor: int, buffers: list[bytearray], offset: int, flags: int = 0) -> int:
        if flags:
            raise BlockingIOError(errno.EAGAIN, "cold")
        begun.set()
        assert gate.wait(10)
        return real(descriptor, buffers, offset)

    store = DirectoryContentStore(tmp_path, open_files=1)
    store.open()

    async def story() -> None:
        await store.write(ONE, 0, b"one")
        monkeypatch.setattr(os, "preadv", preadv)
        reading = asyncio.ensure_future(store.read(ONE, 0, 10))
        await asyncio.get_running_loop().run_in_executor(None, begun.wait, 10)
        for number in range(2, 6):
            await store.write(ContentId(SHARE, FileId(number)), 0, b"other")
        await store.remove(ONE)
        gate.set()
        assert bytes(await reading) == b"one"

    asyncio.run(story())
    store.close()


def _newer(path: Path) -> None:
    format_file = path / "format"
    format_file.write_text(format_file.read_text().replace("format 1", "format 7"))


def _other_kind(path: Path) -> None:
    format_file = path / "format"
    format_file.write_text(format_file.read_text().replace("content-directory", "embedded-metadata"))


def _garbage(path: Path) -> None:
    (path / "format").write_text("hello")


def _no_format(path: Path) -> None:
    (path / "format").unlink()
    (path / "something").touch()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_newer, "format 7, written by a newer DittoFS"),
        (_other_kind, "holds a embedded-metadata store"),
        (_garbage, "does not say what it should"),
        (_no_format, "it has something but no format file"),
    ],
)
def test_directory_that_is_not_ours_is_refused(tmp_path: Path, spoil: Callable[[Path], None], message: str) -> None:
    """[STORE-3] a newer format is refused by name"""
    store = DirectoryContentStore(tmp_path)
    store.open()
    store.close()
    spoil(tmp_path)
    with pytest.raises(StoreError, match=message):
        DirectoryContentStore(tmp_path).open()


def test_removals_are_flushed_once_for_each_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[STORE-3] A name that was removed comes back after a loss of power, unless its directory was flushed."""
    store = DirectoryContentStore(tmp_path)
    store.open()
    flushed: list[Path] = []
    monkeypatch.setattr(directory, "flush_directory", flushed.append)

    async def story() -> None:
        contents = [ContentId(SHARE, FileId(number)) for number in (1, 2, 3, 0x100)]
        for content in contents:
            await store.write(content, 0, b"abc")
            await store.sync(content)
        flushed.clear()
        for content in contents:
            await store.remove(content)
        assert flushed == []
        await store.sync_removals()
        below = tmp_path / SHARE.hex() / "000"
        assert sorted(flushed) == [below / "00", below / "01"]
        await store.sync_removals()
        assert len(flushed) == 2
        await store.remove(contents[0])
        await store.write(contents[0], 0, b"abc")
        await store.remove(contents[0])

    asyncio.run(story())
    store.close()
    assert len(flushed) == 3


def test_names_that_a_killed_server_left_are_flushed_when_they_are_relied_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[STORE-3] Everything is flushed in the background; whoever cannot wait for that has his own directories done."""
    is_settled = threading.Event()
    monkeypatch.setattr(os, "sync", is_settled.wait)
    flushed: list[Path] = []
    monkeypatch.setattr(directory, "flush_directory", flushed.append)
    left = ContentId(SHARE, FileId(1))
    gone = ContentId(SHARE, FileId(0x100))

    async def leave() -> None:
        store = DirectoryContentStore(tmp_path / "before")
        store.open()
        for content in (left, gone):
            await store.write(content, 0, b"abc")
        await store.remove(gone)
        shutil.copytree(tmp_path / "before", tmp_path / "killed")
        store.close()

    async def find() -> None:
        store = DirectoryContentStore(tmp_path / "killed")
        store.open()
        flushed.clear()
        await store.sync(left)
        share = tmp_path / "killed" / SHARE.hex()
        assert set(flushed) == {tmp_path / "killed", share, share / "000", share / "000" / "00"}
        await store.sync(left)
        await store.write(left, 0, b"x")
        await store.sync(left)
        assert len(flushed) == 4
        await store.remove(gone)
        await store.sync_removals()
        assert flushed[4:] == [share / "000" / "01"]
        is_settled.set()
        store.close()

    asyncio.run(leave())
    asyncio.run(find())


def test_second_opener_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    store = DirectoryContentStore(tmp_path)
    store.open()
    with pytest.raises(StoreError, match=f"in use by another process \\(pid {os.getpid()}\\)"):
        DirectoryContentStore(tmp_path).open()
    store.close()
    again = DirectoryContentStore(tmp_path)
    again.open()
    again.close()


def test_reading_only_shows_everything_and_changes_nothing(tmp_path: Path) -> None:
    store = DirectoryContentStore(tmp_path)
    store.open()

    async def story() -> None:
        await store.write(ONE, 0, b"abc")
        store.close()
        reader = DirectoryContentStore(tmp_path, is_read_only=True)
        reader.open()
        assert bytes(await reader.read(ONE, 0, 10)) == b"abc"
        assert list(reader.contents(SHARE)) == [ONE]
        for attempt in (reader.write(ONE, 0, b"x"), reader.truncate(ONE, 0), reader.remove(ONE)):
            with pytest.raises(StoreError, match="for reading only"):
                await attempt
        assert bytes(await reader.read(ONE, 0, 10)) == b"abc"
        reader.close()

    asyncio.run(story())
