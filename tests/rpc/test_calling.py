"""The client half: what it sends is what the server half reads, and every refusal has its own exception."""

from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dittofs.rpc import calling
from dittofs.rpc.calling import Exchange, auth_sys, xid_of
from dittofs.rpc.credentials import CallReader
from dittofs.rpc.messages import (
    accept_stat,
    accepted,
    auth_stat,
    mismatch_info,
    opaque_auth,
    refused_credentials,
    refused_version,
)
from dittofs.xdr.types import String, decode_exactly, encoded, struct, uint32


@struct
class question:
    name: Annotated[bytes, String(max=20)]
    number: uint32


ASK = Exchange("ASK", program=300000, version=2, procedure=5, arguments=question, result=uint32)
NULL = Exchange("NULL", program=300000, version=2, procedure=0)


@given(xid=st.integers(0, 2**32 - 1), name=st.binary(max_size=20), uid=st.integers(0, 2**32 - 1))
def test_the_server_half_reads_what_is_sent(xid: int, name: bytes, uid: int) -> None:
    credential = auth_sys(uid=uid, gid=100, groups=[1, 2], machine_name=b"here")
    record = ASK.encode(xid, question(name, 9), credential=credential)
    got_xid, program, version, procedure, credentials, position = CallReader().read(record)
    assert (got_xid, program, version, procedure) == (xid, 300000, 2, 5)
    assert (credentials.uid, credentials.gid, credentials.groups) == (uid, 100, {1, 2})
    assert credentials.machine_name == b"here"
    assert decode_exactly(question, record, position) == question(name, 9)
    assert xid_of(record) == xid


def test_without_a_credential_the_call_is_anonymous() -> None:
    assert CallReader().read(NULL.encode(1))[4].is_anonymous


def test_groups_beyond_sixteen_are_left_out() -> None:
    record = NULL.encode(1, credential=auth_sys(uid=1, gid=1, groups=range(100, 120)))
    assert CallReader().read(record)[4].groups == set(range(100, 116))


def test_a_result() -> None:
    assert ASK.decode(accepted(7, accept_stat.SUCCESS) + encoded(uint32, 42), 7) == 42


def test_a_void_result() -> None:
    assert NULL.decode(accepted(7, accept_stat.SUCCESS), 7) is None


def test_a_verifier_is_skipped() -> None:
    reply = accepted(7, accept_stat.SUCCESS, verifier=opaque_auth(2, b"short"))
    assert ASK.decode(reply + encoded(uint32, 42), 7) == 42


@pytest.mark.parametrize(
    ("reply", "error", "text"),
    [
        (accepted(7, accept_stat.PROG_UNAVAIL), calling.ProgramUnavailable, "ASK: the host has no program 300000"),
        (
            accepted(7, accept_stat.PROG_MISMATCH, mismatch=mismatch_info(3, 4)),
            calling.VersionUnavailable,
            "ASK: the host has versions 3 to 4 of program 300000, not 2",
        ),
        (accepted(7, accept_stat.PROC_UNAVAIL), calling.ProcedureUnavailable, "has no procedure 5 there"),
        (accepted(7, accept_stat.GARBAGE_ARGS), calling.ArgumentsRefused, "cannot decode the arguments"),
        (accepted(7, accept_stat.SYSTEM_ERR), calling.ServerFault, "system error"),
        (refused_version(7), calling.RpcVersionUnavailable, "speaks RPC versions 2 to 2"),
        (refused_credentials(7, auth_stat.AUTH_TOOWEAK), calling.CredentialsDenied, "refused, AUTH_TOOWEAK"),
        (accepted(8, accept_stat.SUCCESS) + bytes(4), calling.BadReply, "does not answer call 0x7"),
        (NULL.encode(7), calling.BadReply, "does not answer call 0x7"),
        (accepted(7, accept_stat.SUCCESS), calling.BadReply, "end too early"),
        (accepted(7, accept_stat.SUCCESS) + bytes(8), calling.BadReply, "4 bytes left over"),
        (b"", calling.BadReply, "end too early"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_failure_says_what_it_is(reply: bytes, error: type[calling.CallFailed], text: str) -> None:
    with pytest.raises(error, match=text):
        ASK.decode(reply, 7)


def test_a_failure_carries_its_details() -> None:
    with pytest.raises(calling.VersionUnavailable) as version:
        ASK.decode(accepted(7, accept_stat.PROG_MISMATCH, mismatch=mismatch_info(3, 4)), 7)
    assert (version.value.low, version.value.high) == (3, 4)
    with pytest.raises(calling.CredentialsDenied) as denied:
        ASK.decode(refused_credentials(7, auth_stat.AUTH_BADCRED), 7)
    assert denied.value.status is auth_stat.AUTH_BADCRED


@given(
    record=st.binary(max_size=80)
    | st.binary(max_size=60).map(lambda tail: bytes.fromhex("00000007 00000001") + tail)
    | st.binary(max_size=9).map(lambda tail: accepted(7, accept_stat.SUCCESS) + tail)
)
def test_garbage_is_a_failed_call_or_a_result(record: bytes) -> None:
    """[NFS-6], the other way round: nothing that a host sends surprises the caller."""
    try:
        result = ASK.decode(record, 7)
    except calling.CallFailed:
        return
    assert result == int.from_bytes(record[-4:])


def test_a_message_too_short_for_an_xid() -> None:
    with pytest.raises(calling.BadReply, match="3 bytes has no transaction id"):
        xid_of(b"abc")
