"""Auth flavours: the credential in a call to who the caller says to be.

What a credential is allowed to do (squashing, allowed flavours) is decided per share, elsewhere.  A client sends the
same few credentials with every call, so the answer is kept under the bytes they came as,
and a call from a known caller costs one `struct` call, one slice and one look-up.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from struct import error as struct_error
from typing import Annotated, Final

from dittofs.rpc.messages import (
    CALL_HEAD,
    CREDENTIAL_START,
    NO_AUTH,
    RPC_VERSION,
    CallRefused,
    auth_flavor,
    auth_stat,
    opaque_auth,
    parse_call,
    refused_credentials,
)
from dittofs.xdr.errors import XdrError
from dittofs.xdr.types import Array, String, decode_exactly, encoded, struct, uint32

NOBODY: Final = 65534
MAX_MACHINE_NAME: Final = 255
MAX_GROUPS: Final = 16


@struct  # RFC 5531 appendix A
class authsys_parms:
    stamp: uint32
    machinename: Annotated[bytes, String(max=MAX_MACHINE_NAME)]
    uid: uint32
    gid: uint32
    gids: Annotated[list[uint32], Array(max=MAX_GROUPS)]


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who the caller says to be, before any squashing."""

    flavor: int
    uid: int
    gid: int
    groups: frozenset[int] = frozenset()
    machine_name: bytes = b""

    @property
    def is_anonymous(self) -> bool:
        """Nobody was named: the share's anonymous ids apply [NFS-4]."""
        return self.flavor == auth_flavor.AUTH_NONE


ANONYMOUS: Final = Credentials(flavor=auth_flavor.AUTH_NONE, uid=NOBODY, gid=NOBODY)


class CredentialsRefused(Exception):
    """A credential that is not believed, and what the caller is told."""

    def __init__(self, status: auth_stat, text: str) -> None:
        super().__init__(text)
        self.status = status


Reader = Callable[[bytes], Credentials]
"""A flavour: the body of a credential to who it names; raises CredentialsRefused or XdrError."""


class CallReader:
    """Reads the heads of calls; knows AUTH_NONE and AUTH_SYS, other flavours are registered."""

    def __init__(self, *, cache_size: int = 4096) -> None:
        self._cache_size = cache_size
        self._cache: OrderedDict[bytes, Credentials] = OrderedDict()
        self._readers: dict[int, Reader] = {auth_flavor.AUTH_NONE: _read_none, auth_flavor.AUTH_SYS: _read_sys}
        self._cached_flavors = frozenset(self._readers)

    def register(self, flavor: int, reader: Reader) -> None:
        """Add a flavour.  Its credentials are read anew at every call, for they may expire or count up."""
        assert flavor not in self._readers, f"auth flavour {flavor} is registered twice"
        self._readers[flavor] = reader

    def read(self, record: bytes | memoryview) -> tuple[int, int, int, int, Credentials, int]:
        """The head of a call: xid, program, version, procedure, credentials, position of the arguments.

        Raises XdrError if there is nobody to answer, CallRefused with the answer if the call is denied.
        """
        try:
            xid, kind, rpc_version, program, version, procedure, _, length = _unpack_head(record)
        except struct_error:
            return self._read_new(bytes(record))
        # Bytes found in the cache have been parsed before: a credential, whole, and an empty verifier of 8 bytes.
        position = CREDENTIAL_START + 16 + length + (-length & 3)
        known = self._cache.get(bytes(record[CREDENTIAL_START:position]))
        if known is None or kind or rpc_version != RPC_VERSION:
            return self._read_new(bytes(record))
        return xid, program, version, procedure, known, position

    def knows(self, authentication: bytes) -> bool:
        """Whether a credential and verifier mean the same at every call, and were read before."""
        return authentication in self._cache

    def _read_new(self, record: bytes) -> tuple[int, int, int, int, Credentials, int]:
        xid, program, version, procedure, credential, position = parse_call(record)
        try:
            auth = decode_exactly(opaque_auth, credential)
            read = self._reader(auth.flavor)(auth.body)
        except CredentialsRefused as refusal:
            raise CallRefused(refused_credentials(xid, refusal.status), str(refusal)) from None
        except XdrError as error:
            raise CallRefused(refused_credentials(xid, auth_stat.AUTH_BADCRED), str(error)) from None
        authentication = record[CREDENTIAL_START:position]
        if auth.flavor in self._cached_flavors and authentication == credential + _EMPTY_VERIFIER:
            self._remember(authentication, read)
        return xid, program, version, procedure, read, position

    def _reader(self, flavor: int) -> Reader:
        reader = self._readers.get(flavor)
        if reader is None:
            raise CredentialsRefused(auth_stat.AUTH_TOOWEAK, f"auth flavour {flavor} is not supported")
        return reader

    def _remember(self, authentication: bytes, read: Credentials) -> None:
        if len(self._cache) >= self._cache_size:
            self._cache.popitem(last=False)  # the oldest: a flood of new ones cannot grow the cache
        self._cache[authentication] = read


_unpack_head: Final = CALL_HEAD.unpack_from
_EMPTY_VERIFIER: Final = encoded(opaque_auth, NO_AUTH)


def _read_none(body: bytes) -> Credentials:
    if body:
        raise CredentialsRefused(auth_stat.AUTH_BADCRED, f"AUTH_NONE with a body of {len(body)} bytes, must be empty")
    return ANONYMOUS


def _read_sys(body: bytes) -> Credentials:
    parameters = decode_exactly(authsys_parms, body)
    return Credentials(
        flavor=auth_flavor.AUTH_SYS,
        uid=parameters.uid,
        gid=parameters.gid,
        groups=frozenset(parameters.gids),
        machine_name=parameters.machinename,
    )
