"""Every procedure and every status of NLM over real sockets, in all versions, over TCP and UDP [NLM-1] [NLM-3]."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dittofs.client.nfs3 import attributes
from dittofs.client.nlm import LockOwner, NlmClient, Range, exchange_of
from dittofs.client.portmap import mappings
from dittofs.client.transports import TcpTransport, UdpTransport
from dittofs.protocols.nlm.dialects import DIALECTS, NLM1, NLM3, NLM4, Dialect
from dittofs.protocols.nlm.types import PROGRAM, fsh_access, fsh_mode, nlm4_stats
from dittofs.rpc.calling import CredentialsDenied, Exchange, ProcedureUnavailable, VersionUnavailable, auth_sys
from dittofs.rpc.messages import NO_AUTH
from tests.end_to_end.locking import (
    ALICE,
    BLOCKED,
    BOB,
    CAROL,
    DEADLCK,
    DENIED,
    FAILED,
    FBIG,
    GRANTED,
    NOLOCKS,
    ROFS,
    STALE_FH,
    LockWorld,
    lock_world,
)
from tests.end_to_end.server_process import MEMORY, ONE_SHARE, ServerProcess
from tests.hosts.host import is_ipv6_here
from tests.hosts.network import own_address, skip_unless_root

pytestmark = [pytest.mark.slow, pytest.mark.root]

SHARES = """
[locks]
max_per_file = 20
max_waiters_per_file = 2
[clients.nlm]
max = 60
[[shares]]
name = "/export"
squash = "none"
[[shares]]
name = "/squashed"
squash = "root"
"""
MAX64 = 2**64 - 1

every_version = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: f"v{dialect.version}")
every_transport = pytest.mark.parametrize("over", [TcpTransport, UdpTransport], ids=["tcp", "udp"])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LockWorld]:
    with lock_world(tmp_path_factory.mktemp("server"), MEMORY + SHARES) as made:
        yield made


def part(file: Range, offset: int, length: int) -> Range:
    return Range(handle=file.handle, offset=offset, length=length)


@every_transport
@every_version
def test_lock_test_unlock(world: LockWorld, dialect: Dialect, over: Any) -> None:
    """[NLM-1] [NLM-3]: the holder's owner and range are told; nothing held is given back all the same."""
    one, other = world.host(), world.host()
    first, second = (world.nlm(host, dialect=dialect, over=over) for host in (one, other))
    file = part(world.file(), 10, 20)
    first.null()
    assert first.lock(ALICE, file) is GRANTED
    assert first.lock(ALICE, file) is GRANTED
    assert second.lock(BOB, file) is DENIED
    status, holder = second.test(BOB, part(file, 0, 0), exclusive=False)
    assert status is DENIED
    assert (holder.svid, holder.oh, holder.l_offset, holder.l_len) == (ALICE.svid, ALICE.oh, 10, 20)
    assert holder.exclusive
    assert first.test(ALICE, file) == (GRANTED, None)
    assert second.test(BOB, part(file, 30, 5)) == (GRANTED, None)
    assert first.unlock(ALICE, file) is GRANTED
    assert first.unlock(ALICE, file) is GRANTED
    assert second.lock(BOB, file) is GRANTED
    assert second.unlock(BOB, file) is GRANTED


def test_shared_locks_go_together_and_an_upgrade_is_all_or_nothing(world: LockWorld) -> None:
    """[LOCK-4]."""
    nlm, file = world.nlm(world.host()), world.file()
    assert nlm.lock(ALICE, file, exclusive=False) is GRANTED
    assert nlm.lock(BOB, file, exclusive=False) is GRANTED
    assert nlm.lock(ALICE, file) is DENIED
    status, holder = nlm.test(CAROL, file)
    assert (status, holder.exclusive) == (DENIED, False)
    assert nlm.unlock(BOB, file) is GRANTED
    assert nlm.lock(ALICE, file) is GRANTED


@pytest.mark.parametrize("length", [0, MAX64])
def test_to_the_end_is_reported_as_0(world: LockWorld, length: int) -> None:
    """[NLM-3]."""
    nlm, file = world.nlm(world.host()), world.file()
    assert nlm.lock(ALICE, part(file, 100, length)) is GRANTED
    status, holder = nlm.test(BOB, part(file, MAX64, 1))
    assert (status, holder.l_offset, holder.l_len) == (DENIED, 100, 0)


