"""RPC messages as RFC 5531 section 9 declares them, and the few pieces of them that a server makes by the million.

The names are the RFC's.  The fast pieces say the same bytes as the declarations; a test holds them together.
"""

import struct as _struct
from enum import IntEnum
from typing import Annotated, Final, NoReturn

from dittofs.xdr.errors import XdrError
from dittofs.xdr.types import Opaque, XdrUnion, encoded, struct, uint32, union

RPC_VERSION: Final = 2
MAX_AUTH_BYTES: Final = 400


class auth_flavor(IntEnum):
    """Not used as an XDR enum: a flavour nobody here knows must be refused, not taken for garbage."""

    AUTH_NONE = 0
    AUTH_SYS = 1
    AUTH_SHORT = 2
    AUTH_DH = 3
    RPCSEC_GSS = 6


class msg_type(IntEnum):
    CALL = 0
    REPLY = 1


class reply_stat(IntEnum):
    MSG_ACCEPTED = 0
    MSG_DENIED = 1


class accept_stat(IntEnum):
    SUCCESS = 0
    PROG_UNAVAIL = 1
    PROG_MISMATCH = 2
    PROC_UNAVAIL = 3
    GARBAGE_ARGS = 4
    SYSTEM_ERR = 5


class reject_stat(IntEnum):
    RPC_MISMATCH = 0
    AUTH_ERROR = 1


class auth_stat(IntEnum):
    AUTH_OK = 0
    AUTH_BADCRED = 1
    AUTH_REJECTEDCRED = 2
    AUTH_BADVERF = 3
    AUTH_REJECTEDVERF = 4
    AUTH_TOOWEAK = 5
    AUTH_INVALIDRESP = 6
    AUTH_FAILED = 7
    AUTH_KERB_GENERIC = 8
    AUTH_TIMEEXPIRE = 9
    AUTH_TKT_FILE = 10
    AUTH_DECODE = 11
    AUTH_NET_ADDR = 12
    RPCSEC_GSS_CREDPROBLEM = 13
    RPCSEC_GSS_CTXPROBLEM = 14


@struct  # RFC 5531 8.2
class opaque_auth:
    flavor: uint32
    body: Annotated[bytes, Opaque(max=MAX_AUTH_BYTES)]


@struct  # the arguments of the procedure follow
class call_body:
    rpcvers: uint32
    prog: uint32
    vers: uint32
    proc: uint32
    cred: opaque_auth
    verf: opaque_auth


@struct
class mismatch_info:
    low: uint32
    high: uint32


@union(accept_stat)  # the results of the procedure follow SUCCESS
class accepted_reply_data(XdrUnion):
    SUCCESS: None
    PROG_MISMATCH: mismatch_info
    default: None


@struct
class accepted_reply:
    verf: opaque_auth
    reply_data: accepted_reply_data


@union(reject_stat)
class rejected_reply(XdrUnion):
    RPC_MISMATCH: mismatch_info
    AUTH_ERROR: auth_stat


@union(reply_stat)
class reply_body(XdrUnion):
    MSG_ACCEPTED: accepted_reply
    MSG_DENIED: rejected_reply


@union(msg_type)
class rpc_msg_body(XdrUnion):
    CALL: call_body
    REPLY: reply_body


@struct
class rpc_msg:
    xid: uint32
    body: rpc_msg_body


NO_AUTH: Final = opaque_auth(flavor=auth_flavor.AUTH_NONE, body=b"")


def accepted(
    xid: int, status: accept_stat, *, mismatch: mismatch_info | None = None, verifier: opaque_auth = NO_AUTH
) -> bytes:
    """The head of an accepted reply, which is all of it unless `status` is SUCCESS."""
    reply = accepted_reply(verf=verifier, reply_data=accepted_reply_data(status, mismatch))
    return _reply(xid, reply_body(reply_stat.MSG_ACCEPTED, reply))


def refused_version(xid: int) -> bytes:
    """The reply to a call of another RPC version than 2."""
    reason = rejected_reply(reject_stat.RPC_MISMATCH, mismatch_info(RPC_VERSION, RPC_VERSION))
    return _reply(xid, reply_body(reply_stat.MSG_DENIED, reason))


def refused_credentials(xid: int, why: auth_stat) -> bytes:
    """The reply to a call whose sender is not believed."""
    return _reply(xid, reply_body(reply_stat.MSG_DENIED, rejected_reply(reject_stat.AUTH_ERROR, why)))


def _reply(xid: int, body: reply_body) -> bytes:
    return encoded(rpc_msg, rpc_msg(xid, rpc_msg_body(msg_type.REPLY, body)))


class CallRefused(Exception):
    """A call that was understood well enough to be denied: `reply` is the whole answer."""

    def __init__(self, reply: bytes, text: str) -> None:
        super().__init__(text)
        self.reply = reply


class ReplyReceived(Exception):
    """Not a call: somebody answers a call of ours that needs no answer."""


def parse_call(record: bytes) -> tuple[int, int, int, int, bytes, int]:
    """The head of a call: xid, program, version, procedure, encoded credential, position of the arguments.

    A plain tuple, because this runs for every call; the verifier stands between the credential and the arguments.
    Raises XdrError if the record is not a whole head (there is nobody to answer), ReplyReceived for a reply,
    CallRefused for another RPC version.
    """
    try:
        xid, kind, rpc_version, program, version, procedure, _, length = CALL_HEAD.unpack_from(record)
        if kind or rpc_version != RPC_VERSION:
            _refuse_head(record)
        verifier = CREDENTIAL_START + 8 + length + (-length & 3)
        _, verifier_length = _FLAVOR_AND_LENGTH.unpack_from(record, verifier)
    except _struct.error:
        _refuse_head(record)
    position = verifier + 8 + verifier_length + (-verifier_length & 3)
    if length > MAX_AUTH_BYTES or verifier_length > MAX_AUTH_BYTES or position > len(record):
        raise XdrError(f"credential of {length} and verifier of {verifier_length} bytes in a call of {len(record)}")
    return xid, program, version, procedure, record[CREDENTIAL_START:verifier], position


def _refuse_head(record: bytes) -> NoReturn:
    """Say what is wrong.  A call of another RPC version is answered even if it is shorter than ours would be."""
    if len(record) < _VERSION_END:
        raise XdrError(f"a record of {len(record)} bytes cannot be a call")
    xid, kind, rpc_version = _struct.unpack_from(">III", record)
    if kind == msg_type.REPLY:
        raise ReplyReceived(f"a reply to call {xid:#x}, which nobody waits for")
    if kind != msg_type.CALL:
        raise XdrError(f"a call was expected, not a message of type {kind}")
    if rpc_version != RPC_VERSION:
        raise CallRefused(refused_version(xid), f"RPC version {rpc_version}, spoken is {RPC_VERSION}")
    raise XdrError(f"a record of {len(record)} bytes does not hold the head of a call")


CALL_HEAD: Final = _struct.Struct(">IIIIIIII")
"""xid, message type, RPC version, program, version, procedure; flavour and length of the credential."""

CREDENTIAL_START: Final = 24
_VERSION_END: Final = 12
_FLAVOR_AND_LENGTH: Final = _struct.Struct(">II")

SUCCESS_TAIL: Final = accepted(0, accept_stat.SUCCESS)[4:]
"""A reply that succeeded, without a verifier, is ``xid + SUCCESS_TAIL + results``; `xid` as it stood in the call."""
