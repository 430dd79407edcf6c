"""[NFS-3]: our own port mapper on port 111: versions 2, 3 and 4, over TCP and UDP."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from dittofs.client import portmap as p
from dittofs.client.transports import TcpTransport, Transport, UdpTransport
from dittofs.protocols.portmap.types import IPPROTO_TCP, IPPROTO_UDP, mapping, rpcb
from dittofs.rpc.calling import Exchange, ProcedureUnavailable
from tests.end_to_end.namespaces import ADDRESS, Namespace, namespace
from tests.end_to_end.server_process import MEMORY, ONE_SHARE, ServerProcess

pytestmark = [pytest.mark.root, pytest.mark.slow]

NFS, MOUNT = 100003, 100005
MINE = 0x2000_0042
"""A program of nobody's."""


@pytest.fixture(scope="module")
def network() -> Iterator[Namespace]:
    with namespace() as made:
        yield made


@pytest.fixture(scope="module")
def server(network: Namespace, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(
        tmp_path_factory.mktemp("server"),
        MEMORY + ONE_SHARE,
        server="",
        environment={"DITTOFS_SERVER_PORTMAP": "auto"},
        within=network.enter,
    ) as running:
        yield running


@pytest.fixture(params=[TcpTransport, UdpTransport], ids=["tcp", "udp"])
def over(request: pytest.FixtureRequest) -> type[TcpTransport] | type[UdpTransport]:
    chosen: type[TcpTransport | UdpTransport] = request.param
    return chosen


@pytest.fixture
def here(network: Namespace, server: ServerProcess, over: type[Transport]) -> Iterator[Transport]:
    """A client on the server's own host."""
    with network.within(lambda: over("127.0.0.1", p.PORT)) as made:
        yield made


@pytest.fixture
def elsewhere(network: Namespace, server: ServerProcess, over: type[Transport]) -> Iterator[Transport]:
    """A client whose address is not loopback; a reply from any other address would not reach it."""
    with network.within(lambda: over(ADDRESS, p.PORT)) as made:
        yield made


def entry(version: int = 1, *, netid: bytes = b"tcp", address: bytes = b"0.0.0.0.3.4", program: int = MINE) -> rpcb:
    return rpcb(program, version, netid, address, b"somebody")


@pytest.mark.parametrize(("program", "version"), [(NFS, 3), (MOUNT, 3), (MOUNT, 1)])
@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_getport_names_our_port(
    server: ServerProcess, elsewhere: Transport, program: int, version: int, protocol: str
) -> None:
    """Over UDP too, and the answer leaves from the address that was asked."""
    assert p.port_of(elsewhere, program, version, protocol) == server.port


def test_getport_of_what_is_not_there(elsewhere: Transport) -> None:
    assert p.port_of(elsewhere, 400_000, 1) == 0
    assert elsewhere.call(p.GETPORT, mapping(NFS, 3, 132, 0)) == 0


def test_another_version_of_a_program_gets_its_port(server: ServerProcess, elsewhere: Transport) -> None:
    """RFC 1833: the program itself then tells which versions it has."""
    assert p.port_of(elsewhere, NFS, 2) == server.port


def test_getaddr_answers_with_the_address_that_was_asked(server: ServerProcess, elsewhere: Transport) -> None:
    high, low = divmod(server.port, 256)
    expected = f"{ADDRESS}.{high}.{low}".encode()
    for exchange in (p.RPCB_GETADDR, replace(p.RPCB_GETADDR, version=3), p.RPCB_GETVERSADDR):
        assert elsewhere.call(exchange, entry(3, program=NFS, address=b"")) == expected
    assert elsewhere.call(p.RPCB_GETVERSADDR, entry(2, program=NFS, address=b"")) == b""


def test_the_list_has_every_program_on_both_transports(server: ServerProcess, here: Transport) -> None:
    listed = {(found.prog, found.vers, found.prot, found.port) for found in p.mappings(here)}
    for program, version in ((NFS, 3), (MOUNT, 1), (MOUNT, 3)):
        assert {(program, version, protocol, server.port) for protocol in (IPPROTO_TCP, IPPROTO_UDP)} <= listed
    for version in (2, 3, 4):
        assert {(p.PROGRAM, version, protocol, p.PORT) for protocol in (IPPROTO_TCP, IPPROTO_UDP)} <= listed
    networks = {(found.r_prog, found.r_vers, bytes(found.r_netid)) for found in here.call(p.RPCB_DUMP)}
    assert {(NFS, 3, netid) for netid in (b"tcp", b"udp", b"tcp6", b"udp6")} <= networks


def test_ipv6(network: Namespace, server: ServerProcess, over: type[Transport]) -> None:
    with network.within(lambda: over("::1", p.PORT)) as made:
        high, low = divmod(server.port, 256)
        asked = made.call(p.RPCB_GETADDR, entry(3, program=NFS, netid=b"tcp6", address=b""))
        assert asked == f"::1.{high}.{low}".encode()


@pytest.mark.parametrize(("version", "number"), [(2, 5), (3, 5), (4, 5), (4, 10)])
def test_nobody_is_called_through_us(here: Transport, version: int, number: int) -> None:
    """CALLIT, BCAST and INDIRECT are not there, not even from this host."""
    with pytest.raises(ProcedureUnavailable):
        here.call(Exchange("CALLIT", p.PROGRAM, version, number))


def test_entries_are_set_and_unset_from_this_host_only(here: Transport, elsewhere: Transport) -> None:
    mine = mapping(MINE, 1, IPPROTO_TCP, 772)
    assert not elsewhere.call(p.SET, mine)
    assert not elsewhere.call(p.RPCB_SET, entry())
    assert p.port_of(elsewhere, MINE, 1) == 0
    assert here.call(p.SET, mine)
    assert p.port_of(elsewhere, MINE, 1) == 772
    assert not here.call(p.SET, mapping(MINE, 1, IPPROTO_TCP, 773)), "an entry is not replaced"
    assert not elsewhere.call(p.UNSET, mine)
    assert not elsewhere.call(p.RPCB_UNSET, entry())
    assert p.port_of(elsewhere, MINE, 1) == 772
    assert here.call(p.UNSET, mine)
    assert p.port_of(elsewhere, MINE, 1) == 0


def test_unset_of_one_protocol_leaves_the_other(here: Transport) -> None:
    tcp, udp = mapping(MINE, 1, IPPROTO_TCP, 772), mapping(MINE, 1, IPPROTO_UDP, 773)
    for unset, first, second in (
        (p.UNSET, tcp, mapping(MINE, 1, 0, 0)),
        (p.RPCB_UNSET, entry(netid=b"tcp"), entry(netid=b"")),
    ):
        assert here.call(p.SET, tcp)
        assert here.call(p.SET, udp)
        assert here.call(unset, first)
        assert (p.port_of(here, MINE, 1, "tcp"), p.port_of(here, MINE, 1, "udp")) == (0, 773)
        assert here.call(unset, second), "who names no protocol means all"
        assert p.port_of(here, MINE, 1, "udp") == 0


def test_our_own_entries_stay(server: ServerProcess, here: Transport) -> None:
    """Whoever asks: they can be neither replaced nor removed."""
    assert not here.call(p.SET, mapping(NFS, 3, IPPROTO_TCP, 999))
    assert not here.call(p.UNSET, mapping(NFS, 3, IPPROTO_TCP, 0))
    assert not here.call(p.UNSET, mapping(NFS, 3, 0, 0))
    assert not here.call(p.RPCB_SET, entry(3, program=NFS))
    assert not here.call(p.RPCB_UNSET, entry(3, program=NFS, netid=b""))
    assert not here.call(p.UNSET, mapping(p.PROGRAM, 2, IPPROTO_TCP, 0))
    assert p.port_of(here, NFS, 3) == server.port


def test_others_entries_are_bounded(here: Transport) -> None:
    taken = 0
    while here.call(p.SET, mapping(MINE, taken, IPPROTO_UDP, 1)):
        taken += 1
        assert taken < 5000, "there is no bound"
    for version in range(taken):
        assert here.call(p.UNSET, mapping(MINE, version, IPPROTO_UDP, 0))


def test_the_printed_command_needs_no_options(server: ServerProcess) -> None:
    """[OPS-1]: a mount from elsewhere finds everything by itself."""
    assert f"mount -t nfs -o vers=3 {ADDRESS}:/export" in server.printed
