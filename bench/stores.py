"""How quick the stores are, beside what the same disk does without them.

python bench/stores.py [--directory DIR] [--records N] [metadata] [content]
"""

import argparse
import asyncio
import os
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from dittofs.model.ids import ContentId, FileId, ShareId
from dittofs.stores.api import Change, ContentStore
from dittofs.stores.content.directory import DirectoryContentStore
from dittofs.stores.content.memory import MemoryContentStore
from dittofs.stores.metadata.embedded import EmbeddedMetadataStore
from dittofs.stores.metadata.memory import MemoryMetadataStore

MEBIBYTE = 1 << 20


def show(name: str, value: float, unit: str) -> None:
    print(f"{name:<58} {value:>12,.2f} {unit}")


def per_call(work: Callable[[int], object], calls: int) -> float:
    """Microseconds, the middle of five runs."""
    runs = []
    for _ in range(5):
        start = time.perf_counter()
        for number in range(calls):
            work(number)
        runs.append((time.perf_counter() - start) / calls * 1e6)
    return statistics.median(runs)


def resident_mebibytes() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("RssAnon"))) / 1024


def inode(number: int) -> list[Change]:
    """What a CREATE writes, about: the file, its name, its directory."""
    return [
        (b"i" + number.to_bytes(8, "big"), number.to_bytes(8, "big") * 20),
        (b"d" + b"\0" * 7 + b"\1" + random.randbytes(8), number.to_bytes(8, "big") * 4),
        (b"i" + b"\0" * 7 + b"\1", number.to_bytes(8, "big") * 20),
    ]


def raw_flushes(directory: Path, seconds: float = 1.0) -> float:
    """4 KiB overwritten and flushed in a preallocated file, per second."""
    path = directory / "raw"
    with path.open("w+b", buffering=0) as file:
        file.write(bytes(8 * MEBIBYTE))
        os.fsync(file.fileno())
        block = os.urandom(4096)
        count = 0
        start = time.perf_counter()
        while time.perf_counter() - start < seconds:
            os.pwrite(file.fileno(), block, count % 2048 * 4096)
            os.fdatasync(file.fileno())
            count += 1
        elapsed = time.perf_counter() - start
    path.unlink()
    return count / elapsed


def bench_flushes(store: EmbeddedMetadataStore, directory: Path) -> None:
    raw, ours = [], []
    number = 10_000_000
    for _ in range(3):
        raw.append(raw_flushes(directory))
        count = 0
        start = time.perf_counter()
        while time.perf_counter() - start < 1.0:
            store.apply(inode(number))
            store.flush()
            number += 1
            count += 1
        ours.append(count / (time.perf_counter() - start))
    show("raw: 4 KiB overwrite + fdatasync", statistics.median(raw), "/s")
    show("embedded: apply of a CREATE + flush", statistics.median(ours), "/s")
    show("  ratio", statistics.median(ours) / statistics.median(raw) * 100, "%")


def bench_metadata(directory: Path, records: int) -> None:
    memory = MemoryMetadataStore()
    batches = [[change for number in range(32) for change in inode(base * 32 + number)] for base in range(200)]
    start = time.perf_counter()
    for batch in batches:
        memory.apply(batch)
    show("memory: apply", (time.perf_counter() - start) / 200 / 96 * 1e6, "us/record")
    show("memory: get", per_call(lambda n: memory.get(b"i" + (n % 6400).to_bytes(8, "big")), 20_000), "us")

    store = EmbeddedMetadataStore(directory / "meta")
    store.open()
    applying = 0.0
    for batch in batches:
        start = time.perf_counter()
        store.apply(batch)
        applying += time.perf_counter() - start
    store.flush()
    show("embedded: apply (batches of 96)", applying / 200 / 96 * 1e6, "us/record")
    show(
        "embedded: get from the overlay",
        per_call(lambda n: store.get(b"i" + (n % 6400).to_bytes(8, "big")), 20_000),
        "us",
    )
    first, last = b"d" + b"\0" * 8, b"d" + b"\xff" * 8
    show("embedded: scan of 100 in the overlay", per_call(lambda _: store.scan(first, last, 100), 200), "us")
    bench_flushes(store, directory)

    bench_filling(store, records)
    store.close()

    start = time.perf_counter()
    store.open()
    show(f"embedded: open with {records:,} files", (time.perf_counter() - start) * 1e3, "ms")
    show("embedded: RssAnon after that", resident_mebibytes(), "MiB")
    numbers = [random.randrange(records).to_bytes(8, "big") for _ in range(20_000)]
    show("embedded: get from LMDB", per_call(lambda n: store.get(b"i" + numbers[n]), 20_000), "us")
    show("embedded: scan of 100 in LMDB", per_call(lambda n: store.scan(b"i" + numbers[n], b"j", 100), 500), "us")
    store.close()


