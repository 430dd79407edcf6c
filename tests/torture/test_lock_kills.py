"""The server is killed with SIGKILL at random moments while clients lock, wait and unlock, again and again.

Afterwards the history of what the clients saw is judged [KEEP-1] [GRACE-1..3] [NSM-2..4]: no two of them ever held
conflicting locks, no lock of a live client was lost that it asked for again in time, and every waiter was granted
within seconds of its last blocker's release.

DITTOFS_TEST_KILLS sets how often (100 by default), DITTOFS_SEED repeats the choices of an earlier run, but for the
scheduling of processes.
"""

import os
import random
import secrets
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.end_to_end.server_process import EMBEDDED, ONE_SHARE, ServerProcess
from tests.hosts.network import Network, skip_unless_root
from tests.torture.forked_server import ForkedServer
from tests.torture.lock_clients import FILES, Server
from tests.torture.lock_crowd import Crowd
from tests.torture.lock_history import History, violations

pytestmark = [pytest.mark.torture, pytest.mark.root, pytest.mark.timeout(0)]

KILLS = int(os.environ.get("DITTOFS_TEST_KILLS", "100"))
CLIENTS, PROCESSES = 3, 4
GRACE_SECONDS = 3.0
WAIT_SECONDS = 5.0
LONGEST_RUN_SECONDS = 1.0
LONG_RUN_SECONDS = WAIT_SECONDS + 1
LONG_RUN_EVERY = 20
"""Some runs are long enough for a waiter to be found waiting for too long."""
STARTS_KILLED = 0.2
KILLED_IN_GRACE = 0.3
"""The share of runs that may end before they have decided upon a lock.  In the others something happens first."""
FINISH_SECONDS = 120.0

# A callback is given up late: on a busy machine a slow answer is no failure.
CONFIG = (
    EMBEDDED
    + ONE_SHARE
    + f"[locks]\ngrace_seconds = {GRACE_SECONDS}\ncallback_attempt_seconds = 30\ncallback_give_up_seconds = 30\n"
)


@pytest.fixture
def chance() -> random.Random:
    seed = os.environ.get("DITTOFS_SEED") or secrets.token_hex(4)
    print(f"DITTOFS_SEED={seed}")
    return random.Random(seed)


def kill(server: ServerProcess, crowd: Crowd) -> None:
    assert server.is_running(), "the server ended by itself"
    crowd.killed()
    server.kill()


def torment(server: ServerProcess, crowd: Crowd, chance: random.Random) -> None:
    """Run, be killed, perhaps while starting again, and start."""
    kills = 0
    while kills < KILLS:
        crowd.disturb()
        if chance.random() > KILLED_IN_GRACE:
            crowd.wait_until_open(FINISH_SECONDS)
        is_long = kills % LONG_RUN_EVERY == LONG_RUN_EVERY - 1
        time.sleep(LONG_RUN_SECONDS if is_long else chance.uniform(0, LONGEST_RUN_SECONDS))  # the random moment
        kill(server, crowd)
        kills += 1
        while kills < KILLS and chance.random() < STARTS_KILLED:
            crowd.launched()
            server.launch()
            time.sleep(chance.uniform(0.5, 1.2) * server.start_seconds)  # the random moment
            kill(server, crowd)
            kills += 1
        crowd.launched()
        server.start()
        crowd.serving(server.port)


def test_locks_survive_any_number_of_kills(tmp_path: Path, chance: random.Random) -> None:
    skip_unless_root()
    history = History()
    with ExitStack() as stack:
        began = time.monotonic()
        server = stack.enter_context(ForkedServer(tmp_path, CONFIG))
        network = stack.enter_context(Network())
        with server.connect() as nfs:
            handles = [nfs.create(nfs.root, b"%d" % number).obj for number in range(FILES)]
        crowd = Crowd(network, Server(handles, history), chance, clients=CLIENTS, processes=PROCESSES)
        crowd.launched()
        history.runs[0].launched = began
        crowd.serving(server.port)
        stack.callback(crowd.abandon)
        crowd.begin(stack.enter_context)
        try:
            torment(server, crowd, chance)
            crowd.finish(FINISH_SECONDS)
        finally:
            counts = crowd.counts()
            print(f"{len(history.runs) - 1} kills in {time.monotonic() - began:.0f} s:", dict(counts))
    found = violations(history, grace_seconds=GRACE_SECONDS, wait_seconds=WAIT_SECONDS)
    assert not found, "\n".join(found)
    # A history in which little happened proves little.
    least = {"granted": 10, "granted after waiting": 2, "called back": 1, "reclaimed": 0.2, "restarts heard of": 0.5}
    for what, per_kill in least.items():
        assert counts[what] >= per_kill * KILLS, f"only {counts[what]} {what}"
    assert len(history.probes) >= KILLS