def test_ranges_use_all_64_bits_and_no_more(world: LockWorld) -> None:
    """[NLM-3] [LOCK-1]: the last byte can be locked; what would end behind it is FBIG, also for TEST and UNLOCK."""
    nlm, file = world.nlm(world.host()), world.file()
    assert nlm.lock(ALICE, part(file, MAX64, 1)) is GRANTED
    assert nlm.lock(BOB, part(file, 2**63, 2**63 - 1)) is GRANTED
    over = part(file, MAX64, 2)
    assert nlm.lock(ALICE, over) is FBIG
    assert nlm.test(ALICE, over)[0] is FBIG
    assert nlm.unlock(ALICE, over) is FBIG
    assert nlm.cancel(ALICE, over) is GRANTED


def test_versions_1_and_3_say_no_locks_where_they_have_no_word(world: LockWorld) -> None:
    """[NLM-3]: STALE_FH and the like are DENIED_NOLOCKS there."""
    for dialect in (NLM1, NLM3):
        assert world.nlm(world.host(), dialect=dialect).lock(ALICE, Range(handle=b"x" * 33)) is NOLOCKS


def test_a_32_bit_client_hears_of_a_64_bit_lock(world: LockWorld) -> None:
    """[NLM-3]: as far as 32 bits can tell it."""
    host, file = world.host(), world.file()
    assert world.nlm(host).lock(ALICE, part(file, 2**33, 2**33)) is GRANTED
    status, holder = world.nlm(host, dialect=NLM3).test(BOB, part(file, 0, 0))
    assert (status, holder.l_offset, holder.l_len) == (DENIED, 2**32 - 1, 0)


def test_deadlock_between_two_clients_over_two_files(world: LockWorld) -> None:
    """[LOCK-5]: one is refused, and the other gets the lock as soon as that one lets go."""
    one, two = world.host(), world.host()
    first, second = world.nlm(one), world.nlm(two)
    a, b = world.file(), world.file()
    assert first.lock(ALICE, a) is GRANTED
    assert second.lock(BOB, b) is GRANTED
    assert first.lock(ALICE, b, block=True) is BLOCKED
    assert second.lock(BOB, a, block=True) is DEADLCK
    assert second.unlock(BOB, b) is GRANTED
    assert one.grants.wait(1).lock.fh == b.handle


def test_deadlock_is_plain_denied_in_version_3(world: LockWorld) -> None:
    """[NLM-3]."""
    first, second = (world.nlm(world.host(), dialect=NLM3) for _ in range(2))
    a, b = world.file(), world.file()
    assert first.lock(ALICE, a) is GRANTED
    assert second.lock(BOB, b) is GRANTED
    assert first.lock(ALICE, b, block=True) is BLOCKED
    assert second.lock(BOB, a, block=True) is DENIED


def test_limits_are_no_locks_and_nothing_changes(world: LockWorld) -> None:
    """[LOCK-6] [NLM-3]: locks per file, a split over the limit, waiters per file."""
    nlm, file = world.nlm(world.host()), world.file()
    for number in range(20):
        assert nlm.lock(ALICE, part(file, 10 * number, 5)) is GRANTED
    assert nlm.lock(ALICE, part(file, 1000, 5)) is NOLOCKS
    assert nlm.unlock(ALICE, part(file, 1, 1)) is NOLOCKS
    assert nlm.test(BOB, part(file, 1, 1))[0] is DENIED
    for number in range(2):
        assert nlm.lock(LockOwner(100 + number, b"w"), part(file, 0, 1), block=True) is BLOCKED
    assert nlm.lock(BOB, part(file, 0, 1), block=True) is NOLOCKS


def test_more_clients_than_allowed_get_no_locks(tmp_path: Path) -> None:
    """[LOCK-6] [CLIENT-1]: and room is made by those that have nothing any more."""
    config = MEMORY + SHARES.replace("max = 60", "max = 2")
    with lock_world(tmp_path, config) as world:
        host, file = world.host(), world.file()
        one, two, three = (world.nlm(host, name=name) for name in (b"one", b"two", b"three"))
        assert one.lock(ALICE, part(file, 0, 1)) is GRANTED
        assert two.lock(ALICE, part(file, 1, 1)) is GRANTED
        assert three.lock(ALICE, part(file, 2, 1)) is NOLOCKS
        assert three.test(ALICE, part(file, 2, 1))[0] is GRANTED
        assert two.unlock(ALICE, part(file, 1, 1)) is GRANTED
        assert two.lock(BOB, part(file, 1, 1)) is GRANTED, "a known client is not turned away"


# Whom and what [LOCK-10] [NFS-4].


