"""Blocking locks over real sockets: hosts of their own addresses wait, and are called back [NLM-4] [NLM-5] [NLM-6]."""

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dittofs.client.nlm import LockOwner, NlmClient, Range
from dittofs.client.transports import TcpTransport, UdpTransport
from dittofs.protocols.nlm.dialects import DIALECTS, Dialect
from dittofs.protocols.portmap.portmapper import PORTMAP2
from dittofs.protocols.portmap.rpcbind import RPCBIND3, RPCBIND4
from dittofs.rpc.program import Program
from tests.end_to_end.locking import (
    ALICE,
    BLOCKED,
    BOB,
    CAROL,
    DENIED,
    GRANTED,
    LockWorld,
    lock_world,
)
from tests.end_to_end.namespaces import namespace
from tests.end_to_end.server_process import MEMORY, ONE_SHARE, ServerProcess
from tests.hosts.host import Grant, Host, Late, OnGranted, fails, is_ipv6_here, never, twice
from tests.hosts.network import Network, own_address, skip_unless_root

pytestmark = [pytest.mark.slow, pytest.mark.root]

GIVE_UP_SECONDS = 3.0
LONG = 60.0
"""An answer that comes when nobody cares any more."""

SETTINGS = f"""
[locks]
callback_attempt_seconds = {GIVE_UP_SECONDS}
callback_give_up_seconds = {GIVE_UP_SECONDS}
"""

every_version = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: f"v{dialect.version}")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LockWorld]:
    with lock_world(tmp_path_factory.mktemp("server"), SETTINGS + MEMORY + ONE_SHARE) as made:
        yield made


class Held:
    """A file that Alice of one host holds, and others wait for, in the order of their coming."""

    def __init__(self, world: LockWorld, *waiters: Host, **how: Any):
        self.world = world
        self.file = world.file()
        self.holder = world.nlm(world.host())
        assert self.holder.lock(ALICE, self.file) is GRANTED
        self.waiters = [self.wait(host, BOB, **how) for host in waiters]

    def wait(self, host: Host, owner: LockOwner, **how: Any) -> NlmClient:
        nlm = self.world.nlm(host, **how)
        assert nlm.lock(owner, self.file, block=True) is BLOCKED
        return nlm

    def release(self) -> float:
        assert self.holder.unlock(ALICE, self.file) is GRANTED
        return time.monotonic()


@every_version
@pytest.mark.parametrize("over", [TcpTransport, UdpTransport], ids=["tcp", "udp"])
def test_a_waiter_is_called_back_with_the_lock_as_it_asked_for_it(
    world: LockWorld, dialect: Dialect, over: Any
) -> None:
    """[NLM-5]: handle, range, owner, caller and cookie, in its version, whatever it asked over."""
    waiter = world.host()
    nlm = world.nlm(waiter, dialect=dialect, over=over)
    held = Held(world)
    wanted = Range(handle=held.file.handle, offset=7, length=11)
    request = nlm.lock_arguments(BOB, wanted, exclusive=False, block=True)
    assert nlm._status("LOCK", request) is BLOCKED
    held.release()
    grant = waiter.grants.wait(1)
    assert (grant.dialect, grant.args.cookie, grant.args.exclusive) == (dialect, request.cookie, False)
    assert grant.lock == request.alock
    assert (grant.peer.address, grant.peer.transport) == ("127.0.0.1", "tcp")
    assert held.holder.lock(ALICE, held.file) is DENIED


def test_the_callback_leaves_from_the_address_that_was_asked(tmp_path: Path) -> None:
    """[NLM-5]: Linux compares it with the address it mounted from."""
    second = own_address()
    with lock_world(tmp_path, server=f'listen = ["127.0.0.1", "{second}"]') as world:
        host = world.host()
        held = Held(world)
        held.wait(host, BOB, server=second)
        held.release()
        assert host.grants.wait(1).peer.address == second


