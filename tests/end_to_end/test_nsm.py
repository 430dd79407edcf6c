"""The built-in status monitor over real sockets: its state, reboots of clients, and restarts of the server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dittofs.client import portmap
from dittofs.client.nsm import NsmClient
from dittofs.client.transports import TcpTransport, UdpTransport
from dittofs.protocols.nsm.types import PROGRAM, my_id, res
from dittofs.rpc.calling import CredentialsDenied
from tests.end_to_end.locking import ALICE, BLOCKED, BOB, DENIED, GRACE, GRANTED, LockWorld, lock_world
from tests.end_to_end.namespaces import ADDRESS, Namespace, namespace
from tests.end_to_end.server_process import EMBEDDED, MEMORY, ONE_SHARE, ServerProcess
from tests.hosts.host import Host
from tests.hosts.statd import Statd

pytestmark = [pytest.mark.slow, pytest.mark.root]

ASKER = my_id(b"localhost", 100021, 3, 16)


def nsm(world: LockWorld, host: Host) -> NsmClient:
    """From the host's address."""
    return NsmClient(host.transport(world.server.port))


class TestOwnState:
    """[NSM-1]."""

    @pytest.mark.parametrize("stores", [EMBEDDED, MEMORY], ids=["embedded", "memory"])
    def test_it_is_odd_and_grows_with_each_start(self, tmp_path: Path, stores: str) -> None:
        """Kept in the data directory whatever the stores, over a clean stop and over SIGKILL."""
        states = []
        with ServerProcess(tmp_path, stores + ONE_SHARE) as server:
            for end in (server.terminate, server.kill, server.kill, server.terminate):
                with server.transport() as transport:
                    states.append(NsmClient(transport).stat().state)
                end()
                server.start()
            with server.transport(over=UdpTransport) as transport:
                states.append(NsmClient(transport).stat().state)
        assert all(state % 2 == 1 for state in states), states
        assert states == sorted(set(states)), states

    def test_a_start_that_is_killed_half_way_uses_its_number_up(self, tmp_path: Path) -> None:
        """Nobody hears one number from two runs."""
        with ServerProcess(tmp_path) as server:
            with server.transport() as transport:
                before = NsmClient(transport).stat().state
            for _ in range(3):
                server.kill()
                server.launch()
            server.kill()
            server.start()
            with server.transport() as transport:
                assert NsmClient(transport).stat().state > before


class TestWhoMayAsk:
    """[NSM-1]: what is for everybody, and what only for programs of the server's own host."""

    @pytest.fixture(scope="class")
    @staticmethod
    def network() -> Iterator[Namespace]:
        with namespace() as made:
            yield made

    @pytest.fixture(scope="class")
    @staticmethod
    def server(network: Namespace, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
        with ServerProcess(
            tmp_path_factory.mktemp("server"),
            MEMORY + ONE_SHARE,
            server="",
            environment={"DITTOFS_SERVER_PORTMAP": "embedded"},
            within=network.enter,
        ) as running:
            yield running

    @pytest.fixture(params=[TcpTransport, UdpTransport], ids=["tcp", "udp"])
    @staticmethod
    def over(request: pytest.FixtureRequest) -> type[TcpTransport] | type[UdpTransport]:
        chosen: type[TcpTransport | UdpTransport] = request.param
        return chosen

    @pytest.fixture
    @staticmethod
    def here(
        network: Namespace, server: ServerProcess, over: type[TcpTransport] | type[UdpTransport]
    ) -> Iterator[NsmClient]:
        with network.within(lambda: over("127.0.0.1", server.port)) as transport:
            yield NsmClient(transport)

    @pytest.fixture
    @staticmethod
    def elsewhere(
        network: Namespace, server: ServerProcess, over: type[TcpTransport] | type[UdpTransport]
    ) -> Iterator[NsmClient]:
        with network.within(lambda: over(ADDRESS, server.port)) as transport:
            yield NsmClient(transport)

    def test_the_port_mapper_names_it(self, network: Namespace, server: ServerProcess) -> None:
        with network.within(lambda: TcpTransport(ADDRESS, portmap.PORT)) as transport:
            for protocol in ("tcp", "udp"):
                assert portmap.port_of(transport, PROGRAM, 1, protocol) == server.port

    def test_anybody_may_ask_for_the_state_and_tell_of_his_reboot(self, elsewhere: NsmClient) -> None:
        elsewhere.null()
        assert elsewhere.stat().state % 2 == 1
        assert elsewhere.stat(b"192.0.2.7").res_stat == res.STAT_SUCC
        assert elsewhere.stat(b"a name that nobody has").res_stat == res.STAT_FAIL
        elsewhere.notify(b"somebody", 3)

    def test_only_programs_of_this_host_may_have_others_watched(
        self, here: NsmClient, elsewhere: NsmClient, server: ServerProcess
    ) -> None:
        state = here.stat().state
        for refused in (
            lambda: elsewhere.mon(b"192.0.2.7", ASKER),
            lambda: elsewhere.unmon(b"192.0.2.7", ASKER),
            lambda: elsewhere.unmon_all(ASKER),
            elsewhere.simu_crash,
        ):
            with pytest.raises(CredentialsDenied):
                refused()
        assert here.stat().state == state, "a refused SM_SIMU_CRASH changes nothing"
        assert "only programs of this host" in server.log()

    def test_programs_of_this_host_may(self, here: NsmClient) -> None:
        answer = here.mon(b"192.0.2.7", ASKER)
        assert answer.res_stat == res.STAT_SUCC
        assert here.mon(b"a name that nobody has", ASKER).res_stat == res.STAT_FAIL
        assert here.unmon(b"192.0.2.7", ASKER) == answer.state
        assert here.unmon_all(ASKER) == answer.state
        here.simu_crash()
        assert here.stat().state == answer.state + 2


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LockWorld]:
    with lock_world(tmp_path_factory.mktemp("server"), EMBEDDED + ONE_SHARE) as made:
        yield made