def test_read_access_or_ownership_is_needed_for_any_lock(world: LockWorld) -> None:
    """[LOCK-10]: UNLOCK and CANCEL need none [NLM-6]."""
    host = world.host()
    stranger = world.nlm(host, credential=auth_sys(uid=1000, gid=1000))
    closed, readable, own = world.file(mode=0o600), world.file(mode=0o444), world.file(mode=0o000, uid=1000)
    assert stranger.lock(ALICE, closed, exclusive=False) is FAILED
    assert stranger.test(ALICE, closed)[0] is FAILED
    assert stranger.share(b"s", closed.handle, access=fsh_access.fsa_R, mode=fsh_mode.fsm_DN) is FAILED
    assert stranger.unlock(ALICE, closed) is GRANTED
    assert stranger.cancel(ALICE, closed) is GRANTED
    assert stranger.lock(ALICE, readable) is GRANTED
    assert stranger.lock(ALICE, own) is GRANTED


def test_a_squashed_root_may_not_lock_what_only_root_may_read(world: LockWorld) -> None:
    """[NFS-4]: squashing counts for locks too."""
    with world.server.connect("/squashed", credential=auth_sys(uid=500, gid=500)) as nfs:
        made = nfs.create(nfs.root, b"closed", None)
        assert made.obj is not None
        file = Range(handle=made.obj)
        nfs.setattr(file.handle, attributes(mode=0o600))
    assert world.nlm(world.host()).lock(ALICE, file) is FAILED


def test_a_directory_cannot_be_locked(world: LockWorld) -> None:
    assert world.nlm(world.host()).lock(ALICE, Range(handle=world.nfs.root)) is FAILED


def test_stale_and_foreign_handles(world: LockWorld) -> None:
    """[NLM-3] [NFS-7]: a removed file, a handle with a wrong tag, one of wrong length."""
    nlm = world.nlm(world.host())
    made = world.nfs.create(world.nfs.root, b"short-lived")
    assert made.obj is not None
    gone = Range(handle=made.obj)
    forged = Range(handle=made.obj[:-1] + bytes([made.obj[-1] ^ 1]))
    assert nlm.lock(ALICE, gone) is GRANTED
    world.nfs.remove(world.nfs.root, b"short-lived")
    for bad in (gone, forged, Range(handle=b""), Range(handle=bytes(1024))):
        assert nlm.lock(ALICE, bad) is STALE_FH
        assert nlm.test(ALICE, bad)[0] is STALE_FH
    assert nlm.unlock(ALICE, forged) is STALE_FH
    assert nlm.unlock(ALICE, gone) is GRANTED, "whatever it held went with the file"
    assert nlm.cancel(ALICE, forged) is GRANTED


def test_a_removed_file_loses_its_locks_and_its_waiters(world: LockWorld) -> None:
    """[LOCK-10]: the waiter finds out when it asks again."""
    nlm = world.nlm(world.host())
    made = world.nfs.create(world.nfs.root, b"waited-for")
    assert made.obj is not None
    file = Range(handle=made.obj)
    assert nlm.lock(ALICE, file) is GRANTED
    assert nlm.lock(BOB, file, block=True) is BLOCKED
    world.nfs.remove(world.nfs.root, b"waited-for")
    assert nlm.lock(BOB, file, block=True) is STALE_FH


def test_a_share_for_other_networks_is_closed_for_locks(tmp_path: Path) -> None:
    """[NFS-4]: checked at every call; a handle that was once good does not help."""
    config = MEMORY + "\n[[shares]]\nname = '/export'\nsquash = 'none'\nclients = ['127.0.0.1/32']\n"
    with lock_world(tmp_path, config) as world:
        stranger, file = world.nlm(world.host()), world.file()
        assert stranger.lock(ALICE, file) is FAILED
        assert stranger.test(ALICE, file)[0] is FAILED
        assert stranger.unlock(ALICE, file) is FAILED
        assert stranger.share(b"s", file.handle, access=fsh_access.fsa_R, mode=fsh_mode.fsm_DN) is FAILED


def test_an_auth_flavour_that_the_share_does_not_take(world: LockWorld) -> None:
    """[NFS-4]: AUTH_NONE on a share for AUTH_SYS is refused as the RFC says."""
    nlm, file = world.nlm(world.host(), credential=NO_AUTH), world.file()
    with pytest.raises(CredentialsDenied):
        nlm.lock(ALICE, file)


