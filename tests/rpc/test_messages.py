"""RPC messages: the bytes of RFC 5531, and that the fast pieces say the same as the declarations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dittofs.rpc.messages import (
    MAX_AUTH_BYTES,
    NO_AUTH,
    SUCCESS_TAIL,
    CallRefused,
    ReplyReceived,
    accept_stat,
    accepted,
    accepted_reply,
    accepted_reply_data,
    auth_stat,
    call_body,
    mismatch_info,
    msg_type,
    opaque_auth,
    parse_call,
    refused_credentials,
    refused_version,
    reply_body,
    reply_stat,
    rpc_msg,
    rpc_msg_body,
)
from dittofs.xdr.errors import XdrError
from dittofs.xdr.types import codec_of, decode_exactly, encoded
from tests.wire.strategies import values_of

NULL_CALL = bytes.fromhex("00000007 00000000 00000002 000186a3 00000003 00000000 00000000 00000000 00000000 00000000")
"""xid 7, CALL, RPC 2, NFS 3, procedure 0, AUTH_NONE, AUTH_NONE."""


def call_record(xid: int, body: call_body, arguments: bytes = b"") -> bytes:
    return encoded(rpc_msg, rpc_msg(xid, rpc_msg_body(msg_type.CALL, body))) + arguments


def test_a_call_is_the_bytes_of_the_rfc() -> None:
    assert call_record(7, call_body(2, 100003, 3, 0, NO_AUTH, NO_AUTH)) == NULL_CALL


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (accepted(7, accept_stat.SUCCESS), "00000007 00000001 00000000 00000000 00000000 00000000"),
        (accepted(7, accept_stat.PROG_UNAVAIL), "00000007 00000001 00000000 00000000 00000000 00000001"),
        (
            accepted(7, accept_stat.PROG_MISMATCH, mismatch=mismatch_info(low=3, high=4)),
            "00000007 00000001 00000000 00000000 00000000 00000002 00000003 00000004",
        ),
        (accepted(7, accept_stat.PROC_UNAVAIL), "00000007 00000001 00000000 00000000 00000000 00000003"),
        (accepted(7, accept_stat.GARBAGE_ARGS), "00000007 00000001 00000000 00000000 00000000 00000004"),
        (accepted(7, accept_stat.SYSTEM_ERR), "00000007 00000001 00000000 00000000 00000000 00000005"),
        (refused_version(7), "00000007 00000001 00000001 00000000 00000002 00000002"),
        (refused_credentials(7, auth_stat.AUTH_TOOWEAK), "00000007 00000001 00000001 00000001 00000005"),
    ],
    ids=["success", "program", "version", "procedure", "garbage", "system", "rpc version", "credentials"],
)
def test_replies_are_the_bytes_of_the_rfc(reply: bytes, expected: str) -> None:
    """[NFS-6]"""
    assert reply == bytes.fromhex(expected)


@given(xid=st.integers(0, 2**32 - 1))
def test_the_success_tail_is_what_the_declarations_say(xid: int) -> None:
    reply = reply_body(reply_stat.MSG_ACCEPTED, accepted_reply(NO_AUTH, accepted_reply_data(accept_stat.SUCCESS, None)))
    declared = encoded(rpc_msg, rpc_msg(xid, rpc_msg_body(msg_type.REPLY, reply)))
    assert xid.to_bytes(4) + SUCCESS_TAIL == declared


class TestParseCall:
    @given(xid=st.integers(0, 2**32 - 1), body=values_of(call_body), arguments=st.binary(max_size=40))
    def test_reads_what_the_declaration_reads(self, xid: int, body: call_body, arguments: bytes) -> None:
        body.rpcvers = 2
        record = call_record(xid, body, arguments)
        got_xid, program, version, procedure, credential, position = parse_call(record)
        assert (got_xid, program, version, procedure) == (xid, body.prog, body.vers, body.proc)
        assert decode_exactly(opaque_auth, credential) == body.cred
        assert record[position:] == arguments

    @given(record=st.binary(max_size=120) | st.binary(max_size=120).map(lambda tail: NULL_CALL[:24] + tail))
    def test_accepts_exactly_what_the_declaration_accepts(self, record: bytes) -> None:
        """[NFS-6]  Over random bytes, with and without a valid beginning."""
        try:
            parsed = parse_call(record)
        except CallRefused:
            assert record[4:8] == bytes(4)
            assert record[8:12] != (2).to_bytes(4)
        except XdrError:
            try:
                message, _ = codec_of(rpc_msg).decode(record, 0)
            except XdrError:
                return
            assert message.body.discriminant == msg_type.REPLY
        else:
            assert codec_of(rpc_msg).decode(record, 0)[1] == parsed[-1]

    def test_cut_anywhere_is_an_error(self) -> None:
        record = call_record(7, call_body(2, 100003, 3, 0, opaque_auth(1, b"12345"), opaque_auth(0, b"1")))
        for end in range(len(record)):
            with pytest.raises(XdrError):
                parse_call(record[:end])
        assert parse_call(record)[-1] == len(record)

    def test_authentication_is_at_most_400_bytes(self) -> None:
        """RFC 5531 8.2."""
        longest = opaque_auth(1, b"x" * MAX_AUTH_BYTES)
        assert parse_call(call_record(7, call_body(2, 100003, 3, 0, longest, longest)))[0] == 7
        too_long = MAX_AUTH_BYTES + 1
        body = too_long.to_bytes(4) + bytes(too_long + 3)
        with pytest.raises(XdrError, match="credential of 401"):
            parse_call(NULL_CALL[:28] + body + bytes(8))
        with pytest.raises(XdrError, match="verifier of 401"):
            parse_call(NULL_CALL[:36] + body)

    def test_another_rpc_version_is_told_ours(self) -> None:
        """[NFS-6]  However short the call is: another version may have another head."""
        for size in range(12, len(NULL_CALL) + 1):
            with pytest.raises(CallRefused, match="RPC version 3") as caught:
                parse_call((NULL_CALL[:8] + (3).to_bytes(4) + NULL_CALL[12:])[:size])
            assert caught.value.reply == refused_version(7)

    def test_a_reply_is_not_a_call(self) -> None:
        with pytest.raises(ReplyReceived, match="call 0x7"):
            parse_call(accepted(7, accept_stat.SUCCESS))
        with pytest.raises(XdrError, match="not a message of type 2"):
            parse_call(NULL_CALL[:4] + (2).to_bytes(4) + NULL_CALL[8:])
