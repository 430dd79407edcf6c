"""The calls that tell a host's rpcbind where our programs are (pure: values to be sent by somebody else).

Each program, version and network is an entry of its own, set and unset by itself: unsetting a version of version 2's
protocol would take away every transport's entry, somebody else's too.
"""

from collections.abc import Sequence
from typing import NamedTuple

from dittofs.protocols.portmap.addresses import ANY_IPV4, ANY_IPV6, NetworkId, universal_address
from dittofs.protocols.portmap.types import rpcb, rpcblist, text
from dittofs.rpc.calling import Exchange
from dittofs.rpc.program import Program

RPCBIND = 100000
OWNER = b"dittofs"

SET = Exchange("RPCBPROC_SET", RPCBIND, 4, 1, rpcb, bool)
UNSET = Exchange("RPCBPROC_UNSET", RPCBIND, 4, 2, rpcb, bool)
GETADDR = Exchange("RPCBPROC_GETADDR", RPCBIND, 4, 3, rpcb, text)
DUMP = Exchange("RPCBPROC_DUMP", RPCBIND, 4, 4, None, rpcblist)


class Registration(NamedTuple):
    """One entry."""

    program: Program
    network: NetworkId
    entry: rpcb

    @property
    def entry_key(self) -> tuple[int, int, bytes]:
        """What an entry is found by."""
        return self.entry.r_prog, self.entry.r_vers, bytes(self.entry.r_netid)


def registrations(programs: Sequence[Program], networks: Sequence[NetworkId], port: int) -> list[Registration]:
    """Every entry that clients look for."""
    return [
        Registration(program, network, _entry(program, network, port)) for program in programs for network in networks
    ]


def _entry(program: Program, network: NetworkId, port: int) -> rpcb:
    address = ANY_IPV6 if network.family == 6 else ANY_IPV4
    return rpcb(
        r_prog=program.number,
        r_vers=program.version,
        r_netid=network.text().encode(),
        r_addr=universal_address(address, port).encode(),
        r_owner=OWNER,
    )