def test_a_read_only_share_refuses_exclusive_locks(tmp_path: Path) -> None:
    """[LOCK-10] [NLM-3]: with ROFS; shared ones are fine."""
    stores = f"""
[stores.meta]
kind = "embedded"
path = "{tmp_path}/meta"
[stores.files]
kind = "directory"
path = "{tmp_path}/files"
"""
    config = stores + "\n[[shares]]\nname = '/export'\nsquash = 'none'\n"
    with lock_world(tmp_path / "writable", config) as world:
        file = world.file()
    with lock_world(tmp_path / "read-only", config + "read_only = true\n") as world:
        host = world.host()
        nlm = world.nlm(host)
        assert nlm.lock(ALICE, file) is ROFS
        assert world.nlm(host, dialect=NLM3).lock(ALICE, file) is NOLOCKS
        assert nlm.lock(ALICE, file, exclusive=False) is GRANTED
        assert nlm.unlock(ALICE, file) is GRANTED
        assert nlm.share(b"s", file.handle, access=fsh_access.fsa_RW, mode=fsh_mode.fsm_DN) is ROFS


# Nobody acts for another host [NLM-7].


def test_nobody_unlocks_cancels_or_frees_for_another_host(world: LockWorld) -> None:
    """[NLM-7] [LOCK-2]: the same name and the same owner from another address are somebody else."""
    host, impostor = world.host(b"twin"), world.host(b"twin")
    real, fake = world.nlm(host), world.nlm(impostor)
    file, waited = world.file(), world.file()
    assert real.lock(ALICE, file) is GRANTED
    assert fake.lock(CAROL, waited) is GRANTED
    assert real.lock(ALICE, waited, block=True) is BLOCKED
    assert fake.unlock(ALICE, file) is GRANTED
    assert fake.cancel(ALICE, waited) is GRANTED
    fake.free_all()
    assert host.grants.wait(1).lock.svid == ALICE.svid, "the wait was not cancelled"
    assert not impostor.grants
    assert fake.lock(ALICE, file) is DENIED
    assert world.nlm(host, name=b"another").unlock(ALICE, file) is GRANTED
    assert fake.lock(ALICE, file) is DENIED


def test_free_all_frees_locks_waits_and_reservations_of_its_host(world: LockWorld) -> None:
    """[NLM-1]: and others go on."""
    host, other = world.host(), world.host()
    mine, theirs = world.nlm(host), world.nlm(other)
    file, second = world.file(), world.file()
    assert mine.lock(ALICE, file) is GRANTED
    assert mine.share(b"s", second.handle, access=fsh_access.fsa_RW, mode=fsh_mode.fsm_DRW) is GRANTED
    assert theirs.lock(BOB, file, block=True) is BLOCKED
    mine.free_all()
    assert other.grants.wait(1).lock.svid == BOB.svid
    assert theirs.share(b"t", second.handle, access=fsh_access.fsa_R, mode=fsh_mode.fsm_DN) is GRANTED


# Share reservations.


@pytest.mark.parametrize("dialect", [NLM3, NLM4], ids=["v3", "v4"])
def test_share_and_unshare(world: LockWorld, dialect: Dialect) -> None:
    """[LOCK-2]: access against deny, both ways; another reservation of the same owner replaces the first."""
    one, two = (world.nlm(world.host(), dialect=dialect) for _ in range(2))
    handle = world.file().handle
    assert one.share(b"a", handle, access=fsh_access.fsa_R, mode=fsh_mode.fsm_DW) is GRANTED
    assert two.share(b"b", handle, access=fsh_access.fsa_W, mode=fsh_mode.fsm_DN) is DENIED
    assert two.share(b"b", handle, access=fsh_access.fsa_R, mode=fsh_mode.fsm_DR) is DENIED
    assert two.share(b"b", handle, access=fsh_access.fsa_R, mode=fsh_mode.fsm_DN) is GRANTED
    assert one.unshare(b"a", handle) is GRANTED
    assert one.unshare(b"a", handle) is GRANTED
    assert two.share(b"b", handle, access=fsh_access.fsa_W, mode=fsh_mode.fsm_DRW) is GRANTED
    assert one.share(b"a", handle, access=fsh_access.fsa_R, mode=fsh_mode.fsm_DN) is DENIED


def test_a_lock_without_monitoring(world: LockWorld) -> None:
    """NM_LOCK is a lock like any other."""
    nlm, file = world.nlm(world.host()), world.file()
    assert nlm.lock(ALICE, file, is_monitored=False) is GRANTED
    assert nlm.lock(BOB, file) is DENIED
    assert nlm.unlock(ALICE, file) is GRANTED


def test_a_callback_to_the_server_is_denied(world: LockWorld) -> None:
    """GRANTED is for clients."""
    assert world.nlm(world.host()).granted(ALICE, world.file()) is DENIED


