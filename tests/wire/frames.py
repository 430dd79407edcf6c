"""Frames from the wire, by the procedure they belong to: ``NFS-3-LOOKUP.call``, ``.reply`` or ``.refused``."""

import pprint
import re
from typing import Any, NamedTuple

from dittofs.protocols.portmap.portmapper import PORTMAP2
from dittofs.protocols.portmap.rpcbind import RPCBIND3, RPCBIND4
from dittofs.rpc.messages import accept_stat, msg_type, reply_stat, rpc_msg
from dittofs.rpc.program import Procedure
from dittofs.server import PROGRAMS
from dittofs.xdr.errors import XdrError
from dittofs.xdr.types import XdrUnion, codec_of, decode_exactly, encoded

PROCEDURES: dict[tuple[int, int, int], tuple[str, Procedure]] = {
    (program.number, program.version, number): (f"{program.name}-{program.version}-{procedure.name}", procedure)
    for program in (*PROGRAMS, PORTMAP2, RPCBIND3, RPCBIND4)
    for number, procedure in program.procedures.items()
}
BY_NAME = dict(PROCEDURES.values())


class Frame(NamedTuple):
    """A record and what it is."""

    name: str
    record: bytes

    @property
    def body(self) -> Any:
        """The declaration of what stands behind the head of the message; None for nothing."""
        name, _, ending = self.name.rpartition(".")
        procedure = BY_NAME[name]
        return procedure.arguments if ending == "call" else procedure.result


def decoded(frame: Frame) -> tuple[rpc_msg, Any]:
    """The head and the body.  Raises XdrError, also if something is left over."""
    head, position = codec_of(rpc_msg).decode(frame.record, 0)
    return head, decode_exactly(frame.body, frame.record, position)


def encoded_again(frame: Frame) -> bytes:
    head, body = decoded(frame)
    return encoded(rpc_msg, head) + encoded(frame.body, body)


def text_of(frame: Frame) -> str:
    """What the frame says, for people and for comparison.  The data of a READ or WRITE is a view, which has no text."""
    text = "".join(pprint.pformat(part, width=110) + "\n" for part in decoded(frame))
    return re.sub(r"<memory at 0x[0-9a-f]+>", "<data>", text)


def kind_of_call(record: bytes) -> str | None:
    """The name of the procedure that is called, if it is one of ours."""
    try:
        head, _ = codec_of(rpc_msg).decode(record, 0)
    except XdrError:
        return None
    if head.body.discriminant != msg_type.CALL:
        return None
    call = head.body.value
    known = PROCEDURES.get((call.prog, call.vers, call.proc))
    return known[0] if known else None


def kind_of_reply(name: str, record: bytes) -> str | None:
    """``reply`` or ``refused``, for one that was accepted; the rest is RPC's own."""
    head, position = codec_of(rpc_msg).decode(record, 0)
    reply = head.body.value
    if reply.discriminant != reply_stat.MSG_ACCEPTED or reply.value.reply_data.discriminant != accept_stat.SUCCESS:
        return None
    result = decode_exactly(BY_NAME[name].result, record, position)
    is_refused = isinstance(result, XdrUnion) and result.discriminant != 0
    return "refused" if is_refused else "reply"