class TestRebootsOfClients:
    """[NSM-3]."""

    def test_a_reboot_frees_its_locks_and_the_waiter_gets_them_at_once(self, world: LockWorld) -> None:
        holder, waiter, file = world.host(), world.host(), world.file()
        assert world.nlm(holder).lock(ALICE, file, state=3) is GRANTED
        assert world.nlm(waiter).lock(BOB, file, block=True, state=7) is BLOCKED
        nsm(world, holder).notify(holder.name, 5)
        assert waiter.grants.wait(1).lock.caller_name == waiter.name
        assert world.nlm(holder).lock(ALICE, file, state=5) is DENIED

    def test_its_own_waits_go_too(self, world: LockWorld) -> None:
        holder, waiter, file = world.host(), world.host(), world.file()
        holding = world.nlm(holder)
        assert holding.lock(ALICE, file) is GRANTED
        assert world.nlm(waiter).lock(BOB, file, block=True, state=3) is BLOCKED
        nsm(world, waiter).notify(waiter.name, 5)
        assert holding.unlock(ALICE, file) is GRANTED
        third = world.nlm(world.host())
        assert third.lock(ALICE, file) is GRANTED, "nobody is in the queue"
        assert not waiter.grants

    def test_a_late_one_spares_the_locks_of_the_new_boot(self, world: LockWorld) -> None:
        host, file, other = world.host(), world.file(), world.file()
        locking, stranger = world.nlm(host), world.nlm(world.host())
        assert locking.lock(ALICE, file, state=3) is GRANTED
        assert locking.lock(ALICE, other, state=5) is GRANTED, "a newer state is as good as an SM_NOTIFY"
        assert stranger.lock(BOB, file) is GRANTED
        nsm(world, host).notify(host.name, 5)
        assert stranger.lock(BOB, other) is DENIED

    def test_a_replayed_one_changes_nothing(self, world: LockWorld) -> None:
        host, file = world.host(), world.file()
        locking, stranger = world.nlm(host), world.nlm(world.host())
        assert locking.lock(ALICE, file, state=3) is GRANTED
        nsm(world, host).notify(host.name, 5)
        assert locking.lock(ALICE, file, state=5) is GRANTED
        for state in (5, 3, 1):
            nsm(world, host).notify(host.name, state)
            assert stranger.lock(BOB, file) is DENIED, state
        assert "older than what the client said since" in world.server.log()

    def test_a_forged_one_changes_nothing(self, world: LockWorld) -> None:
        """From another address, under the right name; with or without locks of its own."""
        host, forger, file = world.host(), world.host(), world.file()
        assert world.nlm(host).lock(ALICE, file, state=3) is GRANTED
        nsm(world, forger).notify(host.name, 5)
        stranger = world.nlm(forger)
        assert stranger.lock(BOB, file) is DENIED
        assert stranger.lock(BOB, world.file(), state=3) is GRANTED
        nsm(world, forger).notify(host.name, 7)
        assert stranger.lock(BOB, file) is DENIED
        assert "no client of that address has locks here" in world.server.log()

    @pytest.mark.parametrize("name", [b":", b"/", b"../../etc", b"a:b/c", b"x" * 1024, b"\x00\xff\x1b[2J", b""])
    def test_hostile_names_free_nothing_of_others(self, world: LockWorld, name: bytes) -> None:
        """Two clients of one address: a name that is neither's frees neither's locks."""
        host = world.host()
        files = [world.file(), world.file()]
        for file, caller in zip(files, (b"one", b"two"), strict=True):
            assert world.nlm(host, name=caller).lock(ALICE, file, state=3) is GRANTED
        nsm(world, host).notify(name, 5)
        stranger = world.nlm(world.host())
        assert [stranger.lock(BOB, file) for file in files] == [DENIED, DENIED]
        log = world.server.log()
        assert "the name does not tell which it is" in log
        assert "\x1b[2J" not in log, "what a terminal would obey is not printed"

    @pytest.mark.parametrize("name", [b"a:b", b"/", b"..", b"x" * 1024, b"\x00\xff"])
    def test_a_client_of_a_hostile_name_is_served_as_any_other(self, world: LockWorld, name: bytes) -> None:
        host, file, stranger = world.host(), world.file(), world.nlm(world.host())
        assert world.nlm(host, name=name).lock(ALICE, file, state=3) is GRANTED
        assert stranger.lock(BOB, file) is DENIED
        nsm(world, host).notify(name, 5)
        assert stranger.lock(BOB, file) is GRANTED

    def test_over_udp_too(self, world: LockWorld) -> None:
        host, file, stranger = world.host(), world.file(), world.nlm(world.host())
        assert world.nlm(host, over=UdpTransport).lock(ALICE, file, state=3) is GRANTED
        NsmClient(host.transport(world.server.port, over=UdpTransport)).notify(host.name, 5)
        assert stranger.lock(BOB, file) is GRANTED

    def test_a_closed_connection_frees_nothing(self, world: LockWorld) -> None:
        """[CLIENT-1]: NLM clients come and go without their connections."""
        host, file = world.host(), world.file()
        locking = world.nlm(host)
        assert locking.lock(ALICE, file) is GRANTED
        locking.transport.close()
        assert world.nlm(world.host()).lock(BOB, file) is DENIED
        assert world.nlm(host).unlock(ALICE, file) is GRANTED