def test_a_lock_service_that_speaks_udp_only(world: LockWorld) -> None:
    """[NLM-5]."""
    host = world.host(transports=("udp",))
    held = Held(world, host)
    held.release()
    assert host.grants.wait(1).peer.transport == "udp"
    assert held.holder.lock(ALICE, held.file) is DENIED


@pytest.mark.parametrize("spoken", [PORTMAP2, RPCBIND3, RPCBIND4], ids=lambda program: f"version-{program.version}")
def test_any_version_of_the_port_mapper_will_do(world: LockWorld, spoken: Program) -> None:
    """[NLM-5]: portmap 2, rpcbind 3 and 4."""
    host = world.host(port_mappers=(spoken,))
    held = Held(world, host)
    held.release()
    host.grants.wait(1)


def test_over_ipv6_the_callback_finds_its_way_too(tmp_path: Path) -> None:
    """[NLM-5]: in a network of its own, where both sides have addresses."""
    if not is_ipv6_here():
        pytest.skip("no IPv6 here")
    server_address, client_address = "fd00::1", "fd00::2"
    with namespace() as made, contextlib.ExitStack() as stack:
        for address in (server_address, client_address):
            subprocess.run(["ip", "-n", made.name, "addr", "add", f"{address}/128", "dev", "lo", "nodad"], check=True)
        server = stack.enter_context(
            ServerProcess(tmp_path, MEMORY + ONE_SHARE, server=f'listen = ["{server_address}"]', within=made.enter)
        )
        network = stack.enter_context(Network(made.enter_thread))
        host = stack.enter_context(Host(network, b"six", address=client_address))
        nfs = stack.enter_context(made.within(lambda: server.connect(address=server_address)))
        created = nfs.create(nfs.root, b"file")
        assert created.obj is not None
        file, holding = Range(handle=created.obj), NlmClient(nfs.transport, b"holder")
        waiting = made.within(lambda: host.nlm(server.port, server=server_address))
        assert holding.lock(ALICE, file) is GRANTED
        assert waiting.lock(BOB, file, block=True) is BLOCKED
        assert holding.unlock(ALICE, file) is GRANTED
        grant = host.grants.wait(1)
        assert (grant.peer.address, grant.peer.transport) == (server_address, "tcp")


def test_the_port_is_asked_again_when_the_lock_service_has_moved(world: LockWorld) -> None:
    """[NLM-5]: what was remembered is wrong after a reboot."""
    host = world.host()
    held = Held(world, host)
    held.release()
    host.grants.wait(1)
    host.restart_lock_service()
    assert held.waiters[0].unlock(BOB, held.file) is GRANTED
    assert held.holder.lock(ALICE, held.file) is GRANTED
    assert held.waiters[0].lock(BOB, held.file, block=True) is BLOCKED
    held.release()
    host.grants.wait(2)


def test_waiters_come_in_the_order_of_their_asking(world: LockWorld) -> None:
    """[LOCK-7]."""
    hosts = [world.host() for _ in range(5)]
    held = Held(world, *hosts)
    held.release()
    for host, nlm in zip(hosts, held.waiters, strict=True):
        host.grants.wait(1)
        assert sum(len(other.grants) for other in hosts) == hosts.index(host) + 1
        assert nlm.unlock(BOB, held.file) is GRANTED


def test_readers_that_wait_together_are_called_together(world: LockWorld) -> None:
    """[NLM-5]: a hundred at once."""
    hosts = [world.host() for _ in range(5)]
    held = Held(world)
    for host in hosts:
        nlm = world.nlm(host)
        for number in range(20):
            assert nlm.lock(LockOwner(number, b"r"), held.file, exclusive=False, block=True) is BLOCKED
    held.release()
    for host in hosts:
        host.grants.wait(20)
        assert {grant.lock.svid for grant in host.grants} == set(range(20))


def test_two_hosts_of_one_name_and_one_owner_are_two(world: LockWorld) -> None:
    """[LOCK-2]: cloned machines; each is called at its own address."""
    twins = [world.host(b"clone") for _ in range(2)]
    held = Held(world, *twins)
    held.release()
    twins[0].grants.wait(1)
    assert not twins[1].grants
    assert held.waiters[1].lock(BOB, held.file) is DENIED
    assert held.waiters[0].unlock(BOB, held.file) is GRANTED
    twins[1].grants.wait(1)
    assert held.waiters[0].lock(BOB, held.file) is DENIED


