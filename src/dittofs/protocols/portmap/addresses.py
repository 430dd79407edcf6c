"""Universal addresses and network ids (pure): how RFC 5665 writes an address and a port in one word.

IPv4 is ``a.b.c.d.high.low``, IPv6 the same with the usual text of the address in front.
"""

import sys
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

from dittofs.shares.networks import plain_address

ANY_IPV4 = "0.0.0.0"
ANY_IPV6 = "::"

AF_INET = 2
AF_INET6 = 10
"""As on Linux: a transport address has a meaning only on hosts of one kind."""


class NetworkId(NamedTuple):
    """What a netid says: ``tcp6`` is TCP over IPv6."""

    transport: str
    family: int

    def text(self) -> str:
        return self.transport + ("6" if self.family == 6 else "")


NETWORK_IDS = {network.text(): network for network in (NetworkId(t, f) for t in ("tcp", "udp") for f in (4, 6))}


def family_of(address: str) -> int:
    """4 or 6; an IPv4 address inside an IPv6 one counts as IPv4."""
    return plain_address(address).version


def universal_address(address: str, port: int) -> str:
    return f"{plain_address(address)}.{port >> 8}.{port & 0xFF}"


def from_universal(text: str) -> tuple[str, int]:
    """The address and port.  Raises ValueError for anything that is not a universal address."""
    address, high, low = text.rsplit(".", 2)
    numbers = [int(part) for part in (high, low) if part.isascii() and part.isdecimal() and int(part) <= 0xFF]
    if len(numbers) != 2:
        raise ValueError(f"{text!r} does not end in a port")
    return str(ip_address(address)), numbers[0] << 8 | numbers[1]


def transport_address(text: str) -> bytes:
    """A universal address as the `sockaddr` of Linux."""
    address, port = from_universal(text)
    parsed = ip_address(address)
    if parsed.version == 4:
        return AF_INET.to_bytes(2, sys.byteorder) + port.to_bytes(2, "big") + parsed.packed + bytes(8)
    return AF_INET6.to_bytes(2, sys.byteorder) + port.to_bytes(2, "big") + bytes(4) + parsed.packed + bytes(4)


def from_transport_address(packed: bytes) -> str:
    """The universal address of a `sockaddr`.  Raises ValueError."""
    family, port = int.from_bytes(packed[:2], sys.byteorder), int.from_bytes(packed[2:4], "big")
    if family == AF_INET and len(packed) >= 8:
        return universal_address(str(IPv4Address(packed[4:8])), port)
    if family == AF_INET6 and len(packed) >= 24:
        return f"{IPv6Address(packed[8:24])}.{port >> 8}.{port & 0xFF}"
    raise ValueError(f"{len(packed)} bytes of family {family} are no transport address")
