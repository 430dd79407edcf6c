"""The client half of RPC: encode a call, recognise its reply, decode the result.  Who sends it is `dittofs.net`'s.

GETPORT = Exchange("PMAPPROC_GETPORT", 100000, 2, 3, arguments=mapping, result=uint32)
record = GETPORT.encode(xid, mapping(...))
...
if xid_of(reply) == xid:
    port = GETPORT.decode(reply, xid)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dittofs.rpc.credentials import MAX_GROUPS, authsys_parms
from dittofs.rpc.messages import (
    NO_AUTH,
    RPC_VERSION,
    SUCCESS_TAIL,
    accept_stat,
    accepted_reply,
    auth_flavor,
    auth_stat,
    call_body,
    mismatch_info,
    msg_type,
    opaque_auth,
    reject_stat,
    reply_stat,
    rpc_msg,
    rpc_msg_body,
)
from dittofs.xdr.errors import XdrError
from dittofs.xdr.types import Chunks, XdrUnion, codec_of, decode_exactly, encoded


class CallFailed(Exception):
    """A call came back without a result."""


class ProgramUnavailable(CallFailed):
    """The host has no such program there."""


class VersionUnavailable(CallFailed):
    """The host has the program, in versions `low` to `high`."""

    def __init__(self, text: str, *, low: int, high: int) -> None:
        super().__init__(text)
        self.low = low
        self.high = high


class ProcedureUnavailable(CallFailed):
    """The program has no such procedure."""


class ArgumentsRefused(CallFailed):
    """The host could not decode the arguments."""


class ServerFault(CallFailed):
    """The host failed for reasons of its own."""


class CredentialsDenied(CallFailed):
    """The host does not accept the credential; `status` says why."""

    def __init__(self, text: str, *, status: auth_stat) -> None:
        super().__init__(text)
        self.status = status


class RpcVersionUnavailable(CallFailed):
    """The host does not speak RPC version 2."""


class BadReply(CallFailed):
    """The reply cannot be decoded, or answers something else."""


class Unreachable(CallFailed):
    """The host could not be asked: no route, no connection in time, or gone."""


class Refused(Unreachable):
    """The host is there, and nobody listens on the port."""


class NoReply(CallFailed):
    """The call was sent, and no answer came in time: it may have arrived or not."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One procedure of somebody else's program.  `arguments` and `result` are XDR declarations, None for void."""

    name: str
    program: int
    version: int
    procedure: int
    arguments: Any = None
    result: Any = None

    def encode(self, xid: int, arguments: Any = None, *, credential: opaque_auth = NO_AUTH) -> bytes:
        """The call as a record."""
        head = _head(self.program, self.version, self.procedure, credential.flavor, bytes(credential.body))
        out: Chunks = [xid.to_bytes(4, "big"), head]
        codec_of(self.arguments).encode(out, arguments)
        return b"".join(out)

    def decode(self, record: bytes, xid: int) -> Any:
        """The result in a reply to the call with this xid; raises CallFailed."""
        try:
            if record[4:24] == SUCCESS_TAIL and xid_of(record) == xid:  # what nearly every reply begins with
                return decode_exactly(self.result, record, 24)
            message, position = codec_of(rpc_msg).decode(record, 0)
            if message.xid != xid or message.body.discriminant != msg_type.REPLY:
                raise BadReply(f"{self.name}: a message that does not answer call {xid:#x}")
            reply = message.body.value
            if reply.discriminant == reply_stat.MSG_DENIED:
                raise self._denied(reply.value)
            self._check_accepted(reply.value)
            return decode_exactly(self.result, record, position)
        except XdrError as error:
            raise BadReply(f"{self.name}: {error}") from error

    def _denied(self, rejection: XdrUnion) -> CallFailed:
        if rejection.discriminant == reject_stat.AUTH_ERROR:
            status: auth_stat = rejection.value
            return CredentialsDenied(f"{self.name}: the credential is refused, {status.name}", status=status)
        spoken: mismatch_info = rejection.value
        return RpcVersionUnavailable(
            f"{self.name}: the host speaks RPC versions {spoken.low} to {spoken.high}, not {RPC_VERSION}"
        )

    def _check_accepted(self, reply: accepted_reply) -> None:
        match reply.reply_data.discriminant:
            case accept_stat.SUCCESS:
                return
            case accept_stat.PROG_UNAVAIL:
                raise ProgramUnavailable(f"{self.name}: the host has no program {self.program}")
            case accept_stat.PROG_MISMATCH:
                served: mismatch_info = reply.reply_data.value
                text = f"versions {served.low} to {served.high} of program {self.program}, not {self.version}"
                raise VersionUnavailable(f"{self.name}: the host has {text}", low=served.low, high=served.high)
            case accept_stat.PROC_UNAVAIL:
                where = f"program {self.program} version {self.version}"
                raise ProcedureUnavailable(f"{self.name}: {where} has no procedure {self.procedure} there")
            case accept_stat.GARBAGE_ARGS:
                raise ArgumentsRefused(f"{self.name}: the host cannot decode the arguments")
            case _:
                raise ServerFault(f"{self.name}: the host failed with a system error")


@lru_cache(maxsize=256)
def _head(program: int, version: int, procedure: int, flavor: int, credential: bytes) -> bytes:
    """A call behind its transaction id, up to its arguments: the same for every call of one caller."""
    cred = opaque_auth(flavor=auth_flavor(flavor), body=credential)
    head = call_body(RPC_VERSION, program, version, procedure, cred=cred, verf=NO_AUTH)
    return encoded(rpc_msg, rpc_msg(0, rpc_msg_body(msg_type.CALL, head)))[4:]


def xid_of(record: bytes) -> int:
    """The transaction id that a message begins with; raises BadReply if it is too short to have one."""
    if len(record) < 4:
        raise BadReply(f"a message of {len(record)} bytes has no transaction id")
    return int.from_bytes(record[:4])


def auth_sys(
    *, uid: int, gid: int, groups: Sequence[int] = (), machine_name: bytes = b"", stamp: int = 0
) -> opaque_auth:
    """An AUTH_SYS credential.  Groups above the 16 that it holds are left out, as all clients do."""
    parameters = authsys_parms(stamp=stamp, machinename=machine_name, uid=uid, gid=gid, gids=[*groups][:MAX_GROUPS])
    return opaque_auth(flavor=auth_flavor.AUTH_SYS, body=encoded(authsys_parms, parameters))
