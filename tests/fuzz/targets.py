"""What is fed with rubbish: every decoder, the reassembler of records, and a whole server behind its dispatcher.

A target takes any bytes.  It raises if something happened that a client must never be able to bring about.  Both
`make fuzz` (coverage-guided, for long) and the tests (for a moment) use them.
"""

import asyncio
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dittofs import logs
from dittofs.loading import load
from dittofs.protocols.portmap.portmapper import PORTMAP2
from dittofs.protocols.portmap.registry import Registry
from dittofs.protocols.portmap.rpcbind import RPCBIND3, RPCBIND4
from dittofs.protocols.portmap.services import PortmapServices
from dittofs.rpc.calling import auth_sys
from dittofs.rpc.messages import (
    NO_AUTH,
    RPC_VERSION,
    accept_stat,
    call_body,
    msg_type,
    reply_stat,
    rpc_msg,
    rpc_msg_body,
)
from dittofs.rpc.program import Peer
from dittofs.rpc.records import Reassembler, RecordError, frame
from dittofs.server import PROGRAMS, Server
from dittofs.xdr import shapes
from dittofs.xdr.errors import XdrError
from dittofs.xdr.types import codec_of, decode_exactly, encoded, shape_of
from tests.wire.strategies import declared_in, wire_modules

Target = Callable[[bytes], None]

ANSWER_SECONDS = 20.0
MAX_RECORD = 2000
MAX_FRAGMENTS = 20

CONFIG = """
[server]
listen = ["127.0.0.1"]
port = 0
portmap = "off"
[stores.meta]
kind = "memory"
[stores.files]
kind = "memory"
capacity_bytes = 1000000
[[shares]]
name = "/export"
squash = "none"
security = ["sys", "none"]
[locks]
grace_seconds = 0
[api]
listen = "127.0.0.1:0"
[metrics]
listen = "127.0.0.1:0"
"""

PORT_MAPPER = (PORTMAP2, RPCBIND3, RPCBIND4)
DECLARED = [declaration for module in wire_modules() for declaration in declared_in(module)]


def decoding(data: bytes) -> None:
    """Any declared type, chosen by the first two bytes: a value or an XdrError, and the value encodes as it came."""
    declaration = DECLARED[int.from_bytes(data[:2]) % len(DECLARED)]
    try:
        value, position = codec_of(declaration).decode(data, 2)
    except XdrError:
        return
    assert position <= max(len(data), 2)
    assert decode_exactly(declaration, encoded(declaration, value)) == value


def reassembling(data: bytes) -> None:
    """A stream in one piece, and in pieces that its own bytes choose: the same records or the same refusal."""
    whole = _records_of([data])
    chooser = random.Random(data)
    pieces, position = [], 0
    while position < len(data):
        size = chooser.choice([1, 2, 3, 4, 5, 50])
        pieces.append(data[position : position + size])
        position += size
    assert _records_of(pieces) == whole
    framed = frame(data[:MAX_RECORD])
    assert _records_of([framed]) == ([data[:MAX_RECORD]], False)


def _records_of(pieces: list[bytes]) -> tuple[list[bytes], bool]:
    reassembler = Reassembler(max_record_size=MAX_RECORD, max_fragments=MAX_FRAGMENTS)
    records: list[bytes] = []
    for piece in pieces:
        # One byte at a time within a piece that is refused would tell the same: what came before it counts.
        try:
            records += reassembler.feed(piece)
        except RecordError:
            return [], True
        assert reassembler.held <= MAX_RECORD + 4 * MAX_FRAGMENTS
    return records, False


