"""The questions that find a program on another host (pure: values to be sent by somebody else).

Version 2 is what every host answers, and knows IPv4 only; else rpcbind's version 4 is asked, and then 3.
"""

from dataclasses import replace
from typing import Any

from dittofs.protocols.portmap.addresses import NetworkId, family_of, from_universal
from dittofs.protocols.portmap.portmapper import PROTOCOLS
from dittofs.protocols.portmap.registering import GETADDR, OWNER, RPCBIND
from dittofs.protocols.portmap.types import mapping, rpcb
from dittofs.rpc.calling import BadReply, Exchange
from dittofs.xdr.types import uint32

GETPORT = Exchange("PMAPPROC_GETPORT", RPCBIND, 2, 3, mapping, uint32)
GETADDR3 = replace(GETADDR, version=3)


def questions(address: str, program: int, version: int, transport: str) -> list[tuple[Exchange, Any]]:
    """What to ask the port mapper at `address`: the next one if it does not speak the version of the one before."""
    network = NetworkId(transport, family_of(address))
    wanted = rpcb(program, version, r_netid=network.text().encode(), r_addr=b"", r_owner=OWNER)
    asked: list[tuple[Exchange, Any]] = [(GETADDR, wanted), (GETADDR3, wanted)]
    if network.family == 4:
        asked.insert(0, (GETPORT, mapping(program, version, PROTOCOLS[network], 0)))
    return asked


def answered_port(exchange: Exchange, answer: Any) -> int:
    """The port in the answer, 0 if the program is not there.  Raises BadReply for what is no port."""
    if exchange is not GETPORT:
        try:
            port = from_universal(answer.decode("ascii", "replace"))[1] if answer else 0
        except ValueError as error:
            raise BadReply(f"{exchange.name}: {error}") from error
    else:
        port = answer
    if not 0 <= port < 65_536:
        raise BadReply(f"{exchange.name}: {port} is no port")
    return port