class TestRestartsOfTheServer:
    """[NSM-2] [NSM-4]."""

    @pytest.mark.parametrize("end", [ServerProcess.kill, ServerProcess.terminate], ids=["kill", "stop"])
    def test_every_client_hears_of_it_and_reclaims(self, tmp_path: Path, end: object) -> None:
        """Under the name that is set, from the address that the client knew, with a state that has grown.  Grace ends
        with the last reclaim."""
        assert callable(end)
        config = EMBEDDED + ONE_SHARE + '[nsm]\nname = "files.example.org"\n[locks]\ngrace_seconds = 60\n'
        with lock_world(tmp_path, config, server='listen = ["0.0.0.0"]') as world:
            holder, waiter, file, other = world.host(), world.host(), world.file(), world.file()
            statds = [Statd(holder), Statd(waiter, transports=("tcp",))]
            known = "127.9.9.9"
            assert world.nlm(holder, server=known).lock(ALICE, file, state=3) is GRANTED
            assert world.nlm(waiter, server=known).lock(BOB, file, block=True, state=3) is BLOCKED
            before = nsm(world, holder).stat().state
            end(world.server)
            world.server.start()
            for statd, transport in zip(statds, ("udp", "tcp"), strict=True):
                notice = statd.notices.wait(1)
                assert (notice.name, notice.peer.address) == (b"files.example.org", known)
                assert notice.peer.transport == transport
                assert notice.state == before + 2
            assert world.nlm(waiter).lock(BOB, file, state=3) is GRACE
            assert world.nlm(holder).lock(ALICE, file, reclaim=True, state=3) is GRANTED
            assert world.nlm(waiter).lock(BOB, file, state=3) is DENIED, "grace is over, and the lock is held"
            assert world.nlm(waiter).lock(BOB, other, state=3) is GRANTED

    def test_who_cannot_be_reached_is_told_when_he_can(self, tmp_path: Path) -> None:
        """Not reachable is not crashed: its lock is there, and it is told again and again."""
        with lock_world(tmp_path, EMBEDDED + ONE_SHARE) as world:
            host, file = world.host(), world.file()
            assert world.nlm(host).lock(ALICE, file, state=3) is GRANTED
            world.server.kill()
            world.server.start()
            # No statd yet: the port mapper says that there is none.
            assert world.nlm(world.host()).test(BOB, file)[0] is DENIED
            notice = Statd(host).notices.wait(1)
            assert notice.peer.address == "127.0.0.1"
            assert world.nlm(host).lock(ALICE, file, reclaim=True, state=3) is GRANTED

    def test_who_was_told_and_has_nothing_is_not_told_again(self, tmp_path: Path) -> None:
        """[NSM-2]: the record ends.  One who has not heard stays recorded."""
        config = EMBEDDED + ONE_SHARE + "[clients.nlm]\nstale_check_seconds = 0.1\n[locks]\ngrace_seconds = 0\n"
        with lock_world(tmp_path, config) as world:
            told, deaf = world.host(), world.host()
            statd = Statd(told)
            for host in (told, deaf):
                assert world.nlm(host).lock(ALICE, world.file(), state=3) is GRANTED
            world.server.kill()
            world.server.start()
            statd.notices.wait(1)
            world.server.wait_for_log("clients that have nothing are watched no longer")
            world.server.kill()
            world.server.start()
            Statd(deaf).notices.wait(1)
            assert len(statd.notices) == 1


def test_a_client_that_waited_is_told_as_well(tmp_path: Path) -> None:
    """[NSM-2]: it was recorded before it heard BLOCKED, though it holds nothing."""
    with lock_world(tmp_path, EMBEDDED + ONE_SHARE) as world:
        holder, waiter, file = world.host(), world.host(), world.file()
        statd = Statd(waiter)
        assert world.nlm(holder).lock(ALICE, file) is GRANTED
        assert world.nlm(waiter).lock(BOB, file, block=True) is BLOCKED
        world.server.kill()
        world.server.start()
        assert statd.notices.wait(1).state % 2 == 1
