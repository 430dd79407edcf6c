"""Remote procedure calls over blocking sockets: for tests and for the command line, not for the server.

A `TcpTransport` keeps any number of calls under way (`send`, then `receive` in any order); a `UdpTransport` sends again
when no answer comes.
"""

import itertools
import secrets
import socket
import time
from abc import ABC, abstractmethod
from typing import Any, Self

from dittofs.rpc.calling import Exchange, xid_of
from dittofs.rpc.messages import NO_AUTH, opaque_auth
from dittofs.rpc.records import Reassembler, frame

TIMEOUT_SECONDS = 10.0
RETRY_SECONDS = 1.0
RECORD_MAX = 64 * 1024 * 1024
DATAGRAM_MAX = 65_535
RECEIVED_AT_ONCE = 1_048_576


class NoReply(Exception):
    """The server did not answer in time, or closed the connection."""


class Transport(ABC):
    """Carries calls to one server.  `credential` is sent with every call; `calling.auth_sys` makes one."""

    def __init__(self, made: socket.socket, credential: opaque_auth, timeout_seconds: float):
        self.socket = made
        self.credential = credential
        self.timeout_seconds = timeout_seconds
        # Not from 1 on: a server may still remember the calls of an earlier client on this port [NFS-5].
        self._xids = itertools.count(secrets.randbits(31))
        self._replies: dict[int, bytes] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def call(self, exchange: Exchange, arguments: Any = None) -> Any:
        """Send, and wait for the result.  Raises CallFailed, NoReply."""
        return self.receive(self.send(exchange, arguments), exchange)

    def send(self, exchange: Exchange, arguments: Any = None) -> int:
        """Send a call; the number is the one to ask for its result by."""
        xid = next(self._xids) & 0xFFFF_FFFF
        self.send_record(exchange.encode(xid, arguments, credential=self.credential))
        return xid

    def receive(self, xid: int, exchange: Exchange) -> Any:
        """Wait for the result of a call."""
        return exchange.decode(self.receive_record(xid), xid)

    @abstractmethod
    def send_record(self, record: bytes) -> None:
        """Send any bytes as one record: a test may send a call twice, or spoil it first."""

    @abstractmethod
    def receive_record(self, xid: int) -> bytes:
        """Wait for the reply with this number."""


class TcpTransport(Transport):
    """One connection.  `source` is the local address and port to use, 0 for any port."""

    def __init__(
        self,
        address: str,
        port: int,
        *,
        credential: opaque_auth = NO_AUTH,
        timeout_seconds: float = TIMEOUT_SECONDS,
        source: tuple[str, int] | None = None,
    ):
        made = socket.create_connection((address, port), timeout=timeout_seconds, source_address=source)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().__init__(made, credential, timeout_seconds)
        self._reassembler = Reassembler(max_record_size=RECORD_MAX)

    def send_record(self, record: bytes) -> None:
        self.socket.sendall(frame(record))

    def receive_record(self, xid: int) -> bytes:
        deadline = time.monotonic() + self.timeout_seconds
        while xid not in self._replies:
            self.socket.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                data = self.socket.recv(RECEIVED_AT_ONCE)
            except TimeoutError as error:
                raise NoReply(f"no answer to call {xid:#x} in {self.timeout_seconds} s") from error
            if not data:
                raise NoReply("the server closed the connection")
            for record in self._reassembler.feed(data):
                self._replies[xid_of(record)] = bytes(record)
        return self._replies.pop(xid)


class UdpTransport(Transport):
    """Datagrams to one server; a call without an answer is sent again, with the same number."""

    def __init__(
        self,
        address: str,
        port: int,
        *,
        credential: opaque_auth = NO_AUTH,
        timeout_seconds: float = TIMEOUT_SECONDS,
        source: tuple[str, int] | None = None,
    ):
        family, kind, protocol, _, target = socket.getaddrinfo(address, port, type=socket.SOCK_DGRAM)[0]
        made = socket.socket(family, kind, protocol)
        if source is not None:
            made.bind(source)
        made.connect(target)
        super().__init__(made, credential, timeout_seconds)
        self._sent: dict[int, bytes] = {}

    def send_record(self, record: bytes) -> None:
        self._sent[xid_of(record)] = record
        self.socket.send(record)

    def receive_record(self, xid: int) -> bytes:
        deadline = time.monotonic() + self.timeout_seconds
        while xid not in self._replies:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise NoReply(f"no answer to call {xid:#x} in {self.timeout_seconds} s")
            self.socket.settimeout(min(remaining, RETRY_SECONDS))
            try:
                reply = self.socket.recv(DATAGRAM_MAX)
            except TimeoutError:
                self.socket.send(self._sent[xid])
                continue
            self._replies[xid_of(reply)] = reply
        del self._sent[xid]
        return self._replies.pop(xid)