# What sends again.


def test_a_request_sent_again_has_one_place_and_is_granted_once(world: LockWorld) -> None:
    """[NLM-4]: clients poll."""
    host, last = world.host(), world.host()
    held = Held(world, host)
    for _ in range(3):
        assert held.waiters[0].lock(BOB, held.file, block=True) is BLOCKED
    held.wait(last, CAROL)
    held.release()
    host.grants.wait(1)
    assert held.waiters[0].unlock(BOB, held.file) is GRANTED
    last.grants.wait(1)
    assert len(host.grants) == 1


def test_the_same_lock_sent_again_settles_the_offer(world: LockWorld) -> None:
    """[NLM-4] [NLM-5]: and the answer that is still to come is ignored."""
    host, next_one = world.host(on_granted=lambda grant: Late(GIVE_UP_SECONDS / 2, DENIED)), world.host()
    held = Held(world, host, next_one)
    held.release()
    host.grants.wait(1)
    assert held.waiters[0].lock(BOB, held.file, block=True) is GRANTED
    time.sleep(GIVE_UP_SECONDS)  # DENIED has come meanwhile, and the time to give up is over
    assert held.holder.lock(ALICE, held.file) is DENIED
    assert not next_one.grants
    assert held.waiters[0].unlock(BOB, held.file) is GRANTED
    next_one.grants.wait(1)


# Answers.


@pytest.mark.parametrize("answer", [lambda grant: Late(GIVE_UP_SECONDS / 4), twice], ids=["late", "twice"])
def test_a_late_or_double_answer_is_an_answer(world: LockWorld, answer: OnGranted) -> None:
    """[NLM-5]: within the time of an attempt."""
    host, next_one = world.host(on_granted=answer), world.host()
    held = Held(world, host, next_one)
    held.release()
    host.grants.wait(1)
    time.sleep(GIVE_UP_SECONDS * 1.5)  # long enough to have given up
    assert not next_one.grants
    assert held.holder.lock(ALICE, held.file) is DENIED
    assert held.waiters[0].unlock(BOB, held.file) is GRANTED
    next_one.grants.wait(1)


def refuses(grant: Grant) -> Any:
    return DENIED


@pytest.mark.parametrize("answer", [refuses, fails], ids=["denied", "error"])
def test_a_refusal_passes_the_lock_on_at_once(world: LockWorld, answer: OnGranted) -> None:
    """[NLM-5]: the client does not have it; its wait is over."""
    host, next_one = world.host(on_granted=answer), world.host()
    held = Held(world, host, next_one)
    at = held.release()
    assert next_one.grants.wait(1).at - at < GIVE_UP_SECONDS
    assert held.waiters[1].unlock(BOB, held.file) is GRANTED
    assert held.holder.lock(ALICE, held.file) is GRANTED
    assert len(host.grants) == 1


def test_a_dead_lock_service_passes_the_lock_on_at_once(world: LockWorld) -> None:
    """[NLM-5]: connection refused; with and without a port that was known."""
    for was_called_before in (False, True):
        host, next_one = world.host(), world.host()
        if was_called_before:
            before = Held(world, host)
            before.release()
            host.grants.wait(1)
        held = Held(world, host, next_one)
        host.die()
        at = held.release()
        assert next_one.grants.wait(1).at - at < GIVE_UP_SECONDS
    assert f"port 111 of {host.address} refuses connections" in world.server.log()


def test_a_host_without_a_lock_service_passes_the_lock_on_at_once(world: LockWorld) -> None:
    """[NLM-5]: its port mapper says so."""
    host, next_one = world.host(transports=()), world.host()
    held = Held(world, host, next_one)
    at = held.release()
    assert next_one.grants.wait(1).at - at < GIVE_UP_SECONDS
    assert f"the port mapper of {host.address} knows no program 100021" in world.server.log()


