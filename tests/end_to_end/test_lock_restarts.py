"""Locks over stops and kills of a real server: what is kept, and who may have it again [KEEP-1..3] [GRACE-1..3]."""

import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dittofs.client.nfs3 import attributes
from dittofs.client.nlm import NlmClient, Range
from dittofs.protocols.nlm.types import fsh_access, fsh_mode
from tests.end_to_end.control import Rest
from tests.end_to_end.locking import ALICE, BOB, CAROL, DENIED, GRACE, GRANTED, STALE_FH
from tests.end_to_end.server_process import EMBEDDED, ONE_SHARE, MountedClient, ServerProcess

pytestmark = pytest.mark.slow

A, B = "127.0.0.2", "127.0.0.3"
WAIT_SECONDS = 30.0
GRACE_SECONDS = 10.0
"""Where it has to end by itself: long enough to reclaim something on a busy machine."""


def config(grace_seconds: float = 3600, shares: str = ONE_SHARE) -> str:
    return f"{EMBEDDED}[locks]\ngrace_seconds = {grace_seconds}\n{shares}"


@contextmanager
def hosts(server: ServerProcess, *addresses: str) -> Iterator[list[NlmClient]]:
    """The lock services' clients of hosts at these addresses, all of one name."""
    made = [NlmClient(server.transport(source=address), b"host") for address in addresses]
    try:
        yield made
    finally:
        for client in made:
            client.transport.close()


def new_file(client: MountedClient, name: bytes) -> bytes:
    handle = client.create(client.root, name, attributes(mode=0o666)).obj
    assert handle is not None
    return handle


def made_file(server: ServerProcess, name: bytes = b"file") -> Range:
    with server.connect() as client:
        return Range(handle=new_file(client, name))


def part(where: Range, offset: int, length: int) -> Range:
    return Range(handle=where.handle, offset=offset, length=length)


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + GRACE_SECONDS + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "stopped"])
def test_recorded_locks_are_held_until_their_owner_reclaims_them(tmp_path: Path, is_killed: bool) -> None:
    """[KEEP-1], [GRACE-1], [GRACE-2], [GRACE-3]: after a kill and after a clean stop; grace ends with the last byte."""
    with ServerProcess(tmp_path, config()) as server:
        file = made_file(server)
        with hosts(server, A, B) as (a, b):
            assert a.lock(ALICE, part(file, 0, 10)) is GRANTED
            assert a.lock(ALICE, part(file, 2**64 - 10, 0)) is GRANTED
            assert b.lock(BOB, part(file, 100, 10), exclusive=False) is GRANTED
        if is_killed:
            server.kill()
        else:
            assert server.terminate() == 0
        server.start()
        assert re.search(f"serving .*after='?{'crash' if is_killed else 'clean stop'}", server.log())
        with hosts(server, A, B) as (a, b):
            assert b.lock(CAROL, part(file, 500, 1)) is GRACE
            assert b.share(b"carol", file.handle, access=fsh_access.fsa_R, mode=fsh_mode.fsm_DN) is GRACE
            status, holder = b.test(CAROL, part(file, 5, 1))
            assert status is DENIED
            assert (holder.l_offset, holder.l_len, holder.oh) == (0, 10, ALICE.oh)
            assert b.lock(BOB, part(file, 0, 10), reclaim=True) is DENIED, "it was another's"
            assert b.lock(BOB, part(file, 100, 10), reclaim=True) is DENIED, "it was shared"
            assert b.lock(BOB, part(file, 100, 10), exclusive=False, reclaim=True) is GRANTED
            assert a.lock(ALICE, part(file, 0, 10), reclaim=True) is GRANTED
            assert b.lock(CAROL, part(file, 500, 1)) is GRACE, "one lock is not all of them"
            assert a.lock(ALICE, part(file, 2**64 - 10, 0), reclaim=True) is GRANTED
            assert b.lock(CAROL, part(file, 500, 1)) is GRANTED
            assert b.lock(CAROL, part(file, 5, 1)) is DENIED
            assert a.lock(ALICE, part(file, 700, 1), reclaim=True) is DENIED, "grace is over"


