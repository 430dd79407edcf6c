"""An independent client under load: every reply is decoded to its last byte and compared with what must be there.

[NFS-1] [NFS-6]: `bench/load/nfsload` shares no code with us; any error that it counts is a failure here.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.server_process import EMBEDDED, MEMORY, ONE_SHARE, SHARE, ServerProcess
from tests.hosts.network import own_address, skip_unless_root

pytestmark = pytest.mark.slow

SOURCE = Path(__file__).resolve().parents[2] / "bench" / "load" / "nfsload.c"

WORKLOADS = (
    *("null", "getattr", "access", "lookup", "create", "createremove", "remove", "mkdir", "rename"),
    *("readdirplus", "seqwrite", "seqread", "randread4k", "randwrite4k"),
)
SHAPES = ((1, 1), (1, 32), (8, 16))
SMALL = ("--ops", "300", "--names", "100", "--entries", "300", "--files", "300", "--filesize", "1M")


@pytest.fixture(scope="module")
def nfsload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = os.environ.get("CC", "gcc")
    if not shutil.which(compiler):
        pytest.skip(f"no C compiler: {compiler} is not installed (tests/install-packages installs gcc)")
    built = tmp_path_factory.mktemp("nfsload") / "nfsload"
    subprocess.run([compiler, "-O1", "-o", built, SOURCE], check=True)
    return built


@pytest.fixture(scope="module", params=[EMBEDDED, MEMORY], ids=["embedded", "memory"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server"), request.param + ONE_SHARE) as running:
        yield running


@pytest.mark.parametrize(("connections", "depth"), SHAPES, ids=str)
def test_every_workload_without_an_error(server: ServerProcess, nfsload: Path, connections: int, depth: int) -> None:
    port = str(server.port)
    argv = [
        *(str(nfsload), "--port", port, "--mport", port, "--export", SHARE, "--json", "--verify"),
        *("--conns", str(connections), "--depth", str(depth), "--timeout", "30", *SMALL),
        *("--op", ",".join(WORKLOADS)),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [result["workload"] for result in results] == list(WORKLOADS)
    assert [result["errors"] for result in results] == [0] * len(WORKLOADS)
    assert all(result["ops"] > 0 for result in results)
    with server.connect() as client:
        left = [entry.name for entry in client.list_directory(client.root)]
    assert left == [b".", b".."], "it removes what it made"


@pytest.mark.root
def test_locks_without_an_error(server: ServerProcess, nfsload: Path) -> None:
    """[NLM-3] [NLM-5] [LOCK-7]: pairs, tests, many on one file; hand-overs in the order of asking, never to two, also
    when the UNLOCK overtakes the answer to the callback (`--eager`)."""
    skip_unless_root()
    port = str(server.port)
    argv = [
        *(str(nfsload), "--port", port, "--mport", port, "--lport", port, "--export", SHARE, "--json"),
        *("--bind", own_address(), "--timeout", "30", "--locks", "900"),
    ]
    runs = (
        ("--depth", "32", "--ops", "600", "--op", "lock,locktest,lockheld"),
        ("--ops", "300", "--op", "contend"),
        ("--ops", "300", "--op", "contend", "--eager"),
    )
    for run in runs:
        done = subprocess.run([*argv, *run], capture_output=True, text=True, timeout=100, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        assert results
        assert all(result["errors"] == 0 and result["ops"] > 0 for result in results), results
