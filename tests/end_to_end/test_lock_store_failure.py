"""A lock store that fails under a running server: what each kind of request is told, and that it goes on [KEEP-1]."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dittofs.client.nfs3 import Nfs3Error, attributes
from dittofs.client.nlm import NlmClient, Range, exchange_of
from dittofs.client.nsm import NOTIFY, NsmClient
from dittofs.protocols.nfs3.types import nfsstat3
from dittofs.protocols.nlm.types import fsh_access, fsh_mode
from dittofs.protocols.nsm.types import stat_chge
from tests.end_to_end.locking import ALICE, BOB, CAROL, DENIED, GRANTED, NOLOCKS
from tests.end_to_end.server_process import ONE_SHARE, SOURCE, MountedClient, ServerProcess

pytestmark = pytest.mark.slow

A, B = "127.0.0.2", "127.0.0.3"


class World:
    """A server on a disk that breaks when told to, and two hosts."""

    def __init__(self, server: ServerProcess, flag: Path, nfs: MountedClient):
        self.server = server
        self.nfs = nfs
        self.a, self.b = (NlmClient(server.transport(source=address), b"host") for address in (A, B))
        self._flag = flag

    def file(self, name: bytes) -> Range:
        handle = self.nfs.create(self.nfs.root, name, attributes(mode=0o666)).obj
        assert handle is not None
        return Range(handle=handle)

    def break_disk(self) -> None:
        self._flag.touch()

    def mend_disk(self) -> None:
        self._flag.unlink()

    def is_unanswered(self, xid: int, elsewhere: Range) -> bool:
        """True if a call of host a got no answer although a later one has: it is not merely late."""
        assert self.a.lock(CAROL, elsewhere) is NOLOCKS
        return xid not in self.a.transport._replies


@contextmanager
def broken(path: Path) -> Iterator[World]:
    store = path / "disk" / "meta"
    store.parent.mkdir()
    stores = (
        f'[stores.meta]\nkind = "tests.end_to_end.failing_store:FailingStore"\npath = "{store}"\n'
        '[stores.files]\nkind = "memory"\n'
    )
    environment = {"PYTHONPATH": f"{SOURCE}:{SOURCE.parent}"}
    with ServerProcess(path, stores + ONE_SHARE, environment=environment) as server, server.connect() as nfs:
        world = World(server, path / "disk" / "fail", nfs)
        try:
            yield world
        finally:
            world.a.transport.close()
            world.b.transport.close()


def test_what_is_not_kept_is_not_granted_and_what_was_kept_is_not_given_away(tmp_path: Path) -> None:
    """[KEEP-1]: LOCK and SHARE are refused; UNLOCK, FREE_ALL and SM_NOTIFY get no answer until they are stored."""
    with broken(tmp_path) as world:
        a, b = world.a, world.b
        held, other, spare = (world.file(name) for name in (b"held", b"other", b"spare"))
        assert a.lock(ALICE, held) is GRANTED
        world.break_disk()

        assert b.lock(BOB, other) is NOLOCKS
        assert b.share(b"bob", other.handle, access=fsh_access.fsa_R, mode=fsh_mode.fsm_DN) is NOLOCKS
        assert b.test(CAROL, other) == (GRANTED, None), "nothing is held there"
        with pytest.raises(Nfs3Error) as refused:
            world.nfs.mkdir(world.nfs.root, b"directory")
        assert refused.value.status is nfsstat3.NFS3ERR_IO

        unlocking = exchange_of(a.dialect, "UNLOCK")
        arguments = a.dialect.unlockargs(b"again", a._lock(ALICE, held))
        unlock = a.transport.send(unlocking, arguments)
        assert world.is_unanswered(unlock, spare)
        free_all = a.transport.send(exchange_of(a.dialect, "FREE_ALL"), a.dialect.notify(b"host", 0))
        assert world.is_unanswered(free_all, spare)
        notify = a.transport.send(NOTIFY, stat_chge(b"host", 7))
        assert world.is_unanswered(notify, spare)
        assert b.test(BOB, held)[0] is DENIED, "nothing of it happened"
        assert b.lock(BOB, held) is not GRANTED

        world.mend_disk()
        a.transport.send_record(unlocking.encode(unlock, arguments, credential=a.transport.credential))
        assert a.transport.receive(unlock, unlocking).cookie == b"again"
        assert b.lock(BOB, held) is GRANTED
        assert b.lock(BOB, other) is GRANTED
        world.nfs.mkdir(world.nfs.root, b"directory")

        log = world.server.log()
        assert log.count("locks cannot be stored") == 1
        assert log.count("locks are stored again") == 1


def test_a_range_that_is_locked_over_and_over_is_no_exception(tmp_path: Path) -> None:
    """[KEEP-1]: what the server does again without decoding it is refused, and left unanswered, just the same."""
    with broken(tmp_path) as world:
        a, held, spare = world.a, world.file(b"held"), world.file(b"spare")
        for _ in range(4):
            assert a.lock(ALICE, held) is GRANTED
            assert a.unlock(ALICE, held) is GRANTED
        world.break_disk()
        assert a.lock(ALICE, held) is NOLOCKS
        world.mend_disk()
        assert a.lock(ALICE, held) is GRANTED
        world.break_disk()
        unlock = a.transport.send(exchange_of(a.dialect, "UNLOCK"), a.dialect.unlockargs(b"next", a._lock(ALICE, held)))
        assert world.is_unanswered(unlock, spare)
        assert world.b.test(BOB, held)[0] is DENIED, "it is held as before"
        world.mend_disk()
        assert a.unlock(ALICE, held) is GRANTED
        assert world.b.lock(BOB, held) is GRANTED


def test_a_kill_in_an_outage_finds_what_was_acknowledged_and_nothing_else(tmp_path: Path) -> None:
    """[KEEP-1]"""
    with broken(tmp_path) as world:
        held, other = world.file(b"held"), world.file(b"other")
        assert world.a.lock(ALICE, held) is GRANTED
        world.break_disk()
        assert world.b.lock(BOB, other) is NOLOCKS
        world.server.kill()
        world.mend_disk()
        world.server.start()
        a, b = (NlmClient(world.server.transport(source=address), b"host") for address in (A, B))
        assert b.lock(BOB, other, reclaim=True) is DENIED
        assert a.lock(ALICE, held, reclaim=True) is GRANTED
        assert b.lock(BOB, other) is GRANTED
        a.transport.close()
        b.transport.close()


def test_a_reboot_that_could_not_be_stored_is_heard_when_it_is_told_again(tmp_path: Path) -> None:
    """[KEEP-1], [NSM-3]: the first SM_NOTIFY freed nothing, so the same one sent again is no repetition."""
    with broken(tmp_path) as world:
        held, spare = world.file(b"held"), world.file(b"spare")
        assert world.a.lock(ALICE, held, state=5) is GRANTED
        world.break_disk()
        notify = world.a.transport.send(NOTIFY, stat_chge(b"host", 7))
        assert world.is_unanswered(notify, spare)
        world.mend_disk()
        assert world.b.lock(BOB, held) is DENIED
        NsmClient(world.a.transport).notify(b"host", 7)
        assert world.b.lock(BOB, held) is GRANTED
