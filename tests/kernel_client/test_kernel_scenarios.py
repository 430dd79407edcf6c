"""Lock scenarios on two kernel clients: crashes, restarts, deaths; without a host's statd or rpcbind [NSM-2..4].

All of them run on the same two guests, one after the other; each is then judged by its own test.
"""

import datetime as dt
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernel_client.harness import HERE, PORT, KernelClient, skip_unless_possible
from tests.kernel_client.servers import EMBEDDED

pytestmark = [pytest.mark.kernel, pytest.mark.slow, pytest.mark.root, pytest.mark.timeout(600)]

GRACE_SECONDS = 60
RUN_SECONDS = 500
NAMES = ("partial", "granted", "process", "unmount", "crash", "crashwait", "restart", "stopstart")


class Run:
    """What one run of `scenarios` said, and the network traffic it kept."""

    def __init__(self, directory: Path):
        server = KernelClient(EMBEDDED + f"[locks]\ngrace_seconds = {GRACE_SECONDS}\n", directory)
        self.pcap = directory / "scenarios.pcap"
        self.server_log = directory / "server.log"
        name = f"scenarios-{os.getpid()}"
        command = f"{server.server_command()} 2>>{self.server_log}"
        done = subprocess.run(
            [
                *(sys.executable, str(HERE / "scenarios"), "--name", name, "--server", command),
                *("--wait-port", str(PORT), "--wait-port", "111", "--pcap", str(self.pcap), *NAMES),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=RUN_SECONDS,
            check=False,
        )
        self.said = done.stdout

    def part(self, name: str) -> str:
        found = re.search(rf"^== {name} \(.*?^== {name}: .*?$", self.said, re.MULTILINE | re.DOTALL)
        return found[0] if found else self.said

    def reclaims(self) -> list[float]:
        """When each LOCK with `reclaim` was seen on the wire."""
        fields = ["-T", "fields", "-e", "frame.time_epoch"]
        shown = subprocess.run(
            ["tshark", "-r", str(self.pcap), "-Y", "nlm.reclaim == 1 and rpc.msgtyp == 0", *fields],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return [float(line) for line in shown.stdout.split()]

    def ends_of_grace(self) -> list[float]:
        times = re.findall(r"^(\S+) .*grace is over.*dropped=0", self.server_log.read_text(), re.MULTILINE)
        return [dt.datetime.fromisoformat(text).timestamp() for text in times]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    skip_unless_possible()
    return Run(tmp_path_factory.mktemp("scenarios"))


@pytest.mark.parametrize("name", NAMES)
def test_scenario(run: Run, name: str) -> None:
    """`scenarios` says what each of them is."""
    part = run.part(name)
    assert f"== {name}: OK" in part, part


def test_grace_ends_with_the_last_reclaim(run: Run) -> None:
    """[GRACE-3]: within 2 s, not when its time is over."""
    reclaims, ends = run.reclaims(), run.ends_of_grace()
    assert len(reclaims) == len(ends) == 2, (reclaims, ends)
    for reclaimed, ended in zip(reclaims, ends, strict=True):
        assert ended - reclaimed < 2, "GRACE_SECONDS would be far more"