class Dispatching:
    """A server with everything in it, called as its sockets call it, by peers near and far."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="dittofs-fuzz-")
        file = Path(self._directory.name) / "dittofs.toml"
        file.write_text(CONFIG)
        logs.configure("error", "text")
        settings = load(file, environment={}, flags={"server.data": f"{self._directory.name}/data"})
        self._loop = asyncio.new_event_loop()
        self._server = Server(settings)
        self._loop.run_until_complete(self._server.start())
        self.dispatcher = self._server.dispatcher
        for program in PORT_MAPPER:
            self.dispatcher.add(program, PortmapServices(Registry(), time.time))
        self._peers = [
            Peer(address=address, port=700, local_address="127.0.0.1", transport=transport, is_loopback=is_loopback)
            for transport in ("tcp", "udp")
            # Answers to NLM's messages are really sent, so a client from elsewhere has an address of this machine too.
            for address, is_loopback in (("127.0.0.1", True), ("127.0.0.2", False))
        ]

    def close(self) -> None:
        self._loop.run_until_complete(self._server.stop())
        self._loop.close()
        self._directory.cleanup()

    def __call__(self, data: bytes) -> None:
        """The first byte chooses the peer, the rest is the record."""
        peer = self._peers[data[0] % len(self._peers)] if data else self._peers[0]
        self._loop.run_until_complete(self._feed(data[1:], peer))

    async def _feed(self, record: bytes, peer: Peer) -> None:
        delivered: asyncio.Future[Any] = self._loop.create_future()
        try:
            reply = self.dispatcher.serve(record, peer, delivered.set_result)
        except XdrError:
            return  # no call: the connection would be closed
        if reply is None:
            async with asyncio.timeout(ANSWER_SECONDS):
                reply = await delivered
        if reply is not None:
            check_reply(record, b"".join(reply))

    def calls(self) -> Iterator[bytes]:
        """A well-formed call of every procedure that is served, with the handle of a root in it: where to begin."""
        credentials = (auth_sys(uid=0, gid=0, groups=[1]), NO_AUTH)
        share = next(iter(self._server.shares))
        root = share.volume.codec.encode(share.volume.root)
        for program in (*PROGRAMS, *PORT_MAPPER):
            for procedure in program.procedures.values():
                declared = procedure.arguments
                body = b"" if declared is None else encoded(declared, smallest(shape_of(declared), root))
                for index, credential in enumerate(credentials):
                    head = call_body(
                        RPC_VERSION, program.number, program.version, procedure.number, credential, NO_AUTH
                    )
                    yield bytes([index]) + encoded(rpc_msg, rpc_msg(0x1234, rpc_msg_body(msg_type.CALL, head))) + body


def check_reply(record: bytes, reply: bytes) -> None:
    """It answers this call, in RPC's words, and not with a fault of ours."""
    message, _ = codec_of(rpc_msg).decode(reply, 0)
    assert reply[:4] == record[:4]
    assert message.body.discriminant == msg_type.REPLY
    answer = message.body.value
    if answer.discriminant == reply_stat.MSG_ACCEPTED:
        assert answer.value.reply_data.discriminant != accept_stat.SYSTEM_ERR, "an exception that nobody expected"


def smallest(shape: shapes.Shape, handle: bytes) -> Any:
    """A small value of a declared type; what may be a handle is one."""
    match shape:
        case shapes.Void() | shapes.Maybe():
            return None
        case shapes.Number():
            return 1
        case shapes.Choice():
            return next(iter(shape.table.values()))
        case shapes.FixedBytes(size):
            return bytes(size)
        case shapes.VariableBytes(maximum):
            return handle if maximum == 64 else b"name"[:maximum]
        case shapes.Record():
            return shape.made(**{name: smallest(part, handle) for name, part in shape.fields})
        case shapes.FixedSequence(element, count):
            return [smallest(element, handle)] * count
        case shapes.Sequence() | shapes.LinkedList():
            return []
        case shapes.Encodable(element) | shapes.Remembered(element):
            return smallest(element, handle)
        case shapes.Switch():
            number, arm = next(iter(shape.arms.items()))
            table = shape.discriminant.table if isinstance(shape.discriminant, shapes.Choice) else {}
            return shape.made(table.get(number, number), smallest(arm, handle))
    raise AssertionError(f"no value for {shape}")