def test_what_is_not_reclaimed_is_dropped_when_grace_ends(tmp_path: Path) -> None:
    """[GRACE-3]: a client that reclaims only some of its locks keeps those; `grace_seconds` says when."""
    with ServerProcess(tmp_path, config(grace_seconds=GRACE_SECONDS)) as server:
        file = made_file(server)
        with hosts(server, A) as (a,):
            assert a.lock(ALICE, part(file, 0, 10)) is GRANTED
            assert a.lock(ALICE, part(file, 20, 10)) is GRANTED
        server.kill()
        server.start()
        with hosts(server, A, B) as (a, b):
            assert a.lock(ALICE, part(file, 0, 10), reclaim=True) is GRANTED
            eventually(lambda: b.lock(BOB, part(file, 20, 10)) is GRANTED)
            assert b.lock(BOB, part(file, 0, 10)) is DENIED
        server.kill()
        server.start()
        with hosts(server, A, B) as (a, b):
            assert a.lock(ALICE, part(file, 20, 10), reclaim=True) is DENIED, "dropped durably"
            assert b.lock(BOB, part(file, 20, 10), reclaim=True) is GRANTED


def test_a_second_kill_in_grace_loses_neither_what_was_reclaimed_nor_the_rest(tmp_path: Path) -> None:
    """[GRACE-1]"""
    with ServerProcess(tmp_path, config()) as server:
        file = made_file(server)
        with hosts(server, A, B) as (a, b):
            assert a.lock(ALICE, part(file, 0, 10)) is GRANTED
            assert b.lock(BOB, part(file, 20, 10)) is GRANTED
        for _ in range(2):
            server.kill()
            server.start()
            with hosts(server, A) as (a,):
                assert a.lock(ALICE, part(file, 0, 10), reclaim=True) is GRANTED
        with hosts(server, A, B) as (a, b):
            assert a.lock(CAROL, part(file, 50, 1)) is GRACE
            assert b.lock(BOB, part(file, 20, 10), reclaim=True) is GRANTED
            assert a.lock(CAROL, part(file, 50, 1)) is GRANTED


def test_unlocking_and_removing_settle_what_is_recorded(tmp_path: Path) -> None:
    """[GRACE-2], [GRACE-3], [LOCK-10]: UNLOCK is served in grace, and a removed file has no locks to wait for."""
    with ServerProcess(tmp_path, config()) as server:
        file, doomed = made_file(server), made_file(server, b"doomed")
        with hosts(server, A, B) as (a, b):
            assert a.lock(ALICE, file) is GRANTED
            assert b.lock(BOB, doomed) is GRANTED
        server.kill()
        server.start()
        with hosts(server, A, B) as (a, b), server.connect() as client:
            assert a.unlock(ALICE, file) is GRANTED
            assert a.lock(CAROL, file) is GRACE
            client.remove(client.root, b"doomed")
            assert a.lock(CAROL, file) is GRANTED
            assert b.lock(BOB, doomed, reclaim=True) is STALE_FH
        server.kill()
        server.start()
        with hosts(server, A) as (a,):
            assert a.lock(CAROL, file, reclaim=True) is GRANTED
            assert a.lock(ALICE, part(file, 0, 1)) is DENIED, "and grace is over: nothing else was recorded"


def test_a_share_with_nothing_recorded_starts_without_grace(tmp_path: Path) -> None:
    """[GRACE-3]: also after a kill, and beside a share that has recorded locks."""
    shares = "".join(f'[[shares]]\nname = "/{name}"\nsquash = "none"\n' for name in ("one", "two"))
    with ServerProcess(tmp_path, config(shares=shares)) as server:
        with server.connect("/one") as one, server.connect("/two") as two:
            files = [Range(handle=new_file(client, b"file")) for client in (one, two)]
        with hosts(server, A) as (a,):
            assert a.lock(ALICE, files[0]) is GRANTED
            assert a.lock(ALICE, files[1]) is GRANTED
            assert a.unlock(ALICE, files[1]) is GRANTED
        server.kill()
        server.start()
        with hosts(server, B) as (b,):
            assert b.lock(BOB, part(files[0], 0, 1)) is GRACE
            assert b.lock(BOB, files[1]) is GRANTED
            assert b.lock(BOB, part(files[0], 0, 1)) is GRACE


