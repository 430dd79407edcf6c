"""A disk that is full: clients hear NFS3ERR_NOSPC, nothing is lost or spoiled, and it can be emptied again."""

import functools
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dittofs.client.nfs3 import Nfs3Error
from dittofs.protocols.nfs3.types import nfsstat3, stable_how
from tests.end_to_end.server_process import EMBEDDED, ONE_SHARE, MountedClient, ServerProcess
from tests.end_to_end.small_disk import small_disk

pytestmark = [pytest.mark.slow, pytest.mark.root]

MEBIBYTE = 1 << 20
DISK_MEBIBYTES = 64
WAIT_SECONDS = 60.0
# The least that is allowed, so that the records meet the full disk soon, too.
CONFIG = EMBEDDED.replace('kind = "embedded"', 'kind = "embedded"\noverlay_bytes = 1048576') + ONE_SHARE


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with (
        small_disk(tmp_path / "server" / "data", DISK_MEBIBYTES),
        ServerProcess(tmp_path / "server", CONFIG) as running,
    ):
        yield running


def fits(attempt: Callable[[], object]) -> bool:
    """False if it was refused for want of room; any other refusal is a failure."""
    try:
        attempt()
    except Nfs3Error as refused:
        if refused.status is not nfsstat3.NFS3ERR_NOSPC:
            raise
        return False
    return True


def count_until_full(attempt: Callable[[int], object], most: int) -> int:
    """How many attempts succeed before one is refused for want of room."""
    for number in range(most):
        if not fits(functools.partial(attempt, number)):
            return number
    raise AssertionError(f"{most} attempts did not fill the disk")


def piece(number: int) -> bytes:
    return number.to_bytes(4, "big") * (MEBIBYTE // 4)


def fill(client: MountedClient, name: bytes, stable: stable_how = stable_how.FILE_SYNC) -> tuple[bytes, int]:
    """A file as large as the disk allows, and how many pieces it has."""
    file = client.create(client.root, name).obj
    count = count_until_full(
        lambda number: client.write(file, number * MEBIBYTE, piece(number), stable), 2 * DISK_MEBIBYTES
    )
    return bytes(file), count


def expect_pieces(client: MountedClient, file: bytes, count: int) -> None:
    assert client.getattr(file).size == count * MEBIBYTE
    for number in range(count):
        assert client.read(file, number * MEBIBYTE, MEBIBYTE).data == piece(number)


def eventually(attempt: Callable[[], object]) -> None:
    """Content is freed in the background; until then there is no room."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not fits(attempt):
        assert time.monotonic() < deadline, "removing made no room"
        time.sleep(0.1)  # between two looks


@pytest.mark.parametrize("stable", [stable_how.UNSTABLE, stable_how.FILE_SYNC])
def test_writing_to_a_full_disk_is_refused_and_what_was_written_stays(
    server: ServerProcess, stable: stable_how
) -> None:
    """[STORE-3] over a kill, too; the file ends where the last good write did."""
    with server.connect() as client:
        file, count = fill(client, b"large", stable)
        assert count > 8
        expect_pieces(client, file, count)
        client.commit(file)
        assert client.fsstat(file).abytes < 2 * MEBIBYTE
    server.kill()
    checked = server.check()
    assert checked.returncode == 0, checked.stdout
    server.start()
    with server.connect() as client:
        expect_pieces(client, file, count)
        client.remove(client.root, b"large")
        eventually(lambda: client.create(client.root, b"small"))
        again = client.lookup(client.root, b"small").object
        eventually(lambda: client.write(again, 0, piece(0)))
        expect_pieces(client, again, 1)
    assert server.terminate() == 0
    assert server.check().returncode == 0


def test_a_disk_full_of_names_can_be_emptied(server: ServerProcess) -> None:
    """What grows the metadata is refused, REMOVE is not: not even after a restart with a full disk."""
    with server.connect() as client:
        fill(client, b"large")
        directory = client.mkdir(client.root, b"directory").obj
        made = count_until_full(lambda number: client.symlink(directory, name(number), b"t" * 4000), 20_000)
        names = {entry.name for entry in client.list_directory(directory)} - {b".", b".."}
        assert names == {name(number) for number in range(made)}
        for refused in (lambda: client.create(directory, b"x"), lambda: client.mkdir(directory, b"y")):
            with pytest.raises(Nfs3Error, match="NOSPC"):
                refused()
        assert client.readlink(client.lookup(directory, name(made - 1)).object).data == b"t" * 4000
    server.kill()
    assert server.check().returncode == 0
    server.start()
    with server.connect() as client:
        for number in range(made):
            client.remove(directory, name(number))
        client.rmdir(client.root, b"directory")
        client.remove(client.root, b"large")
        eventually(lambda: client.create(client.root, b"new"))
        new = client.lookup(client.root, b"new").object
        eventually(lambda: client.write(new, 0, piece(7)))
        assert client.read(new, 0, MEBIBYTE).data == piece(7)
    assert server.terminate() == 0
    checked = server.check()
    assert checked.returncode == 0, checked.stdout


def name(number: int) -> bytes:
    return b"%05d" % number + b"n" * 200
