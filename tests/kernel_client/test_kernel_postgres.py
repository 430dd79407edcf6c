"""The kernel's own client on a share whose metadata is in PostgreSQL: files and locks, as on the embedded store."""

from collections.abc import Iterator

import pytest

from tests.kernel_client.harness import KernelClient, skip_unless_possible
from tests.kernel_client.servers import over_postgres
from tests.postgres.instance import PostgresInstance

pytestmark = [pytest.mark.kernel, pytest.mark.slow, pytest.mark.root, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def client(postgres: PostgresInstance, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KernelClient]:
    """As in the other tests of the kernel's client; the database is reached over a socket in the file system, because
    the server is in a network of its own."""
    skip_unless_possible()
    database = postgres.new_database().rsplit("/", 1)[1]
    config = over_postgres(postgres.local_dsn(database))
    with KernelClient(config, tmp_path_factory.mktemp("server")) as booted:
        booted.run("mkdir -p /mnt/a /mnt/b; mount -t nfs server:/export /mnt/a")
        booted.run("mount -t nfs -o vers=3,nosharecache,noac server:/export /mnt/b")
        yield booted


def test_fileops(client: KernelClient) -> None:
    """[NFS-1]: create, rename, link, attributes, owners, special files, mmap, a large directory, and the rest."""
    out = client.run(
        "mkdir /mnt/a/ops; python3 $KC_GUEST/fileops.py /mnt/a/ops --other /mnt/b/ops --entries 500", timeout=600
    )
    assert "FAIL" not in out
    assert out.count("ok  ") > 50


def test_fsx(client: KernelClient) -> None:
    """[NFS-1]: random writes, truncates and mappings read back as a model says, here and from another mount."""
    out = client.run("python3 $KC_GUEST/fsx.py /mnt/a/fsx --other /mnt/b/fsx --operations 300 --seed 1")
    assert "fsx: all good" in out


def test_locks_between_two_mounts(client: KernelClient) -> None:
    """[NLM-1]: everything that POSIX says of locks, blocking ones included."""
    out = client.run("python3 $KC_GUEST/posixlocks.py /mnt/a/locks --path-b /mnt/b/locks")
    assert "posixlocks: 0 failed" in out


def test_a_restarted_server_finds_files_and_locks_again(client: KernelClient) -> None:
    """[KEEP-2]: what was written before is read after, and the kernel reclaims its lock."""
    client.run("echo before > /mnt/a/kept; sync")
    client.server("kill")
    client.server("start")
    assert client.run("cat /mnt/b/kept; echo after >> /mnt/a/kept; cat /mnt/b/kept") == "before\nbefore\nafter\n"
