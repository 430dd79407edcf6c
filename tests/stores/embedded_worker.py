"""Run by the tests as a process of its own, and killed: writes batches to an embedded store as fast as it can.

    python embedded_worker.py DIRECTORY FIRST

Batch N puts a key of its own, removes that of batch N - WINDOW, and counts.  Once N is durable it says so in one line.
"""

import random
import sys
import threading
from pathlib import Path

from dittofs.stores.metadata.embedded import EmbeddedMetadataStore

WINDOW = 400


def value_of(number: int) -> bytes:
    return random.Random(number).randbytes(50 + number % 300)


def key_of(number: int) -> bytes:
    return b"entry %08d" % (number * 7919 % 100_000_000)  # not in the order they come


def store_at(path: Path) -> EmbeddedMetadataStore:
    """One that folds all the time."""
    return EmbeddedMetadataStore(
        path,
        overlay_bytes=256 << 10,
        log_bytes=512 << 10,
        segment_bytes=64 << 10,
        map_bytes=1 << 20,
        reserve_bytes=64 << 10,
    )


def main(path: Path, first: int) -> None:
    store = store_at(path)
    store.open()
    applied = first - 1
    is_new = threading.Event()

    def commit() -> None:
        while True:
            is_new.wait()
            is_new.clear()
            durable = applied
            store.flush()
            print(durable, flush=True)

    threading.Thread(target=commit, daemon=True).start()
    while True:
        number = applied + 1
        store.apply([(key_of(number), value_of(number)), (key_of(number - WINDOW), None), (b"count", b"%d" % number)])
        applied = number
        is_new.set()
        if number % 20 == 0:
            threading.Event().wait(0.0005)  # lets the committer have the interpreter


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
