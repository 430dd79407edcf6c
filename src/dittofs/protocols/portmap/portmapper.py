"""The port mapper, version 2 (RFC 1833 3): IPv4 only.  CALLIT is not there: it makes a host attack others [NFS-3]."""

from dittofs.protocols.portmap.addresses import NetworkId
from dittofs.protocols.portmap.registry import Service
from dittofs.protocols.portmap.services import PortmapServices
from dittofs.protocols.portmap.types import IPPROTO_TCP, IPPROTO_UDP, mapping, pmaplist
from dittofs.rpc.datagrams import that_fit
from dittofs.rpc.program import Call, Program
from dittofs.xdr.types import uint32

PORTMAP2 = Program("PORTMAP", 100000, 2)

NETWORKS = {IPPROTO_TCP: NetworkId("tcp", 4), IPPROTO_UDP: NetworkId("udp", 4)}
PROTOCOLS = {network: protocol for protocol, network in NETWORKS.items()}


@PORTMAP2.procedure(0, None, None)
def null(call: Call, args: None) -> None:
    """RFC 1833 3.2."""


@PORTMAP2.procedure(1, mapping, bool)
def set_(call: Call, args: mapping) -> bool:
    """RFC 1833 3.2, from this host only."""
    services: PortmapServices = call.services
    network = NETWORKS.get(args.prot)
    if network is None or not call.peer.is_loopback:
        return False
    return services.registry.set(Service(args.prog, args.vers, network), port=args.port, address=None)


@PORTMAP2.procedure(2, mapping, bool)
def unset(call: Call, args: mapping) -> bool:
    """RFC 1833 3.2, from this host only.  There both protocols go, whichever is named; here a named one goes alone, for
    a program that stops one transport must not take the other's entry along.  Who names none means both."""
    services: PortmapServices = call.services
    if not call.peer.is_loopback:
        return False
    network = NETWORKS.get(args.prot)
    return services.registry.unset(args.prog, args.vers, (network,) if network else tuple(NETWORKS.values()))


@PORTMAP2.procedure(3, mapping, uint32)
def getport(call: Call, args: mapping) -> int:
    """RFC 1833 3.2: 0 means that the program is not there."""
    services: PortmapServices = call.services
    network = NETWORKS.get(args.prot)
    if network is None:
        return 0
    place = services.registry.find_or_any_version(Service(args.prog, args.vers, network))
    return place.port if place else 0


@PORTMAP2.procedure(4, None, pmaplist)
def dump(call: Call, args: None) -> list[mapping]:
    """RFC 1833 3.2."""
    services: PortmapServices = call.services
    listed = (
        mapping(service.program, service.version, PROTOCOLS[service.network], place.port)
        for service, place in services.registry
        if service.network in PROTOCOLS
    )
    return that_fit(call.peer, mapping, listed)
