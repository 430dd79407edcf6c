"""Which clients a share is for: a set of networks [NFS-4].

A client that reached an IPv6 socket by IPv4 appears as ``::ffff:a.b.c.d``; it is the same client as ``a.b.c.d``.
"""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

DECISIONS_KEPT = 4096
MAPPED_PREFIX = 96
"""``::ffff:0:0/96`` holds the IPv4 addresses."""


class Networks:
    """The networks that may use a share.  Decisions are kept, because every call asks."""

    __slots__ = ("_decisions", "_members")

    def __init__(self, members: Iterable[Network]):
        self._members = tuple(_plain_network(member) for member in members)
        self._decisions: dict[str, bool] = {}

    def __iter__(self) -> Iterator[Network]:
        return iter(self._members)

    @property
    def is_everyone(self) -> bool:
        """Whether every address of both families is in."""
        everywhere = {member.version for member in self._members if member.prefixlen == 0}
        return everywhere == {4, 6}

    def allows(self, address: str) -> bool:
        """Whether a client with this address may use the share."""
        decision = self._decisions.get(address)
        if decision is None:
            if len(self._decisions) >= DECISIONS_KEPT:
                del self._decisions[next(iter(self._decisions))]
            decision = self._decisions[address] = self._decide(address)
        return decision

    def _decide(self, address: str) -> bool:
        client = plain_address(address)
        return any(client.version == member.version and client in member for member in self._members)


def plain_address(text: str) -> Address:
    """The address without an IPv6 wrapping and without the interface that it was seen on."""
    address = ip_address(text.partition("%")[0])
    if address.version == 6 and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _plain_network(network: Network) -> Network:
    if network.version == 6 and network.prefixlen >= MAPPED_PREFIX:
        mapped = network.network_address.ipv4_mapped
        if mapped is not None:
            return IPv4Network((mapped, network.prefixlen - MAPPED_PREFIX))
    return network