def test_reclaim_outside_grace_is_denied(world: LockWorld) -> None:
    """[GRACE-2]."""
    assert world.nlm(world.host()).lock(ALICE, world.file(), reclaim=True) is DENIED


# Datagrams that come twice.


def test_a_late_datagram_changes_nothing(world: LockWorld) -> None:
    """[NFS-5]: a retransmitted UNLOCK does not take away what was locked since; nor does a LOCK come back."""
    host, file = world.host(), world.file()
    nlm = world.nlm(host, over=UdpTransport)
    assert nlm.lock(ALICE, file) is GRANTED
    unlock = exchange_of(NLM4, "UNLOCK").encode(
        77, NLM4.unlockargs(b"c", nlm._lock(ALICE, file)), credential=nlm.transport.credential
    )
    for _ in range(2):
        nlm.transport.send_record(unlock)
        assert exchange_of(NLM4, "UNLOCK").decode(nlm.transport.receive_record(77), 77).stat == GRANTED
        assert nlm.lock(ALICE, file) is GRANTED
    assert world.nlm(world.host()).lock(BOB, file) is DENIED, "the second one was the first one's echo"
    lock = exchange_of(NLM4, "LOCK").encode(78, nlm.lock_arguments(ALICE, file), credential=nlm.transport.credential)
    for _ in range(2):
        nlm.transport.send_record(lock)
        assert exchange_of(NLM4, "LOCK").decode(nlm.transport.receive_record(78), 78).stat == GRANTED
        assert nlm.unlock(ALICE, file) is GRANTED
    nlm.transport.send_record(lock)
    nlm.transport.receive_record(78)
    assert world.nlm(world.host()).lock(BOB, file) is GRANTED


# The program itself.


def test_versions_and_procedures_that_are_not_there(world: LockWorld) -> None:
    """[NFS-6]: version 2 is between ours and unknown all the same; version 1 has no SHARE."""
    host = world.host()
    with pytest.raises(VersionUnavailable) as refused:
        world.nlm(host).transport.call(Exchange("NLM2_NULL", PROGRAM, 2, 0))
    assert (refused.value.low, refused.value.high) == (1, 4)
    with pytest.raises(ProcedureUnavailable):
        world.nlm(host, dialect=NLM1).free_all()


def test_opaque_fields_are_bounded(world: LockWorld) -> None:
    """[NLM-7]: an owner of 1,024 bytes is served."""
    nlm, file = world.nlm(world.host()), world.file()
    owner = LockOwner(-1, bytes(1024))
    assert nlm.lock(owner, file) is GRANTED
    status, holder = nlm.test(ALICE, file)
    assert (status, holder.svid, holder.oh) == (DENIED, -1, bytes(1024))


def test_every_status_was_reachable() -> None:
    """[NLM-3]: the grace period's is in the tests of restarts."""
    named = {BLOCKED, DEADLCK, DENIED, FAILED, FBIG, GRANTED, NOLOCKS, ROFS, STALE_FH}
    assert set(nlm4_stats) - named == {nlm4_stats.NLM4_DENIED_GRACE_PERIOD}


def test_the_port_mapper_announces_every_version_over_both_transports(tmp_path: Path) -> None:
    """[NLM-1]: on by default, on the NFS port."""
    skip_unless_root()
    address = own_address()
    on = {"DITTOFS_SERVER_PORTMAP": "embedded"}
    with ServerProcess(tmp_path, MEMORY, server=f'listen = ["{address}"]', environment=on) as server:
        with TcpTransport(address, 111) as transport:
            found = {(entry.vers, entry.prot, entry.port) for entry in mappings(transport) if entry.prog == PROGRAM}
        assert found == {(version, protocol, server.port) for version in (1, 3, 4) for protocol in (6, 17)}
        assert "nolock" not in server.printed.partition("From this machine")[0]


def test_over_ipv6(tmp_path: Path) -> None:
    """[NLM-1]."""
    if not is_ipv6_here():
        pytest.skip("no IPv6 here")
    with ServerProcess(tmp_path, MEMORY + ONE_SHARE, server='listen = ["::1"]') as server:
        with server.connect(address="::1") as nfs:
            made = nfs.create(nfs.root, b"file")
            assert made.obj is not None
            file = Range(handle=made.obj)
            assert NlmClient(nfs.transport, b"six").lock(ALICE, file) is GRANTED
            assert NlmClient(nfs.transport, b"seven").lock(ALICE, file) is DENIED
