"""Addresses as the rest of the server compares them: text, IPv4 never dressed up as IPv6."""

import socket
from collections.abc import Sequence
from typing import Any

from dittofs.rpc.program import Peer

_MAPPED = "::ffff:"


def plain(address: str) -> str:
    """`::ffff:a.b.c.d` is `a.b.c.d` [NLM-7]; a scope behind `%` names an interface of ours, not the peer."""
    address = address.partition("%")[0]
    if address.startswith(_MAPPED) and "." in address:
        return address[len(_MAPPED) :]
    return address


def is_loopback(address: str) -> bool:
    return address == "::1" or address.startswith("127.")


def is_own(address: str) -> bool:
    """Whether this machine has the address: only then can something be bound to it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def peer_of(remote: Any, local: Any, transport: str) -> Peer:
    """From socket addresses, IPv4 or IPv6."""
    address = plain(remote[0])
    return Peer(
        address=address,
        port=remote[1],
        local_address=plain(local[0]),
        transport=transport,
        is_loopback=is_loopback(address),
    )


def local_addresses(listen: Sequence[str]) -> tuple[str, ...]:
    """Addresses of this machine that clients may use, those that others can reach first."""
    wildcards = {"0.0.0.0", "::"}
    found = [address for address in listen if address not in wildcards]
    for wildcard, family, probe in (("0.0.0.0", socket.AF_INET, "192.0.2.1"), ("::", socket.AF_INET6, "2001:db8::1")):
        if wildcard in listen:
            found += [*_outward(family, probe), "127.0.0.1" if family == socket.AF_INET else "::1"]
    return tuple(sorted(dict.fromkeys(found), key=is_loopback))


def _outward(family: socket.AddressFamily, probe: str) -> list[str]:
    """The address that packets to elsewhere leave from; connecting a datagram socket sends nothing."""
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as asking:
            asking.connect((probe, 9))
            return [plain(asking.getsockname()[0])]
    except OSError:
        return []
