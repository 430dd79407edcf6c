"""The kernel's own NFSv3 client on a share of ours: what a user does all day, and what fsx does all night."""

import re
from collections.abc import Iterator

import pytest

from tests.kernel_client.harness import KernelClient
from tests.kernel_client.servers import EMBEDDED, MEMORY

pytestmark = [pytest.mark.kernel, pytest.mark.slow, pytest.mark.root, pytest.mark.timeout(900)]


@pytest.fixture(scope="module", params=[EMBEDDED, MEMORY], ids=["embedded", "memory"])
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KernelClient]:
    """A client with the share on /mnt/a, and once more on /mnt/b without any caching, to see what the server has."""
    with KernelClient(request.param, tmp_path_factory.mktemp("server")) as booted:
        booted.run("mkdir -p /mnt/a /mnt/b; mount -t nfs server:/export /mnt/a")
        booted.run("mount -t nfs -o vers=3,nosharecache,noac server:/export /mnt/b")
        yield booted


def test_mount_without_options_finds_its_way_through_our_port_mapper(client: KernelClient) -> None:
    """[NFS-2] [NFS-3]: the client tries NFSv4 first, is refused, asks port 111 and settles for version 3."""
    (line,) = [line for line in client.run("cat /proc/mounts").splitlines() if " /mnt/a " in line]
    assert line.startswith("server:/export /mnt/a nfs ")
    assert {"vers=3", "port=12049", "mountport=12049", "namlen=255"} <= set(line.split()[3].split(","))


@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_mount_protocol_over_either_transport(client: KernelClient, protocol: str) -> None:
    """[NFS-2] [NFS-3]: MOUNT, and the port mapper before it, over TCP and UDP."""
    client.run(f"mkdir -p /mnt/c; mount -t nfs -o vers=3,nosharecache,mountproto={protocol} server:/export /mnt/c")
    assert f"mountproto={protocol}" in client.run("grep /mnt/c /proc/mounts; umount /mnt/c")


def test_fileops(client: KernelClient) -> None:
    """[NFS-1]: create, rename, link, attributes, owners, special files, mmap, 5,000 entries, and the rest."""
    out = client.run(
        "mkdir /mnt/a/ops; python3 $KC_GUEST/fileops.py /mnt/a/ops --other /mnt/b/ops --entries 5000", timeout=600
    )
    assert "FAIL" not in out
    assert out.count("ok  ") > 50


@pytest.mark.parametrize("seed", [1, 2])
def test_fsx(client: KernelClient, seed: int) -> None:
    """[NFS-1]: random writes, truncates and mappings read back as a model says, here and from another mount."""
    out = client.run(f"python3 $KC_GUEST/fsx.py /mnt/a/fsx --other /mnt/b/fsx --operations 1000 --seed {seed}")
    assert "fsx: all good" in out


def test_df_and_ls(client: KernelClient) -> None:
    """[NFS-1]: FSSTAT and attributes as the usual tools print them."""
    out = client.run(
        """
        mkdir /mnt/a/plain; cd /mnt/a/plain
        df -P --block-size=1 . | tail -1
        df -P -i . | tail -1
        echo hello > file; chmod 640 file; chown 1000:1000 file
        touch -d '2001-02-03 04:05:06.123456789 UTC' file; ln -s file link
        TZ=UTC ls -ln --time-style=full-iso
        """
    )
    space, files, _total, listed, link = out.splitlines()
    total, used, available = (int(word) for word in space.split()[1:4])
    assert 0 < available <= total
    assert used <= total
    inodes, _, free = (int(word) for word in files.split()[1:4])
    assert 0 < free <= inodes
    assert re.fullmatch(r"-rw-r----- 1 1000 1000 +6 2001-02-03 04:05:06\.123456789 \+0000 file", listed)
    assert link.startswith("lrwxrwxrwx 1 ")
    assert link.endswith(" link -> file")


@pytest.mark.parametrize(
    "script",
    [
        # [NFS-1]: modes, owners, times, links, holes, fifos and odd names survive `cp -a` and `tar`.
        "sh $KC_GUEST/copying.sh",
        # [NFS-4]: git writes to files of mode 0444.
        "sh $KC_GUEST/git-clone.sh",
        # [NFS-1]: cookies stay valid while entries come and go.
        "python3 $KC_GUEST/changing_directory.py",
        # The client renames what it removes while it is open, and removes that at the last close.
        "python3 $KC_GUEST/open_files.py",
    ],
    ids=["copying", "git-clone", "changing-directory", "open-files"],
)
def test_script(client: KernelClient, script: str) -> None:
    out = client.run(f"rm -rf /mnt/a/work; mkdir /mnt/a/work; {script} /mnt/a/work /mnt/b/work", timeout=600)
    assert out.endswith(": all good\n")


# Appends a line every few milliseconds, each followed by fsync, until told to stop; then the file must be whole.
WRITER = """
python3 - <<'END' &
import os
with open("/mnt/a/lines", "w") as file:
    for number in range(100000):
        file.write(f"{number}\\n"); file.flush(); os.fsync(file.fileno())
        if number == 20: open("/tmp/running", "w").close()
        if os.path.exists("/tmp/stop"): break
END
"""


def test_a_kill_is_only_a_pause_or_makes_every_handle_stale(client: KernelClient) -> None:
    """[NFS-7] [STORE-3]: with a store that keeps, open files go on over SIGKILL and acknowledged writes are there; with
    one in memory an old handle never leads to another file.  The last of this module: the server is not the same
    afterwards."""
    client.run("mkdir /mnt/a/d; echo before > /mnt/a/d/f; sync")
    if client.config == MEMORY:
        client.server("kill")
        client.server("start")
        out = client.run(
            "cat /mnt/a/d/f 2>&1 || true; umount -l /mnt/a; mount -t nfs server:/export /mnt/a; ls -A /mnt/a"
        )
        assert out.endswith("Stale file handle\n"), "the new share must be empty"
        return
    client.run(f"(cd /tmp; {WRITER}) >/tmp/writer.log 2>&1; timeout 60 sh -c 'until [ -e /tmp/running ]; do :; done'")
    client.server("kill")
    client.server("start")
    out = client.run(
        """
        cd /mnt/a/d; cat f; echo after >> f; cat f
        touch /tmp/stop; while pgrep -f /mnt/a/lines >/dev/null; do :; done
        cat /tmp/writer.log; wc -l < /mnt/a/lines; seq 0 $(tail -1 /mnt/a/lines) | cmp - /mnt/a/lines && echo whole
        """
    )
    assert out.startswith("before\nbefore\nafter\n")
    assert out.endswith("whole\n")
