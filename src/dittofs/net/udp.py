"""RPC over UDP: one datagram is one call, and the answer leaves from the address that was asked.

The kernel is asked for the local address of each datagram, so that a socket bound to all addresses can
answer from the right one [NFS-3].
"""

import asyncio
import socket
import struct
import time
from typing import Any, Final

import structlog

from dittofs.net.addresses import peer_of
from dittofs.rpc.dispatch import Dispatcher
from dittofs.xdr.errors import XdrError
from dittofs.xdr.types import Chunks

log = structlog.get_logger()

MAX_DATAGRAM: Final = 65_507
DATAGRAMS_PER_TURN: Final = 64

_IPV4_INFO: Final = struct.Struct("=I4s4s")  # interface, local address, header's destination
_IPV6_INFO: Final = struct.Struct("=16sI")  # destination, interface

# Not in every Python's socket module; the numbers are Linux's.
_IP_PKTINFO: Final = getattr(socket, "IP_PKTINFO", 8)
_IPV6_RECVPKTINFO: Final = getattr(socket, "IPV6_RECVPKTINFO", 49)
_IPV6_PKTINFO: Final = getattr(socket, "IPV6_PKTINFO", 50)

Ancillary = list[tuple[int, int, bytes]]


class UdpServer:
    """Serves one bound datagram socket."""

    def __init__(
        self, bound: socket.socket, dispatcher: Dispatcher, loop: asyncio.AbstractEventLoop, *, max_calls: int = 256
    ):
        self._socket = bound
        self._dispatcher = dispatcher
        self._loop = loop
        self._max_calls = max_calls
        self._unanswered = 0
        self.dropped = self.received = self.sent = 0
        self.bytes_received = self.bytes_sent = 0
        bound.setblocking(False)
        if bound.family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, _IPV6_RECVPKTINFO, 1)
        else:
            bound.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)
        self._bound_name: Any = bound.getsockname()
        loop.add_reader(bound.fileno(), self._readable)

    def close(self) -> None:
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()

    def _readable(self) -> None:
        for _ in range(DATAGRAMS_PER_TURN):
            try:
                data, ancillary, _, remote = self._socket.recvmsg(MAX_DATAGRAM + 1, 128)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:  # an ICMP error of an earlier answer: of no use to anybody
                log.debug("datagram error", reason=str(error))
                continue
            self.received += 1
            self.bytes_received += len(data)
            self._dispatcher.begin_batch(time.monotonic())
            self._serve(data, ancillary, remote)
            self._dispatcher.end_batch(time.monotonic())

    def _serve(self, data: bytes, ancillary: Ancillary, remote: Any) -> None:
        local, source = self._asked(ancillary)
        peer = peer_of(remote, local, "udp")

        def send(record: bytes, port: int) -> bool:
            return self._send([record], source, (remote[0], port, *remote[2:]))

        peer.send = send

        def deliver(reply: Chunks | None) -> None:
            self._unanswered -= 1
            if reply is not None:
                self._send(reply, source, remote)

        if self._unanswered >= self._max_calls:
            self.dropped += 1  # the client sends it again
            return
        self._unanswered += 1
        try:
            reply = self._dispatcher.serve(data, peer, deliver)
        except XdrError as error:
            self._unanswered -= 1
            self.dropped += 1
            log.debug("datagram dropped", client=peer.address, reason=str(error))
            return
        if reply is not None:
            deliver(reply)

    def _asked(self, ancillary: Ancillary) -> tuple[Any, Ancillary]:
        """The local address that was asked, and what makes the answer leave from it."""
        for level, kind, data in ancillary:
            if level == socket.IPPROTO_IP and kind == _IP_PKTINFO:
                _, _, address = _IPV4_INFO.unpack_from(data)
                return (socket.inet_ntoa(address), self._bound_name[1]), [
                    (level, kind, _IPV4_INFO.pack(0, address, bytes(4)))
                ]
            if level == socket.IPPROTO_IPV6 and kind == _IPV6_PKTINFO:
                address, interface = _IPV6_INFO.unpack_from(data)
                text = socket.inet_ntop(socket.AF_INET6, address)
                return (text, self._bound_name[1]), [(level, kind, _IPV6_INFO.pack(address, interface))]
        return self._bound_name, []

    def _send(self, record: Chunks, source: Ancillary, remote: Any) -> bool:
        try:
            self.bytes_sent += self._socket.sendmsg(record, source, 0, remote)
            self.sent += 1
        except OSError as error:  # lost on the way, as any datagram may be: the client asks again
            self.dropped += 1
            log.debug("datagram not sent", client=remote[0], reason=str(error))
            return False
        return True
