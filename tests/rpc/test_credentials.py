"""Credentials: who a call says to come from, what is refused, and what is remembered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dittofs.rpc.credentials import (
    ANONYMOUS,
    CallReader,
    Credentials,
    CredentialsRefused,
    authsys_parms,
)
from dittofs.rpc.messages import (
    NO_AUTH,
    CallRefused,
    auth_flavor,
    auth_stat,
    call_body,
    msg_type,
    opaque_auth,
    refused_credentials,
    rpc_msg,
    rpc_msg_body,
)
from dittofs.xdr.errors import XdrError
from dittofs.xdr.types import encoded
from tests.wire.strategies import values_of

ARGUMENTS = b"arguments..."


def call_with(credential: opaque_auth, *, verifier: opaque_auth = NO_AUTH, xid: int = 7) -> bytes:
    body = call_body(2, 100003, 3, 1, credential, verifier)
    return encoded(rpc_msg, rpc_msg(xid, rpc_msg_body(msg_type.CALL, body))) + ARGUMENTS


def auth_sys(uid: int = 1000, gids: tuple[int, ...] = (4, 24), machine: bytes = b"client") -> opaque_auth:
    return opaque_auth(1, encoded(authsys_parms, authsys_parms(1, machine, uid, 100, [*gids])))


def test_auth_sys() -> None:
    xid, program, version, procedure, credentials, position = CallReader().read(call_with(auth_sys()))
    assert (xid, program, version, procedure) == (7, 100003, 3, 1)
    assert call_with(auth_sys())[position:] == ARGUMENTS
    assert credentials == Credentials(
        flavor=auth_flavor.AUTH_SYS, uid=1000, gid=100, groups=frozenset({4, 24}), machine_name=b"client"
    )
    assert not credentials.is_anonymous


def test_auth_none_is_anonymous() -> None:
    """[NFS-4]"""
    credentials = CallReader().read(call_with(NO_AUTH))[4]
    assert credentials == ANONYMOUS
    assert credentials.is_anonymous


@given(parameters=values_of(authsys_parms), verifier=values_of(opaque_auth))
def test_a_second_call_reads_the_same(parameters: authsys_parms, verifier: opaque_auth) -> None:
    """The cache changes nothing but the time, whatever the verifier."""
    reader = CallReader()
    record = call_with(opaque_auth(1, encoded(authsys_parms, parameters)), verifier=verifier)
    first = reader.read(record)
    assert reader.read(record) == first
    assert first[4].uid == parameters.uid
    assert record[first[5] :] == ARGUMENTS


def test_a_known_caller_is_not_read_again() -> None:
    reader = CallReader()
    assert reader.read(call_with(auth_sys(), xid=1))[4] is reader.read(call_with(auth_sys(), xid=2))[4]


@given(record=st.binary(max_size=60).map(lambda tail: call_with(auth_sys())[:24] + tail) | st.binary(max_size=100))
def test_garbage_is_the_same_error_with_and_without_a_cache(record: bytes) -> None:
    """[NFS-6]"""
    warm = CallReader()
    warm.read(call_with(auth_sys()))
    warm.read(call_with(NO_AUTH))
    assert outcome(warm, record) == outcome(CallReader(), record)


def test_a_cut_call_of_a_known_caller() -> None:
    """[NFS-6]"""
    reader = CallReader()
    record = call_with(auth_sys())
    head = len(record) - len(ARGUMENTS)
    reader.read(record)
    for end in range(head):
        with pytest.raises(XdrError):
            reader.read(record[:end])
    assert reader.read(record[:head])[5] == head


def test_another_rpc_version_from_a_known_caller() -> None:
    reader = CallReader()
    record = call_with(auth_sys())
    reader.read(record)
    with pytest.raises(CallRefused, match="RPC version 3"):
        reader.read(record[:8] + (3).to_bytes(4) + record[12:])
    with pytest.raises(XdrError, match="type 2"):
        reader.read(record[:4] + (2).to_bytes(4) + record[8:])


class TestRefused:
    @pytest.mark.parametrize(
        ("credential", "status"),
        [
            (opaque_auth(1, b""), auth_stat.AUTH_BADCRED),
            (opaque_auth(1, auth_sys().body[:-4]), auth_stat.AUTH_BADCRED),
            (opaque_auth(1, auth_sys().body + bytes(4)), auth_stat.AUTH_BADCRED),
            (opaque_auth(0, b"1234"), auth_stat.AUTH_BADCRED),
            (opaque_auth(2, b""), auth_stat.AUTH_TOOWEAK),
            (opaque_auth(6, b"1234"), auth_stat.AUTH_TOOWEAK),
            (opaque_auth(4_000_000_000, b""), auth_stat.AUTH_TOOWEAK),
        ],
        ids=["empty", "cut", "longer", "none with a body", "AUTH_SHORT", "RPCSEC_GSS", "unknown"],
    )
    def test_with_the_status_of_the_rfc(self, credential: opaque_auth, status: auth_stat) -> None:
        with pytest.raises(CallRefused) as caught:
            CallReader().read(call_with(credential))
        assert caught.value.reply == refused_credentials(7, status)

    def test_sixteen_groups_and_255_bytes_of_name_are_the_limit(self) -> None:
        """RFC 5531 appendix A."""
        reader = CallReader()
        assert len(reader.read(call_with(auth_sys(gids=tuple(range(16)))))[4].groups) == 16
        assert reader.read(call_with(auth_sys(machine=b"m" * 255)))[4].machine_name == b"m" * 255
        seventeen = auth_sys(gids=()).body[:-4] + (17).to_bytes(4) + bytes(4 * 17)
        long_name = bytes(4) + (256).to_bytes(4) + b"m" * 256 + bytes(12)
        for body in (seventeen, long_name):
            with pytest.raises(CallRefused) as caught:
                reader.read(call_with(opaque_auth(1, body)))
            assert caught.value.reply == refused_credentials(7, auth_stat.AUTH_BADCRED)


class TestCache:
    def test_is_bounded_and_the_oldest_goes(self) -> None:
        reader = CallReader(cache_size=3)
        first = reader.read(call_with(auth_sys(uid=0)))[4]
        kept = [reader.read(call_with(auth_sys(uid=uid)))[4] for uid in (1, 2, 3)]
        for uid, known in zip((1, 2, 3), kept, strict=True):
            assert reader.read(call_with(auth_sys(uid=uid)))[4] is known
        assert reader.read(call_with(auth_sys(uid=0)))[4] is not first

    def test_calls_with_a_verifier_do_not_enter(self) -> None:
        """They could never be found again, only push out what can."""
        reader = CallReader(cache_size=1)
        known = reader.read(call_with(auth_sys()))[4]
        assert reader.read(call_with(auth_sys(), verifier=opaque_auth(0, b"1234")))[4] == known
        assert reader.read(call_with(auth_sys()))[4] is known

    def test_refused_credentials_do_not_enter(self) -> None:
        reader = CallReader(cache_size=1)
        known = reader.read(call_with(auth_sys()))[4]
        for _ in range(3):
            with pytest.raises(CallRefused):
                reader.read(call_with(opaque_auth(1, b"")))
        assert reader.read(call_with(auth_sys()))[4] is known


class TestRegisteredFlavor:
    def test_is_read_at_every_call(self) -> None:
        """A security context may end between two calls that look alike."""
        seen: list[bytes] = []

        def read(body: bytes) -> Credentials:
            seen.append(body)
            if len(seen) > 1:
                raise CredentialsRefused(auth_stat.RPCSEC_GSS_CTXPROBLEM, "the context has ended")
            return Credentials(flavor=6, uid=5, gid=5)

        reader = CallReader()
        reader.register(auth_flavor.RPCSEC_GSS, read)
        record = call_with(opaque_auth(6, b"token"))
        assert reader.read(record)[4].uid == 5
        with pytest.raises(CallRefused, match="has ended") as caught:
            reader.read(record)
        assert caught.value.reply == refused_credentials(7, auth_stat.RPCSEC_GSS_CTXPROBLEM)
        assert seen == [b"token", b"token"]

    def test_cannot_replace_another(self) -> None:
        with pytest.raises(AssertionError, match="registered twice"):
            CallReader().register(auth_flavor.AUTH_SYS, lambda body: ANONYMOUS)


def outcome(reader: CallReader, record: bytes) -> object:
    try:
        return reader.read(record)
    except CallRefused as refusal:
        return refusal.reply
    except XdrError:
        return XdrError
