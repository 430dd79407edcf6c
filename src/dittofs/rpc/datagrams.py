"""Answers that fit into a datagram [NFS-6]: a list that does not is cut, for an answer that cannot be sent is none."""

from collections.abc import Iterable
from typing import Any, Final, TypeVar

from dittofs.rpc.program import Peer
from dittofs.xdr.types import encoded

Item = TypeVar("Item")

RESULT_MAX: Final = 60_000
"""A datagram of IPv4 holds 65,507 bytes, with the head of the reply."""

FOLLOWS: Final = len(encoded(bool, True))
"""The word in front of each entry of a chain that says that there is one."""


def that_fit(peer: Peer, declaration: Any, items: Iterable[Item]) -> list[Item]:
    """The entries of a chain, all of them over TCP; over UDP as many of the first ones as have room."""
    if peer.transport != "udp":
        return [*items]
    fitting: list[Item] = []
    room = RESULT_MAX
    for item in items:
        room -= FOLLOWS + len(encoded(declaration, item))
        if room < 0:
            break
        fitting.append(item)
    return fitting