def test_silence_costs_the_others_the_give_up_time_once(world: LockWorld) -> None:
    """[NLM-5]: then the silent client's waiters keep their places and are passed over, until it is heard again."""
    dead, live = world.host(on_granted=never), world.host()
    held = Held(world, dead)
    second = held.wait(dead, CAROL)
    waiting = held.wait(live, BOB)
    at = held.release()
    took = live.grants.wait(1).at - at
    assert GIVE_UP_SECONDS * 0.9 < took < GIVE_UP_SECONDS * 3, "once, although it waited twice"
    assert len(dead.grants) == 1
    dead.on_granted = lambda grant: GRANTED
    assert waiting.unlock(BOB, held.file) is GRANTED
    assert held.holder.lock(ALICE, held.file) is GRANTED, "nobody who is heard is waiting"
    assert second.test(CAROL, held.file)[0] is DENIED
    held.release()
    assert dead.grants.wait(2).lock.svid == BOB.svid, "its first place"
    assert second.unlock(BOB, held.file) is GRANTED
    assert dead.grants.wait(3).lock.svid == CAROL.svid


def test_a_host_that_is_cut_off_is_silent_too(world: LockWorld) -> None:
    """[NLM-5]: its port mapper does not answer either.  Unreachable does not mean crashed: it keeps its place."""
    lost, live = world.host(), world.host()
    held = Held(world, lost, live)
    lost.cut_off()
    held.release()
    live.grants.wait(1)
    lost.reconnect()
    assert held.waiters[0].lock(BOB, held.file, block=True) is BLOCKED
    assert held.waiters[1].unlock(BOB, held.file) is GRANTED
    lost.grants.wait(1)


# Cancelling and unlocking while the grant is on its way.


def test_cancel_takes_a_waiter_out(world: LockWorld) -> None:
    """[NLM-6]: and whoever waited behind it goes on."""
    host, reader = world.host(), world.host()
    file = world.file()
    holder = world.nlm(world.host())
    assert holder.lock(ALICE, file, exclusive=False) is GRANTED
    writing, reading = world.nlm(host), world.nlm(reader)
    assert writing.lock(BOB, file, block=True) is BLOCKED
    assert reading.lock(CAROL, file, exclusive=False, block=True) is BLOCKED
    assert writing.cancel(BOB, file, exclusive=False) is GRANTED, "another request: nothing changes"
    assert not reader.grants
    assert writing.cancel(BOB, file) is GRANTED
    reader.grants.wait(1)
    assert holder.unlock(ALICE, file) is GRANTED
    assert reading.unlock(CAROL, file) is GRANTED
    assert holder.lock(ALICE, file) is GRANTED
    assert not host.grants


def test_cancel_undoes_a_grant_that_is_on_its_way(world: LockWorld) -> None:
    """[NLM-6]: and the answer to it is ignored; a CANCEL after it is settled changes nothing."""
    host, next_one = world.host(on_granted=lambda grant: Late(LONG)), world.host()
    held = Held(world, host, next_one)
    at = held.release()
    host.grants.wait(1)
    assert held.waiters[0].cancel(BOB, held.file) is GRANTED
    assert next_one.grants.wait(1).at - at < GIVE_UP_SECONDS
    assert held.waiters[1].lock(BOB, held.file, block=True) is GRANTED
    assert held.waiters[1].cancel(BOB, held.file) is GRANTED
    assert held.holder.lock(ALICE, held.file) is DENIED


def test_unlock_may_overtake_the_answer_to_the_grant(world: LockWorld) -> None:
    """[NLM-5]: seen with Linux; the next waiter must not sleep until the attempt has ended."""
    host, next_one = world.host(on_granted=lambda grant: Late(LONG)), world.host()
    held = Held(world, host, next_one)
    at = held.release()
    host.grants.wait(1)
    assert held.waiters[0].unlock(BOB, held.file) is GRANTED
    assert next_one.grants.wait(1).at - at < GIVE_UP_SECONDS
    assert held.holder.lock(ALICE, held.file) is DENIED


