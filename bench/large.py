"""What a large share costs: how long a server takes to start, how much memory it takes, how long a CREATE waits.

    python bench/large.py [--files N] [--directory DIR]

The files are made by the rules themselves (`files.namespace`) over the embedded store, without a network; then real
servers are started on them: after a clean stop, and after a kill that left as much in the log as it ever holds.
"""

import argparse
import asyncio
import os
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dittofs.client.nfs3 import attributes
from dittofs.config import ShareSettings
from dittofs.files import namespace
from dittofs.files.attributes import SetAttributes
from dittofs.files.inodes import load
from dittofs.files.namespace import CreateMode
from dittofs.files.tree import Tree
from dittofs.files.volume import Volume
from dittofs.model.identity import Identity
from dittofs.model.ids import FileId
from dittofs.shares.registry import new_share, open_share
from dittofs.stores.content.memory import MemoryContentStore
from dittofs.stores.metadata.embedded import EmbeddedMetadataStore
from dittofs.stores.tables import View
from dittofs.stores.transactions import LocalTransactions
from tests.end_to_end.server_process import EMBEDDED, ONE_SHARE, ServerProcess

MEBIBYTE = 1 << 20
FILES_PER_DIRECTORY = 1_000
AT_ONCE = 64
ROOT = Identity(0, 0)


def show(name: str, value: float, unit: str) -> None:
    print(f"{name:<70} {value:>12,.2f} {unit}", flush=True)


def resident_mebibytes(process: int) -> float:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("RssAnon"))) / 1024


def make_directory(view: View, tree: Tree, name: bytes) -> FileId:
    made = namespace.make_directory(view, tree, ROOT, load(view, tree.root), name, SetAttributes(mode=0o755))
    return made.file.id


def make_files(view: View, tree: Tree, directory: FileId, numbers: range) -> None:
    for number in numbers:
        where = load(view, directory)
        namespace.create(view, tree, ROOT, where, b"%012d" % number, SetAttributes(mode=0o644), CreateMode.GUARDED)


async def fill(transactions: LocalTransactions, files: int, *, mark: bytes = b"d") -> None:
    """Directories of a thousand files below the root of /export."""
    share = ShareSettings(name="/export", squash="none")
    record = await transactions.perform(open_share, share, new_share())
    tree = Volume(record, transactions=transactions, content=MemoryContentStore(), is_relaxed=True).tree
    for base in range(0, files, FILES_PER_DIRECTORY):
        directory = await transactions.perform(make_directory, tree, b"%s%d" % (mark, base), is_relaxed=True)
        for first in range(base, min(base + FILES_PER_DIRECTORY, files), AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, base + FILES_PER_DIRECTORY, files))
            transactions.run(make_files, tree, directory, numbers, is_relaxed=True)
            await asyncio.sleep(0)
        # Durably, so that nothing piles up; one directory at a time is often enough.
        await transactions.perform(load, directory)


async def build(path: Path, files: int) -> None:
    transactions = LocalTransactions(EmbeddedMetadataStore(path))
    transactions.open()
    transactions.start(asyncio.get_running_loop())
    transactions.on_effect = lambda effect, hold: None
    began = time.perf_counter()
    await fill(transactions, files)
    await transactions.close()
    show(f"building {files:,} files", files / (time.perf_counter() - began), "files/s")
    show("  size on disk", disk_mebibytes(path), "MiB")


def disk_mebibytes(path: Path) -> float:
    return sum(file.stat().st_blocks * 512 for file in path.rglob("*")) / MEBIBYTE


def raw_flushes(directory: Path, seconds: float) -> float:
    """4 KiB overwritten and flushed in a preallocated file, per second."""
    path = directory / "raw"
    block = os.urandom(4096)
    with path.open("w+b", buffering=0) as file:
        file.write(bytes(8 * MEBIBYTE))
        os.fsync(file.fileno())
        count = 0
        start = time.perf_counter()
        while time.perf_counter() - start < seconds:
            os.pwrite(file.fileno(), block, count % 2048 * 4096)
            os.fdatasync(file.fileno())
            count += 1
        elapsed = time.perf_counter() - start
    path.unlink()
    return count / elapsed


def creates(server: ServerProcess, mark: bytes, seconds: float) -> float:
    """Durable CREATEs of one client with one call at a time, per second."""
    with server.connect() as client:
        directory = client.mkdir(client.root, mark).obj
        count = 0
        start = time.perf_counter()
        while time.perf_counter() - start < seconds:
            client.create(directory, b"%d" % count, attributes(mode=0o644))
            count += 1
        return count / (time.perf_counter() - start)


def compare_creates(server: ServerProcess, directory: Path) -> None:
    """In turns, because a disk has moods."""
    raw, ours = [], []
    for turn in range(5):
        raw.append(raw_flushes(directory, 1.0))
        ours.append(creates(server, b"turn%d" % turn, 1.0))
    show("raw: 4 KiB overwrite + fdatasync", statistics.median(raw), "/s")
    show("durable CREATE, one client, one call at a time (client in Python)", statistics.median(ours), "/s")
    ratio = statistics.median(a / b for a, b in zip(ours, raw, strict=True))
    show("  ratio", ratio * 100, "%")


def start(server: ServerProcess, what: str) -> None:
    server.start()
    show(f"start {what}", server.start_seconds, "s")
    own = re.findall(r" serving .*seconds=([\d.]+)", server.log())[-1]
    show("  of which the server's own: stores, recovery, sockets", float(own), "s")
    show("  RssAnon", resident_mebibytes(server.pid), "MiB")


def look_at_everything(server: ServerProcess, files: int) -> None:
    with server.connect() as client:
        for entry in list(client.list_directory(client.root)):
            if entry.name.startswith(b"d"):
                sum(1 for _ in client.list_directory(entry.name_handle))
    show(f"RssAnon after listing {files:,} files with their attributes", resident_mebibytes(server.pid), "MiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--directory", type=Path, help="where to write; the default is a temporary directory")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as temporary:
        directory = Path(temporary)
        with ServerProcess(directory / "server", EMBEDDED + ONE_SHARE) as server:
            show("start of an empty server", server.start_seconds, "s")
            show("  RssAnon", resident_mebibytes(server.pid), "MiB")
            compare_creates(server, directory)
            assert server.terminate() == 0
            asyncio.run(build(server.data / "meta", options.files))
            start(server, f"with {options.files:,} files, after a clean stop")
            look_at_everything(server, options.files)
            server.kill()
            # As much as the log ever holds: a server writes it over once it was folded.
            asyncio.run(leave_log(server.data / "meta"))
            start(server, "after a kill, with a log that is full")


async def leave_log(path: Path) -> None:
    """What a server leaves that is killed just before it folds."""
    process = await asyncio.create_subprocess_exec(sys.executable, __file__, "leave-log", str(path))
    await process.wait()


async def fill_log(path: Path) -> None:
    store = EmbeddedMetadataStore(path)
    transactions = LocalTransactions(store)
    transactions.open()
    transactions.start(asyncio.get_running_loop())
    await fill(transactions, 30_000, mark=b"log")
    store.flush()
    os._exit(0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["leave-log"]:
        asyncio.run(fill_log(Path(sys.argv[2])))
    main()
