"""The kernel's own lock service against ours: two machines, no `nolock` anywhere, everything over NLM."""

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel_client.harness import KernelClient
from tests.kernel_client.servers import EMBEDDED

pytestmark = [pytest.mark.kernel, pytest.mark.slow, pytest.mark.root, pytest.mark.timeout(600)]

CLIENTS = ("client1", "client2")


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the traffic is kept."""
    return tmp_path_factory.mktemp("capture") / "locks.pcap"


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory, capture: Path) -> Iterator[KernelClient]:
    """Two machines with the share on /mnt/a; on the first once more on /mnt/b, so that it cannot settle conflicts
    between the two mounts by itself."""
    with KernelClient(EMBEDDED, tmp_path_factory.mktemp("server"), clients=2) as booted:
        # From the first call on: else the ports are not known to carry NLM.
        booted.daemon("tcpdump", "tcpdump", "-i", "br0", "-U", "-s", "0", "-w", str(capture))
        for name in CLIENTS:
            booted.run("mkdir -p /mnt/a /mnt/b; mount -t nfs server:/export /mnt/a", client=name)
        booted.run("mount -t nfs -o vers=3,nosharecache server:/export /mnt/b")
        yield booted


def in_parallel(clients: KernelClient, scripts: dict[str, str]) -> dict[str, str]:
    """One script on each machine at the same time; what each printed."""
    printed: dict[str, str] = {}
    failed: list[BaseException] = []

    def run(name: str) -> None:
        try:
            printed[name] = clients.run(scripts[name], client=name, timeout=200)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(name,)) for name in scripts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in failed:
        raise error
    return printed


def test_no_mount_is_without_locks(clients: KernelClient) -> None:
    """[NFS-3]: a mount without options gets the lock service through our port mapper."""
    for name in CLIENTS:
        mounts = clients.run("grep ' /mnt/' /proc/mounts", client=name)
        assert "local_lock=none" in mounts
        assert "nolock" not in mounts


def test_posix_locks_of_two_mounts(clients: KernelClient) -> None:
    """[LOCK-3] [LOCK-4]: split, merge, up- and downgrade, to the end and beyond 4 GiB, waiting, interrupting."""
    out = clients.run("python3 $KC_GUEST/posixlocks.py /mnt/a/mounts --path-b /mnt/b/mounts")
    assert "posixlocks: 0 failed" in out
    assert "ok    downgrade is granted although a writer waits" in out


def test_posix_locks_of_two_machines(clients: KernelClient) -> None:
    """The same, and the callback reaches the other kernel."""
    serve = "timeout 150 python3 $KC_GUEST/posixlocks.py --serve 5555 /mnt/a/machines || true"
    drive = "python3 $KC_GUEST/posixlocks.py /mnt/a/machines --peer client2:5555"
    out = in_parallel(clients, {"client2": serve, "client1": drive})["client1"]
    assert "posixlocks: 0 failed" in out


def test_counting_under_a_lock_on_two_machines(clients: KernelClient) -> None:
    """[LOCK-2]: six processes, two counters, and not one increment lost; a hand-over takes no seconds."""
    count = "python3 $KC_GUEST/lockcount.py /mnt/a --procs 3 --loops 30 --counters 2 --clients 2"
    for out in in_parallel(clients, dict.fromkeys(CLIENTS, count)).values():
        assert "counter 180, expected 180, 0 failed workers" in out
        assert out.rstrip().endswith("OK")


def test_the_server_called_the_clients_back(clients: KernelClient, capture: Path) -> None:
    """[NLM-5]: the waits above ended by NLM_GRANTED on the wire, and no callback failed."""
    assert "callback failed" not in clients.log()
    clients.signal("tcpdump", "INT")
    wanted = "nlm.procedure_v4 == 5 and rpc.msgtyp == 0 and ip.src == 10.77.0.1"
    argv = ["tshark", "-r", str(capture), "-Y", wanted, "-T", "fields", "-e", "ip.dst"]
    shown = subprocess.run(argv, capture_output=True, text=True, timeout=100, check=True)
    assert {"10.77.0.11", "10.77.0.12"} <= set(shown.stdout.split())