def test_a_share_that_comes_at_run_time_has_a_grace_of_its_own(tmp_path: Path) -> None:
    """[GRACE-3], SPEC 8.6: it freezes no other, its locks are pending like any, and it may go and come again."""
    shares = '[stores.second]\nkind = "embedded"\n[[shares]]\nname = "/one"\nsquash = "none"\n'
    second = '[[shares]]\nname = "/two"\nsquash = "none"\nmetadata = "second"\n'
    with ServerProcess(tmp_path, config(shares=shares + second)) as server:
        with server.connect("/one") as one, server.connect("/two") as two:
            files = [Range(handle=new_file(client, b"file")) for client in (one, two)]
        with hosts(server, A) as (a,):
            assert [a.lock(ALICE, file) for file in files] == [GRANTED, GRANTED]
        both = server.config_file.read_text()
        alone = both.replace(second, "")
        server.kill()
        server.config_file.write_text(alone)
        server.start()
        with hosts(server, A, B) as (a, b):
            assert b.lock(BOB, files[0]) is GRACE
            assert a.lock(ALICE, files[0], reclaim=True) is GRANTED
            assert b.lock(BOB, files[1]) is STALE_FH
            for _ in range(2):
                server.config_file.write_text(both)
                assert Rest(server).post("/reload")["added"] == ["/two"]
                assert b.lock(BOB, files[1]) is GRACE
                assert b.lock(BOB, files[0]) is DENIED, "no grace in the other share"
                server.config_file.write_text(alone)
                assert Rest(server).post("/reload")["removed"] == ["/two"]
                assert b.lock(BOB, files[0]) is DENIED
            server.config_file.write_text(both)
            Rest(server).post("/reload")
            assert a.lock(ALICE, files[1], reclaim=True) is GRANTED
            assert b.lock(BOB, files[1]) is DENIED


def test_without_grace_recorded_locks_are_dropped_at_the_start(tmp_path: Path) -> None:
    """`grace_seconds = 0`"""
    with ServerProcess(tmp_path, config(grace_seconds=0)) as server:
        file = made_file(server)
        with hosts(server, A) as (a,):
            assert a.lock(ALICE, file) is GRANTED
        server.kill()
        server.start()
        with hosts(server, A, B) as (a, b):
            assert a.lock(ALICE, file, reclaim=True) is DENIED
            assert b.lock(BOB, file) is GRANTED


def test_reservations_obey_grace_and_come_back(tmp_path: Path) -> None:
    """[GRACE-2]: SHARE obeys grace too."""
    read, write = fsh_access.fsa_R, fsh_access.fsa_W
    with ServerProcess(tmp_path, config()) as server:
        file = made_file(server)
        with hosts(server, A) as (a,):
            assert a.share(b"one", file.handle, access=read, mode=fsh_mode.fsm_DW) is GRANTED
        server.kill()
        server.start()
        with hosts(server, A, B) as (a, b):
            assert b.share(b"two", file.handle, access=read, mode=fsh_mode.fsm_DN) is GRACE
            assert a.share(b"one", file.handle, access=write, mode=fsh_mode.fsm_DW, reclaim=True) is DENIED
            assert a.share(b"one", file.handle, access=read, mode=fsh_mode.fsm_DW, reclaim=True) is GRANTED
            assert b.share(b"two", file.handle, access=write, mode=fsh_mode.fsm_DN) is DENIED
            assert b.share(b"two", file.handle, access=read, mode=fsh_mode.fsm_DN) is GRANTED


def test_locks_of_a_relaxed_share_are_kept_before_they_are_answered(tmp_path: Path) -> None:
    """[KEEP-1]: files may lose their last second there, locks nothing."""
    relaxed = ONE_SHARE + 'durability = "relaxed"\n'
    with ServerProcess(tmp_path, config(shares=relaxed)) as server:
        file = made_file(server)
        with hosts(server, A) as (a,):
            for number in range(20):
                assert a.lock(ALICE, part(file, number * 10, 5)) is GRANTED
                if number % 5 == 4:
                    assert a.unlock(ALICE, part(file, number * 10, 5)) is GRANTED
            server.kill()
        server.start()
        with hosts(server, A) as (a,):
            for number in range(20):
                status = a.lock(ALICE, part(file, number * 10, 5), reclaim=True)
                assert status is (DENIED if number % 5 == 4 else GRANTED)


def test_a_copy_of_the_data_directory_stops_at_the_store_that_went_on(tmp_path: Path) -> None:
    """[KEEP-3]: a higher epoch of its own node is a split brain, and starting again does not help."""
    with ServerProcess(tmp_path, config()) as server:
        node = server.data / "node"
        old = tmp_path / "old-node"
        shutil.copy(node, old)
        for _ in range(2):
            server.kill()
            server.start()
        assert server.terminate() == 0
        shutil.copy(old, node)
        for _ in range(4):
            refused = subprocess.run(
                server.command("serve"), capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
            )
            assert refused.returncode == 1
            assert "epoch 3 of node" in refused.stderr
            assert "remove the file 'node'" in refused.stderr
        node.unlink()
        server.start()
