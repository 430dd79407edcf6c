"""Bound sockets: the same port over TCP and UDP on every address asked for."""

import errno
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field

FREE_PORT_TRIES = 20


class CannotListen(Exception):
    """A port could not be had; the message says which and why, `is_permission` and `is_taken` which of the two."""

    def __init__(self, text: str, *, is_permission: bool = False, is_taken: bool = False):
        super().__init__(text)
        self.is_permission = is_permission
        self.is_taken = is_taken


@dataclass(slots=True)
class Bound:
    """Sockets that listen on one port."""

    port: int
    streams: list[socket.socket] = field(default_factory=list)
    datagrams: list[socket.socket] = field(default_factory=list)

    def close(self) -> None:
        for bound in (*self.streams, *self.datagrams):
            bound.close()


def bind(addresses: Sequence[str], port: int, *, with_udp: bool) -> Bound:
    """Bind all of them or none.  Port 0 is any port that is free on all of them.  An IPv6 address is passed over if
    the machine has no IPv6, as long as another address is left."""
    for _ in range(FREE_PORT_TRIES if port == 0 else 0):
        try:
            return _bind(addresses, port, with_udp=with_udp)
        except CannotListen as error:
            if not error.is_taken:
                raise
    return _bind(addresses, port, with_udp=with_udp)


def _bind(addresses: Sequence[str], port: int, *, with_udp: bool) -> Bound:
    bound = Bound(port)
    kinds = [socket.SOCK_STREAM, socket.SOCK_DGRAM] if with_udp else [socket.SOCK_STREAM]
    try:
        for address in addresses:
            for kind in kinds:
                made = _bind_one(address, bound.port, kind)
                if made is None:
                    continue
                bound.port = made.getsockname()[1]
                (bound.streams if kind == socket.SOCK_STREAM else bound.datagrams).append(made)
        if not bound.streams:
            raise CannotListen(f"none of the addresses {', '.join(addresses)} exists on this machine")
    except BaseException:
        bound.close()
        raise
    return bound


def _bind_one(address: str, port: int, kind: socket.SocketKind) -> socket.socket | None:
    is_ipv6 = ":" in address
    made: socket.socket | None = None
    try:
        made = socket.socket(socket.AF_INET6 if is_ipv6 else socket.AF_INET, kind)
        if is_ipv6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if kind == socket.SOCK_STREAM:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((address, port))
        if kind == socket.SOCK_STREAM:
            made.listen(1024)
        made.setblocking(False)
        return made
    except OSError as error:
        if made is not None:
            made.close()
        if is_ipv6 and error.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL) and address in ("::", "::1"):
            return None
        name = "TCP" if kind == socket.SOCK_STREAM else "UDP"
        raise CannotListen(
            f"cannot listen on {address} port {port} ({name}): {error.strerror}",
            is_permission=error.errno == errno.EACCES,
            is_taken=error.errno == errno.EADDRINUSE,
        ) from error