def test_a_refused_upgrade_gives_back_exactly_what_was_held(world: LockWorld) -> None:
    """[LOCK-3] [NLM-5]: the callback carries the range as asked for, not as merged."""
    host = world.host(on_granted=refuses)
    file, nlm, other = world.file(), world.nlm(host), world.nlm(world.host())

    def part(offset: int, length: int) -> Range:
        return Range(handle=file.handle, offset=offset, length=length)

    assert nlm.lock(BOB, part(0, 100), exclusive=False) is GRANTED
    assert other.lock(ALICE, part(50, 100), exclusive=False) is GRANTED
    assert nlm.lock(BOB, part(50, 100), block=True) is BLOCKED
    assert other.unlock(ALICE, part(50, 100)) is GRANTED
    grant = host.grants.wait(1)
    assert (grant.lock.l_offset, grant.lock.l_len, grant.args.exclusive) == (50, 100, True)
    deadline = time.monotonic() + LONG
    while other.lock(ALICE, part(100, 50)) is not GRANTED:
        assert time.monotonic() < deadline, "the refused part is given back"
    status, holder = other.test(ALICE, part(0, 100))
    assert (status, holder.l_offset, holder.l_len, holder.exclusive) == (DENIED, 0, 100, False)
    assert other.test(ALICE, part(0, 100), exclusive=False)[0] is GRANTED


# Longer patience.


def accepts(grant: Grant) -> Any:
    return GRANTED


def in_turn(*answers: OnGranted) -> OnGranted:
    """One after the other; the last for ever."""
    left = list(answers)

    def answer(grant: Grant) -> Any:
        return (left.pop(0) if len(left) > 1 else left[0])(grant)

    return answer


def test_a_refusal_of_a_repeated_callback_does_not_release(tmp_path: Path) -> None:
    """[NLM-5]: the first may have arrived.  With more time than one attempt takes, attempts are repeated."""
    settings = "[locks]\ncallback_attempt_seconds = 1\ncallback_give_up_seconds = 5\n"
    with lock_world(tmp_path, settings + MEMORY + ONE_SHARE) as world:
        host = world.host(on_granted=in_turn(never, refuses))
        next_one = world.host()
        held = Held(world, host, next_one)
        at = held.release()
        host.grants.wait(3)
        assert not next_one.grants
        assert next_one.grants.wait(1).at - at > 4.5


def test_a_repeated_callback_that_is_answered_settles(tmp_path: Path) -> None:
    """[NLM-5]."""
    settings = "[locks]\ncallback_attempt_seconds = 1\ncallback_give_up_seconds = 30\n"
    with lock_world(tmp_path, settings + MEMORY + ONE_SHARE) as world:
        host = world.host(on_granted=in_turn(never, never, accepts))
        held = Held(world, host)
        held.release()
        host.grants.wait(3)
        assert held.waiters[0].lock(BOB, held.file, block=True) is GRANTED


# Our own port.


def test_no_callback_goes_to_ourselves(tmp_path: Path) -> None:
    """[NFS-3] [NLM-5]: a client on the server's own host finds our port mapper there, which names our own port."""
    skip_unless_root()
    address = own_address()
    on = {"DITTOFS_SERVER_PORTMAP": "embedded"}
    with (
        ServerProcess(tmp_path, MEMORY + ONE_SHARE, server=f'listen = ["{address}"]', environment=on) as server,
        server.connect(address=address, source=address) as nfs,
    ):
        made = nfs.create(nfs.root, b"file")
        assert made.obj is not None
        file, nlm = Range(handle=made.obj), NlmClient(nfs.transport, b"self")
        assert nlm.lock(ALICE, file) is GRANTED
        assert nlm.lock(BOB, file, block=True) is BLOCKED
        assert nlm.unlock(ALICE, file) is GRANTED
        deadline = time.monotonic() + LONG
        while "names our own port" not in server.log():
            assert time.monotonic() < deadline, server.log()
        while nlm.lock(CAROL, file) is not GRANTED:
            assert time.monotonic() < deadline
