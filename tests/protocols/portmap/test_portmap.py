"""The port mapper's versions without sockets [NFS-3]: who may change what, and what each version tells."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dittofs.client import portmap as p
from dittofs.protocols.portmap.addresses import (
    NETWORK_IDS,
    NetworkId,
    from_transport_address,
    from_universal,
    transport_address,
    universal_address,
)
from dittofs.protocols.portmap.registry import OTHERS_KEPT, Registry, Service
from dittofs.protocols.portmap.types import IPPROTO_TCP, IPPROTO_UDP, mapping, netbuf, rpcb
from tests.protocols.world import DirectTransport, World

OURS, MINE = 100003, 0x2000_0042


@pytest.fixture
def announced(world: World) -> World:
    for network in NETWORK_IDS.values():
        world.portmap.announce(OURS, 3, network, 12049)
    return world


@pytest.fixture
def here(announced: World) -> DirectTransport:
    return announced.transport(address="127.0.0.1", local_address="127.0.0.1")


@pytest.fixture
def far(announced: World) -> Iterator[DirectTransport]:
    return announced.transport(address="192.0.2.1", local_address="192.0.2.9")


def entry(program: int, version: int, netid: bytes = b"tcp", address: bytes = b"192.0.2.9.3.4") -> rpcb:
    return rpcb(program, version, netid, address, b"me")


def test_each_version_tells_the_same(far: DirectTransport) -> None:
    assert p.port_of(far, OURS, 3) == 12049
    assert p.port_of(far, OURS, 3, "udp") == 12049
    assert far.call(p.RPCB_GETADDR, entry(OURS, 3)) == b"192.0.2.9.47.17"
    assert far.call(p.RPCB_GETADDR, entry(OURS, 3, b"tcp6")) == b"::.47.17", "it was asked over IPv4"
    assert far.call(p.RPCB_GETVERSADDR, entry(OURS, 4)) == b""
    ways = {bytes(way.r_nc_netid) for way in far.call(p.RPCB_GETADDRLIST, entry(OURS, 3))}
    assert ways == {b"tcp", b"udp", b"tcp6", b"udp6"}


def test_only_this_host_changes_entries(here: DirectTransport, far: DirectTransport) -> None:
    assert not far.call(p.SET, mapping(MINE, 1, IPPROTO_TCP, 700))
    assert not far.call(p.RPCB_SET, entry(MINE, 1))
    assert here.call(p.RPCB_SET, entry(MINE, 1))
    assert not far.call(p.RPCB_UNSET, entry(MINE, 1))
    assert far.call(p.RPCB_GETADDR, entry(MINE, 1)) == b"192.0.2.9.3.4"
    assert here.call(p.RPCB_UNSET, entry(MINE, 1))
    assert not here.call(p.RPCB_UNSET, entry(MINE, 1)), "it is gone"


def test_our_own_entries_cannot_be_replaced_or_removed(here: DirectTransport) -> None:
    assert not here.call(p.SET, mapping(OURS, 3, IPPROTO_TCP, 700))
    for version in (2, 4):
        unset = p.UNSET if version == 2 else p.RPCB_UNSET
        arguments = mapping(OURS, 3, 0, 0) if version == 2 else entry(OURS, 3, b"")
        assert not here.call(unset, arguments)
    assert p.port_of(here, OURS, 3) == 12049


def test_unset_of_one_protocol_leaves_the_other(here: DirectTransport) -> None:
    for protocol in (IPPROTO_TCP, IPPROTO_UDP):
        assert here.call(p.SET, mapping(MINE, 1, protocol, 700))
    assert here.call(p.UNSET, mapping(MINE, 1, IPPROTO_UDP, 0))
    assert (p.port_of(here, MINE, 1, "tcp"), p.port_of(here, MINE, 1, "udp")) == (700, 0)


@pytest.mark.parametrize("address", [b"", b"1.2.3.4", b"1.2.3.4.5", b"1.2.3.4.256.1", b"1.2.3.4.-1.5", b"x.1.1"])
def test_what_is_no_address_is_refused(here: DirectTransport, address: bytes) -> None:
    assert not here.call(p.RPCB_SET, entry(MINE, 1, address=address))
    assert here.call(p.RPCB_UADDR2TADDR, address) == netbuf(0, b"")


def test_addresses_are_translated_both_ways(here: DirectTransport) -> None:
    for address in (b"192.0.2.9.47.17", b"2001:db8::1.0.111"):
        packed = here.call(p.RPCB_UADDR2TADDR, address)
        assert here.call(p.RPCB_TADDR2UADDR, packed) == address
    assert here.call(p.RPCB_TADDR2UADDR, netbuf(3, b"abc")) == b""


@given(address=st.ip_addresses().map(str), port=st.integers(0, 65_535))
def test_universal_addresses_round_trip(address: str, port: int) -> None:
    text = universal_address(address, port)
    _, found = from_universal(text)
    assert found == port
    assert from_transport_address(transport_address(text)) == text


def test_entries_of_others_are_bounded() -> None:
    registry = Registry()
    network = NetworkId("tcp", 4)
    for version in range(OTHERS_KEPT):
        assert registry.set(Service(MINE, version, network), port=1, address=None)
    assert not registry.set(Service(MINE, OTHERS_KEPT, network), port=1, address=None)
    assert registry.unset(MINE, 0, (network,))
    assert registry.set(Service(MINE, OTHERS_KEPT, network), port=1, address=None)
