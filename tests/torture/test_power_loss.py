"""[STORE-3] The server runs in a virtual machine, with its data on the machine's disk, and the plug is pulled.

Unlike a killed process, a machine without power also loses what its kernel had not written to the disk yet: whatever a
flush was forgotten for is gone.  A file that nobody flushes is written beside the data of the server to show just that.
After each loss the file system replays its journal, `dittofs check` finds the data consistent, and the writers, which
are outside, find everything that was acknowledged to them.

DITTOFS_TEST_POWER_LOSSES sets how often (4 by default), DITTOFS_SEED repeats the choices of an earlier run.
"""

import ctypes
import os
import random
import secrets
import shlex
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from dittofs.client.mount import mount
from dittofs.client.transports import TcpTransport
from tests.end_to_end.server_process import EMBEDDED, ONE_SHARE, ROOT, SHARE, SOURCE, MountedClient
from tests.kernel_client.harness import PORT, KernelClient
from tests.torture.crowd import Crowd

pytestmark = [pytest.mark.kernel, pytest.mark.slow, pytest.mark.root, pytest.mark.timeout(900)]

LOSSES = int(os.environ.get("DITTOFS_TEST_POWER_LOSSES", "4"))
WRITERS = 3
LONGEST_RUN_SECONDS = 2.0
DISK_BYTES = 128 << 20
MACHINE = "10.77.0.11"
CLONE_NEWNET = 0x40000000

# Small segments: a loss often comes when a new one is being made, and the disk of the machine is small.
CONFIG = f"""
[server]
listen = ["0.0.0.0"]
port = {PORT}
portmap = "off"
data = "/mnt/disk/data"
{EMBEDDED.replace('kind = "embedded"', 'kind = "embedded"' + chr(10) + "overlay_bytes = 1048576")}{ONE_SHARE}"""

# Nothing is written back by the machine's kernel on its own account: what is on the disk was flushed by somebody.
# Below /host the machine finds a checkout wherever it is, in /tmp too, of which it has one of its own.
START = f"""
mkdir -p /mnt/disk
echo 0 > /proc/sys/vm/dirty_writeback_centisecs
mount -t ext4 -o commit=300 /dev/ubda /mnt/disk
cat > /run/dittofs.toml <<'END'
{CONFIG}
END
export PYTHONPATH={shlex.quote(f"/host{SOURCE}")} PYTHONDONTWRITEBYTECODE=1
dittofs="{shlex.quote(f"/host{sys.executable}")} -m dittofs"
if [ -e /mnt/disk/unflushed ]; then
    echo "unflushed: $(cat /mnt/disk/unflushed)"
    timeout 100 $dittofs check --config /run/dittofs.toml
fi
printf old | dd of=/mnt/disk/unflushed conv=fsync status=none
printf new | dd of=/mnt/disk/unflushed conv=notrunc status=none
(setsid $dittofs serve --config /run/dittofs.toml > /run/server.log 2>&1 &)
timeout 100 sh -c 'until grep -q "^Serving" /run/server.log; do sleep 0.1; done' || {{ cat /run/server.log; exit 1; }}
"""


@dataclass(slots=True)
class Machine:
    """The virtual machine with the server in it."""

    guest: KernelClient

    def connect(self) -> MountedClient:
        """A connection through the machine's network, which only this one thread enters."""
        with ThreadPoolExecutor(1) as outside:
            return outside.submit(self._connect).result()

    def _connect(self) -> MountedClient:
        libc = ctypes.CDLL(None, use_errno=True)
        with self.guest.network_namespace.open() as namespace:
            if libc.setns(namespace.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "cannot enter the machine's network")
        transport = TcpTransport(MACHINE, PORT, credential=ROOT, timeout_seconds=60)
        return MountedClient(transport, mount(transport, SHARE).fhandle)

    def start(self) -> str:
        return self.guest.run(START, timeout=240)


def new_disk(path: Path) -> Path:
    with path.open("wb") as file:
        file.truncate(DISK_BYTES)
    subprocess.run(["mkfs.ext4", "-q", "-F", path], check=True)
    return path


def test_what_was_acknowledged_survives_a_loss_of_power(tmp_path: Path) -> None:
    seed = os.environ.get("DITTOFS_SEED") or secrets.token_hex(4)
    print(f"DITTOFS_SEED={seed}")
    chance = random.Random(seed)
    disk = new_disk(tmp_path / "disk.img")
    with KernelClient("", tmp_path, command="exec sleep infinity", ports=(), options=("--disk", str(disk))) as guest:
        machine = Machine(guest)
        machine.start()
        crowd = Crowd(machine.connect)
        crowd.add_writers(WRITERS, chance)

        def pull_the_plug() -> None:
            time.sleep(chance.uniform(0, LONGEST_RUN_SECONDS))  # the random moment
            guest.pull_the_plug("client1")

        try:
            for _ in range(LOSSES):
                crowd.work_until(pull_the_plug)
                guest.boot("client1")
                found = machine.start()
                assert "unflushed: old\n" in found, "the machine must lose what was not flushed, or nothing is shown"
                assert "no problems" in found
                crowd.recover()
        except BaseException:
            crowd.tell()
            raise
        finally:
            print(f"{LOSSES} losses; {crowd.report()}")
