"""rpcbind, versions 3 and 4 (RFC 1833 2): IPv4 and IPv6.

CALLIT, BCAST and INDIRECT are not there: they make a host attack others [NFS-3].  GETSTAT is not there either: nothing
but `rpcinfo -m` asks for it.
"""

from dittofs.protocols.portmap.addresses import (
    ANY_IPV4,
    ANY_IPV6,
    NETWORK_IDS,
    NetworkId,
    family_of,
    from_transport_address,
    from_universal,
    transport_address,
    universal_address,
)
from dittofs.protocols.portmap.registry import Place, Service
from dittofs.protocols.portmap.services import PortmapServices
from dittofs.protocols.portmap.types import (
    NC_TPI_CLTS,
    NC_TPI_COTS_ORD,
    netbuf,
    rpcb,
    rpcb_entry,
    rpcb_entry_list,
    rpcblist,
    text,
)
from dittofs.rpc.datagrams import that_fit
from dittofs.rpc.program import Call, Peer, Program
from dittofs.xdr.types import uint32

RPCBIND3 = Program("RPCBIND", 100000, 3)
RPCBIND4 = Program("RPCBIND", 100000, 4)

NOWHERE = b""
"""The universal address of what is not there."""


@RPCBIND4.procedure(0, None, None)
@RPCBIND3.procedure(0, None, None)
def null(call: Call, args: None) -> None:
    """RFC 1833 2.2."""


@RPCBIND4.procedure(1, rpcb, bool)
@RPCBIND3.procedure(1, rpcb, bool)
def set_(call: Call, args: rpcb) -> bool:
    """RFC 1833 2.2.1, from this host only."""
    services: PortmapServices = call.services
    network = _network_named(args.r_netid)
    if network is None or not call.peer.is_loopback:
        return False
    try:
        address, port = from_universal(_words(args.r_addr))
    except ValueError:
        return False
    return services.registry.set(
        Service(args.r_prog, args.r_vers, network),
        port=port,
        address=None if address in (ANY_IPV4, ANY_IPV6) else address,
    )


@RPCBIND4.procedure(2, rpcb, bool)
@RPCBIND3.procedure(2, rpcb, bool)
def unset(call: Call, args: rpcb) -> bool:
    """RFC 1833 2.2.1, from this host only: the entry of one network, or of all if none is named."""
    services: PortmapServices = call.services
    network = _network_named(args.r_netid)
    if not call.peer.is_loopback or (network is None and args.r_netid):
        return False
    return services.registry.unset(args.r_prog, args.r_vers, (network,) if network else tuple(NETWORK_IDS.values()))


@RPCBIND4.procedure(3, rpcb, text)
@RPCBIND3.procedure(3, rpcb, text)
def getaddr(call: Call, args: rpcb) -> bytes:
    """RFC 1833 2.2.1: as seen from the address that the client talks to."""
    services: PortmapServices = call.services
    network = _network_named(args.r_netid) or _network_of(call.peer)
    place = services.registry.find_or_any_version(Service(args.r_prog, args.r_vers, network))
    return _address(place, network, call.peer) if place else NOWHERE


@RPCBIND4.procedure(9, rpcb, text)
def getversaddr(call: Call, args: rpcb) -> bytes:
    """RFC 1833 2.2.2: this version and no other."""
    services: PortmapServices = call.services
    network = _network_named(args.r_netid) or _network_of(call.peer)
    place = services.registry.find(Service(args.r_prog, args.r_vers, network))
    return _address(place, network, call.peer) if place else NOWHERE


@RPCBIND4.procedure(4, None, rpcblist)
@RPCBIND3.procedure(4, None, rpcblist)
def dump(call: Call, args: None) -> list[rpcb]:
    """RFC 1833 2.2.1."""
    services: PortmapServices = call.services
    listed = (
        rpcb(
            r_prog=service.program,
            r_vers=service.version,
            r_netid=service.network.text().encode(),
            r_addr=universal_address(place.address or _any(service.network), place.port).encode(),
            r_owner=place.owner.encode(),
        )
        for service, place in services.registry
    )
    return that_fit(call.peer, rpcb, listed)


@RPCBIND4.procedure(6, None, uint32)
@RPCBIND3.procedure(6, None, uint32)
def gettime(call: Call, args: None) -> int:
    """RFC 1833 2.2.1."""
    services: PortmapServices = call.services
    return int(services.clock()) & 0xFFFF_FFFF


@RPCBIND4.procedure(7, text, netbuf)
@RPCBIND3.procedure(7, text, netbuf)
def uaddr2taddr(call: Call, args: bytes) -> netbuf:
    """RFC 1833 2.2.1: empty for what is no address."""
    try:
        packed = transport_address(_words(args))
    except ValueError:
        packed = b""
    return netbuf(maxlen=len(packed), buf=packed)


@RPCBIND4.procedure(8, netbuf, text)
@RPCBIND3.procedure(8, netbuf, text)
def taddr2uaddr(call: Call, args: netbuf) -> bytes:
    """RFC 1833 2.2.1: empty for what is no address."""
    try:
        return from_transport_address(args.buf).encode()
    except ValueError:
        return NOWHERE


@RPCBIND4.procedure(11, rpcb, rpcb_entry_list)
def getaddrlist(call: Call, args: rpcb) -> list[rpcb_entry]:
    """RFC 1833 2.2.2: every way to reach this version."""
    services: PortmapServices = call.services
    return [
        rpcb_entry(
            r_maddr=_address(place, service.network, call.peer),
            r_nc_netid=service.network.text().encode(),
            r_nc_semantics=NC_TPI_COTS_ORD if service.network.transport == "tcp" else NC_TPI_CLTS,
            r_nc_protofmly=b"inet6" if service.network.family == 6 else b"inet",
            r_nc_proto=service.network.transport.encode(),
        )
        for service, place in services.registry
        if (service.program, service.version) == (args.r_prog, args.r_vers)
    ]


def _words(wire: bytes) -> str:
    """Network ids and universal addresses are ASCII; what is not is unlike any of them."""
    return wire.decode("ascii", "replace")


def _network_named(netid: bytes) -> NetworkId | None:
    return NETWORK_IDS.get(_words(netid))


def _network_of(peer: Peer) -> NetworkId:
    return NetworkId(peer.transport, family_of(peer.local_address))


def _any(network: NetworkId) -> str:
    return ANY_IPV6 if network.family == 6 else ANY_IPV4


def _address(place: Place, network: NetworkId, peer: Peer) -> bytes:
    """Where this client finds the service: at the address it already knows, if that is of the right family."""
    address = place.address
    if address is None:
        address = peer.local_address if family_of(peer.local_address) == network.family else _any(network)
    return universal_address(address, place.port).encode()
