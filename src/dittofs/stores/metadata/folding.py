"""Folding: what the log holds goes into the records, in one big transaction from time to time.

A process of its own does it.  In a thread it would fight the event loop for the interpreter: measured, a fold of
45,000 records took 0.4 s alone and 200 s beside a busy loop.  The process reads the log as a restarted server would, so
there is one way from the log to the records, and it is taken all the time.

It ends when its standard input does.  If the server is killed, one last fold may run on beside the next server: both
write through LMDB's lock, and a fold that comes late finds that it has nothing left to do.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import structlog

from dittofs.stores.api import StoreError, StoreFull
from dittofs.stores.metadata.log import read_log
from dittofs.stores.metadata.records import RecordFile

log = structlog.get_logger()

ATTEMPTS = 3
"""So often is a folding process started anew when it died without a word."""


def fold_log(records: RecordFile, directory: Path, store: bytes, through: int | None = None) -> None:
    """Bring the records up to batch `through` of the log, or to its end.  Doing it twice does no harm."""
    changes: dict[bytes, bytes | None] = {}
    folded = records.folded
    last = folded
    for frame in read_log(directory, store, after=folded, through=through):
        for number, batch in enumerate(frame.batches, start=frame.first):
            if number > folded and (through is None or number <= through):
                changes.update(batch)
                last = number
    if last > folded:
        records.fold(changes, last)


class Folder:
    """Has the log folded by another process, one fold at a time, and waits for it in a thread."""

    def __init__(
        self,
        *,
        records: Path,
        log_directory: Path,
        store: bytes,
        map_bytes: int,
        on_folded: Callable[[int], None],
    ):
        self.map_bytes = map_bytes
        """How large the records' map is by now."""
        self.error: StoreError | None = None
        """Why the last fold failed, if it did."""
        self._arguments = [str(records), str(log_directory), store.hex()]
        self._on_folded = on_folded
        self._changed = threading.Condition()
        self._wanted: int | None = None
        self._is_stopping = False
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None

    @property
    def is_running(self) -> bool:
        return self._wanted is not None

    def request(self, through: int) -> None:
        """Fold up to a durable batch.  A fold must not be under way."""
        with self._changed:
            assert self._wanted is None, "a fold is under way"
            self._wanted = through
            self.error = None
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="dittofs-folding", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def wait(self) -> None:
        """Until no fold is under way."""
        with self._changed:
            self._changed.wait_for(lambda: self._wanted is None)

    def stop(self) -> None:
        """After the fold that is under way."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._end_process()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._wanted is not None or self._is_stopping)
                wanted = self._wanted
                if wanted is None:
                    return
            error: StoreError | None = None
            try:
                self.map_bytes = self._fold(wanted)
                self._on_folded(wanted)
            except StoreError as failure:
                error = failure
            except Exception as failure:  # the top of a background task: whoever waits for the fold must hear of it
                error = StoreError(f"folding failed: {failure}")
                error.__cause__ = failure
            with self._changed:
                self.error = error
                self._wanted = None
                self._changed.notify_all()
            if error is not None:
                log.warning("cannot fold the log of a metadata store; trying again", reason=str(error))

    def _fold(self, through: int) -> int:
        for _ in range(ATTEMPTS):
            try:
                words = self._ask(through)
            except OSError as error:
                raise StoreError(f"cannot start the folding process: {error.strerror}") from error
            if words:
                break
            self._end_process()
        else:
            raise StoreError(f"the folding process died {ATTEMPTS} times without saying why")
        match words[0]:
            case "folded":
                return int(words[1])
            case "full":
                raise StoreFull(words[1])
            case _:
                raise StoreError(words[1])

    def _ask(self, through: int) -> list[str]:
        """What the process answers; nothing if it died."""
        if self._process is None:
            self._process = self._start_process()
        process = self._process
        assert process.stdin is not None, "it is a pipe"
        assert process.stdout is not None, "it is a pipe"
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(b"%d\n" % through)
            process.stdin.flush()
            line = process.stdout.readline().decode()
            if line.endswith("\n"):
                return line.rstrip("\n").split(" ", 1)
        return []

    def _start_process(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", __name__, *self._arguments, str(self.map_bytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # an interrupt from the terminal is for the server, which then stops us
        )

    def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None, "it is a pipe"
        assert process.stdout is not None, "it is a pipe"
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        process.wait()
        process.stdout.close()


def main(arguments: list[str]) -> None:
    """The folding process: a line with a batch number in, a line with the outcome out."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    records_path, log_path, store, map_bytes = arguments
    records: RecordFile | None = None
    for line in sys.stdin.buffer:
        try:
            if records is None:
                records = RecordFile(Path(records_path), map_bytes=int(map_bytes))
            records.refresh()
            fold_log(records, Path(log_path), bytes.fromhex(store), int(line))
            answer = f"folded {records.map_bytes}"
        except StoreError as error:
            answer = f"{'full' if isinstance(error, StoreFull) else 'failed'} {error}"
            if records is not None:
                # What LMDB could not write is not to be relied on: the next attempt reads and writes everything anew.
                records.close()
                records = None
        try:
            os.write(sys.stdout.fileno(), (answer.replace("\n", " ") + "\n").encode())
        except BrokenPipeError:
            return  # the server is gone


if __name__ == "__main__":
    main(sys.argv[1:])