def bench_filling(store: EmbeddedMetadataStore, files: int) -> None:
    """Create files as fast as they can be flushed, by a thread, as the server does."""
    longest = 0.0
    is_over = threading.Event()
    has_flushed = threading.Semaphore(4)

    def commit() -> None:
        while not is_over.is_set():
            store.flush()
            has_flushed.release()

    committer = threading.Thread(target=commit)
    committer.start()
    start = time.perf_counter()
    for base in range(0, files, 64):
        has_flushed.acquire()
        batch = [change for number in range(base, base + 64) for change in inode(number)]
        before = time.perf_counter()
        store.apply(batch)
        longest = max(longest, time.perf_counter() - before)
    is_over.set()
    committer.join()
    store.flush()
    show("embedded: sustained creates, batches of 64", files / (time.perf_counter() - start), "files/s")
    show("embedded: longest apply meanwhile", longest * 1e3, "ms")


async def bench_content(directory: Path) -> None:
    path = directory / "plain"
    data = os.urandom(MEBIBYTE)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    for number in range(64):
        os.pwrite(descriptor, data, number * MEBIBYTE)
    read = per_call(lambda n: os.pread(descriptor, MEBIBYTE, n % 64 * MEBIBYTE), 500)
    write = per_call(lambda n: os.pwrite(descriptor, data, n % 64 * MEBIBYTE), 300)
    small = per_call(lambda n: os.pread(descriptor, 4096, n % 64 * MEBIBYTE), 20_000)
    os.close(descriptor)
    path.unlink()
    show("plain: pread of 1 MiB", 1e6 / read, "MiB/s")
    show("plain: pwrite of 1 MiB", 1e6 / write, "MiB/s")
    show("plain: pread of 4 KiB", small, "us")
    await bench_content_store("directory", DirectoryContentStore(directory / "files"), data)
    await bench_content_store("memory", MemoryContentStore(), data)


async def bench_content_store(name: str, store: ContentStore, data: bytes) -> None:
    store.open()
    content = ContentId(ShareId(b"benchest"), FileId(1))
    for number in range(64):
        await store.write(content, number * MEBIBYTE, data)
    read = per_call(lambda n: at_once(store.read(content, n % 64 * MEBIBYTE, MEBIBYTE)), 500)
    write = per_call(lambda n: at_once(store.write(content, n % 64 * MEBIBYTE, data)), 300)
    small = per_call(lambda n: at_once(store.read(content, n % 64 * MEBIBYTE, 4096)), 20_000)
    show(f"{name}: read of 1 MiB", 1e6 / read, "MiB/s")
    show(f"{name}: write of 1 MiB", 1e6 / write, "MiB/s")
    show(f"{name}: read of 4 KiB", small, "us")
    store.close()


def at_once(work: Coroutine[Any, Any, object]) -> None:
    try:
        work.send(None)
    except StopIteration:
        return
    raise AssertionError("it should not have to wait")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, help="where to write; the default is a temporary directory")
    parser.add_argument("--records", type=int, default=1_000_000, help="how many files to fill the embedded store with")
    parser.add_argument("what", nargs="*", default=["metadata", "content"], help="metadata, content")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        if "metadata" in options.what:
            bench_metadata(Path(directory), options.records)
        if "content" in options.what:
            asyncio.run(bench_content(Path(directory)))


if __name__ == "__main__":
    main()
