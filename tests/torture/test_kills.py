"""[STORE-3] The server is killed with SIGKILL at random moments while clients write, again and again.

After each kill: the data is consistent as it lies there; everything that was acknowledged as stable is there; a call
that was not answered was executed as a whole or not at all, and is answered accordingly when it is sent again; content
that no file refers to is reclaimed in the end.

DITTOFS_TEST_KILLS sets how often (200 by default), DITTOFS_SEED repeats the choices of an earlier run.
"""

import os
import random
import secrets
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dittofs.files.records import RECLAIMS, TRUNCATIONS
from dittofs.loading import load
from dittofs.model.ids import FileId
from dittofs.offline import check_data
from dittofs.stores.making import make_metadata_store
from dittofs.stores.transactions import LocalTransactions
from tests.end_to_end.server_process import EMBEDDED, ONE_SHARE, ServerProcess
from tests.torture.crowd import Crowd
from tests.torture.model import walk

pytestmark = [pytest.mark.torture, pytest.mark.timeout(0)]

KILLS = int(os.environ.get("DITTOFS_TEST_KILLS", "200"))
WRITERS = 4
LONGEST_RUN_SECONDS = 0.3
STARTS_KILLED = 0.15
"""The share of kills that hit a server which is just starting, and perhaps repairs what the kill before left."""
RECLAIMED_SECONDS = 30.0

# As little memory as is allowed, so that the log is folded in the middle of everything.
CONFIG = EMBEDDED.replace('kind = "embedded"', 'kind = "embedded"\noverlay_bytes = 1048576') + ONE_SHARE


@pytest.fixture
def seed() -> str:
    chosen = os.environ.get("DITTOFS_SEED") or secrets.token_hex(4)
    print(f"DITTOFS_SEED={chosen}")
    return chosen


@dataclass(slots=True)
class Torture:
    server: ServerProcess
    random: random.Random
    crowd: Crowd = field(init=False)
    starts: list[float] = field(default_factory=list)
    kills: int = 0

    def __post_init__(self) -> None:
        self.crowd = Crowd(self.server.connect)

    def run_until_killed(self) -> None:
        self.crowd.work_until(self._kill_at_random)

    def _kill_at_random(self) -> None:
        time.sleep(self.random.uniform(0, LONGEST_RUN_SECONDS))  # the random moment
        assert self.server.is_running(), "the server ended by itself"
        self.kill()

    def kill(self) -> None:
        self.server.kill()
        self.kills += 1
        report = check_data(load(self.server.config_file, environment={}))
        assert not report.problems, f"after kill {self.kills}: {report.problems}"

    def start(self) -> None:
        while self.kills < KILLS and self.random.random() < STARTS_KILLED:
            self.server.launch()
            time.sleep(self.random.uniform(0.5, 1.2) * self.server.start_seconds)  # the random moment
            self.kill()
        self.server.start()
        self.starts.append(self.server.start_seconds)

    def finish(self) -> None:
        """Nothing is written any more: whatever no file refers to must go, and nothing be left to be done."""
        self.crowd.compare()
        self._wait_until_reclaimed()
        for _ in range(3):
            assert self.server.terminate() == 0
            checked = self.server.check()
            assert checked.returncode == 0, checked.stdout + checked.stderr
            left = pending(self.server)
            if not any(left.values()):
                return
            # The stop came between the removal of content and the note that it is done: the next run finds that out.
            self.server.start()
        raise AssertionError(f"three clean stops later there is still to be done: {left}")

    def _wait_until_reclaimed(self) -> None:
        files = {
            node.fileid
            for writer in self.crowd.writers
            for top in (writer.home, writer.shared)
            for *_, node in walk(top)
        }
        deadline = time.monotonic() + RECLAIMED_SECONDS
        while extra := {int(path.name, 16) for path in (self.server.data / "files").glob("*/*/*/*")} - files:
            assert time.monotonic() < deadline, f"content is kept of files that do not exist: {extra}"
            time.sleep(0.05)  # between two looks

    def report(self) -> str:
        slowest = max(self.starts, default=0)
        typical = sorted(self.starts)[len(self.starts) // 2] if self.starts else 0
        return f"{self.kills} kills; {self.crowd.report()}; start {typical:.2f} s, slowest {slowest:.2f} s"


def test_nothing_acknowledged_is_lost(tmp_path: Path, seed: str) -> None:
    with ServerProcess(tmp_path, CONFIG) as server:
        torture = Torture(server, random.Random(seed))
        torture.crowd.add_writers(WRITERS, torture.random)
        try:
            while torture.kills < KILLS:
                torture.run_until_killed()
                torture.start()
                torture.crowd.recover()
        except BaseException:
            torture.crowd.tell()
            raise
        finally:
            print(torture.report())
        torture.finish()


def pending(server: ServerProcess) -> dict[str, int]:
    """How much is left to be done, as it lies on the disk."""
    chosen = load(server.config_file, environment={}).stores["meta"]
    store = make_metadata_store("meta", chosen.kind, chosen.options, is_read_only=True)
    store.open()
    try:
        transactions = LocalTransactions(store)
        last = FileId(2**64 - 1)
        return {
            table.name: len(transactions.run(lambda view, table=table: view.scan(table, FileId(1), last, 1_000_000)))
            for table in (RECLAIMS, TRUNCATIONS)
        }
    finally:
        store.close()
