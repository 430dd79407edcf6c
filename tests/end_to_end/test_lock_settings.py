"""Each setting of the lock table shows its effect in a running server [LOCK-6] [LOCK-8], SPEC 8.12."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dittofs.client.nfs3 import Nfs3Error, attributes
from dittofs.client.nlm import LockOwner, NlmClient, Range
from dittofs.protocols.nfs3.types import nfsstat3
from tests.end_to_end.locking import ALICE, BLOCKED, BOB, CAROL, DENIED, GRANTED, NOLOCKS
from tests.end_to_end.server_process import MEMORY, ONE_SHARE, MountedClient, ServerProcess

pytestmark = pytest.mark.slow

A, B = "127.0.0.2", "127.0.0.3"


@contextmanager
def served(path: Path, settings: str, share: str = "") -> Iterator[tuple[ServerProcess, NlmClient, NlmClient]]:
    """A server, and two hosts that lock there."""
    with ServerProcess(path, f"{MEMORY}[locks]\n{settings}\n{ONE_SHARE}{share}") as server:
        a, b = (NlmClient(server.transport(source=address), b"host") for address in (A, B))
        try:
            yield server, a, b
        finally:
            a.transport.close()
            b.transport.close()


def files(server: ServerProcess, count: int) -> list[Range]:
    with server.connect() as client:
        made = [client.create(client.root, b"%d" % number, attributes(mode=0o666)).obj for number in range(count)]
    return [Range(handle=handle) for handle in made if handle is not None]


def byte(where: Range, offset: int) -> Range:
    return Range(handle=where.handle, offset=offset, length=1)


def test_max_per_file(tmp_path: Path) -> None:
    with served(tmp_path, "max_per_file = 2") as (server, a, b):
        first, second = files(server, 2)
        assert [a.lock(ALICE, byte(first, offset)) for offset in (0, 2, 4)] == [GRANTED, GRANTED, NOLOCKS]
        assert a.lock(ALICE, byte(first, 1)) is GRANTED, "what joins two does not grow"
        assert b.lock(BOB, byte(second, 0)) is GRANTED
        whole = Range(handle=first.handle)
        assert a.lock(ALICE, whole) is GRANTED
        assert a.unlock(ALICE, byte(first, 100)) is GRANTED
        assert a.unlock(ALICE, byte(first, 200)) is NOLOCKS, "a split would be a third lock"


def test_max_per_client(tmp_path: Path) -> None:
    with served(tmp_path, "max_per_client = 2") as (server, a, b):
        some = files(server, 3)
        assert [a.lock(ALICE, where) for where in some] == [GRANTED, GRANTED, NOLOCKS]
        assert a.lock(CAROL, some[2]) is NOLOCKS, "another owner of the same client"
        assert b.lock(BOB, some[2]) is GRANTED, "another client of the same name"


def test_max_total(tmp_path: Path) -> None:
    with served(tmp_path, "max_total = 2") as (server, a, b):
        some = files(server, 3)
        assert a.lock(ALICE, some[0]) is GRANTED
        assert b.lock(BOB, some[1]) is GRANTED
        assert b.lock(BOB, some[2]) is NOLOCKS
        assert a.unlock(ALICE, some[0]) is GRANTED
        assert b.lock(BOB, some[2]) is GRANTED


def test_max_waiters_per_file(tmp_path: Path) -> None:
    with served(tmp_path, "max_waiters_per_file = 2") as (server, a, b):
        (file,) = files(server, 1)
        assert a.lock(ALICE, file) is GRANTED
        waiting = [b.lock(LockOwner(number, b"w"), file, block=True) for number in range(3)]
        assert waiting == [BLOCKED, BLOCKED, NOLOCKS]
        assert b.lock(LockOwner(0, b"w"), file, block=True) is BLOCKED, "it has its place already"


def test_blocking_timeout_seconds(tmp_path: Path) -> None:
    """[LOCK-8]: a client whose wait ran out hears DENIED_NOLOCKS at its next poll."""
    with served(tmp_path, "blocking_timeout_seconds = 0.5") as (server, a, b):
        (file,) = files(server, 1)
        assert a.lock(ALICE, file) is GRANTED
        assert b.lock(BOB, file, block=True) is BLOCKED
        deadline = time.monotonic() + 30
        while (status := b.lock(BOB, file, block=True)) is BLOCKED:
            assert time.monotonic() < deadline, "the wait did not end"
            time.sleep(0.05)
        assert status is NOLOCKS


def test_mandatory_locks(tmp_path: Path) -> None:
    """[LOCK-8]: reads and writes of other clients fail where somebody's lock is; his own client's do not."""
    with served(tmp_path, "", "mandatory_locks = true\n") as (server, a, b):
        (file,) = files(server, 1)
        handle = file.handle
        with server.connect(source=A) as mine, server.connect(source=B) as theirs:
            mine.write(handle, 0, b"0123456789" * 10)
            assert a.lock(ALICE, Range(handle=handle, offset=10, length=10)) is GRANTED
            assert b.lock(BOB, Range(handle=handle, offset=50, length=10), exclusive=False) is GRANTED
            assert bytes(mine.read(handle, 10, 10).data) == b"0123456789"
            mine.write(handle, 10, b"x")
            assert bytes(theirs.read(handle, 0, 10).data) == b"0123456789"
            refused(theirs, handle, 19, 1, reading=True)
            refused(theirs, handle, 19, 1, reading=False)
            assert bytes(mine.read(handle, 50, 10).data) == b"0123456789"
            refused(mine, handle, 55, 1, reading=False)
            with pytest.raises(Nfs3Error) as cut:
                mine.setattr(handle, attributes(size=52))
            assert cut.value.status is nfsstat3.NFS3ERR_ACCES
            mine.setattr(handle, attributes(size=60))
            assert a.unlock(ALICE, file) is GRANTED
            theirs.write(handle, 10, b"y")
            assert b.unlock(BOB, file) is GRANTED
            mine.setattr(handle, attributes(size=0))


def test_locks_are_advisory_by_default(tmp_path: Path) -> None:
    with served(tmp_path, "") as (server, a, b):
        (file,) = files(server, 1)
        assert a.lock(ALICE, file) is GRANTED
        assert b.lock(BOB, file) is DENIED
        with server.connect(source=B) as theirs:
            theirs.write(file.handle, 0, b"anyway")
            assert bytes(theirs.read(file.handle, 0, 6).data) == b"anyway"


def refused(client: MountedClient, handle: bytes, offset: int, count: int, *, reading: bool) -> None:
    with pytest.raises(Nfs3Error) as failed:
        client.read(handle, offset, count) if reading else client.write(handle, offset, b"x" * count)
    assert failed.value.status is nfsstat3.NFS3ERR_ACCES
