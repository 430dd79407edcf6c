"""From a call to a file: whose handle it is, whether this client may use the share and as whom, and the transaction in
which the procedure then runs.  Also the other way round: what a client hears when it failed.

Two kinds of procedures are registered here.  A *metadata* procedure is a plain function of a view, run by the share's
transaction driver.  A *waiting* one is a coroutine, for content.
"""

from collections.abc import Callable, Coroutine
from operator import attrgetter
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

from dittofs.clients.host_ids import HostsAt
from dittofs.files.inodes import load
from dittofs.files.values import File
from dittofs.files.volume import Volume
from dittofs.locks.mandatory import LockGuard
from dittofs.locks.service import LockService
from dittofs.model.errors import CrossShare, FileError, TryLater
from dittofs.model.identity import Identity
from dittofs.model.ids import FileId
from dittofs.model.later import Later
from dittofs.protocols.nfs3.attributes import AttributeCache
from dittofs.protocols.nfs3.entries import EntryCache
from dittofs.protocols.nfs3.errors import status_of
from dittofs.protocols.nfs3.limits import Limits, limits_of
from dittofs.protocols.nfs3.types import nfsstat3, wcc_data
from dittofs.rpc.program import AuthenticationRefused, Call, Failure, MustWait, Peer, Program
from dittofs.shares.registry import ShareRegistry
from dittofs.shares.share import FlavorRefused, Share

NFS3 = Program("NFS", 100003, 3)

NFS3_OK: Final = nfsstat3.NFS3_OK

VISITORS_KEPT: Final = 8192

Metadata = TypeVar("Metadata", bound=Callable[..., Any])
Waiting = TypeVar("Waiting", bound=Callable[..., Coroutine[Any, Any, Any]])


class Waits(NamedTuple):
    """The calls of a changing metadata procedure that have to wait all the same, told by their arguments, and the
    coroutine function ``(call, visitor, file id, arguments) -> success arm`` that answers them."""

    is_for: Callable[[Any], bool]
    function: Callable[..., Coroutine[Any, Any, Any]]


class Visitor:
    """A user of a client at a share: everything that stays the same from call to call."""

    __slots__ = ("attributes", "credentials", "entries", "guard", "identity", "limits", "services", "share", "volume")

    def __init__(self, services: "Nfs3Services", share: Share, call: Call, identity: Identity):
        self.services = services
        self.share = share
        self.volume: Volume = share.volume
        self.identity = identity
        self.attributes = services.attributes_of(share)
        self.entries = services.entries_of(share)
        self.limits: Limits = limits_of(call.peer.transport)
        self.guard = services.guard(share, call.peer.address)
        self.credentials = call.credentials
        """Kept, so that no other credentials can have the same `id` as long as this visitor is remembered."""

    def same_share(self, handle: bytes) -> FileId:
        """The file of a second handle of one call.  Raises CrossShare."""
        share, id_ = self.services.shares.resolve(handle)
        if share is not self.share:
            raise CrossShare(f"one file is in {self.share.name}, the other in {share.name}")
        return id_


class Nfs3Services:
    """What the procedures work on."""

    __slots__ = ("_attributes", "_entries", "_visitors", "bytes_read", "bytes_written", "locks", "shares")

    def __init__(self, shares: ShareRegistry):
        self.shares = shares
        self.locks: LockService | None = None
        """Set before a share with mandatory locks is served."""
        self.bytes_read = self.bytes_written = 0
        self._attributes: dict[Share, AttributeCache] = {}
        self._entries: dict[Share, EntryCache] = {}
        self._visitors: dict[tuple[int, str, str, Share], Visitor] = {}

    def admit(self, call: Call, share: Share) -> Visitor:
        """Who calls.  Raises AccessDenied, AuthenticationRefused [NFS-4]."""
        peer: Peer = call.peer
        key = (id(call.credentials), peer.address, peer.transport, share)
        visitor = self._visitors.get(key)
        if visitor is None:
            visitor = Visitor(self, share, call, _identity_of(call, share))
            if len(self._visitors) >= VISITORS_KEPT:
                del self._visitors[next(iter(self._visitors))]
            self._visitors[key] = visitor
        return visitor

    def guard(self, share: Share, address: str) -> LockGuard | None:
        """What keeps a client from bytes that others have locked [LOCK-8]; None where locks are advisory."""
        if not share.settings.mandatory_locks:
            return None
        assert self.locks is not None, "mandatory locks need a lock service"
        return LockGuard(self.locks, share.name, HostsAt(address))

    def forget(self, share: Share) -> None:
        """It is not served any more."""
        self._attributes.pop(share, None)
        self._entries.pop(share, None)
        self._visitors = {key: visitor for key, visitor in self._visitors.items() if visitor.share is not share}

    def attributes_of(self, share: Share) -> AttributeCache:
        cache = self._attributes.get(share)
        if cache is None:
            cache = self._attributes[share] = AttributeCache(share.fsid)
        return cache

    def entries_of(self, share: Share) -> EntryCache:
        cache = self._entries.get(share)
        if cache is None:
            cache = self._entries[share] = EntryCache(share.volume, self.attributes_of(share))
        return cache


def _identity_of(call: Call, share: Share) -> Identity:
    credentials = call.credentials
    named = None
    if not credentials.is_anonymous:
        named = Identity(credentials.uid, credentials.gid, credentials.groups)
    try:
        return share.admit(address=call.peer.address, flavor=credentials.flavor, identity=named)
    except FlavorRefused as refused:
        raise AuthenticationRefused(str(refused)) from None


def _refuse_change(share: Share) -> NoReturn:
    share.check_writable()
    raise TryLater(f"{share.name} stands still for a moment, for a backup")


def metadata(
    number: int,
    arguments: Any,
    result: Any,
    *,
    handle: str,
    failure: Failure,
    is_change: bool = False,
    is_lasting: bool = False,
    waits: Waits | None = None,
) -> Callable[[Metadata], Metadata]:
    """Register a function ``(view, visitor, file id, arguments) -> success arm``.  `handle` says where in the
    arguments the handle is that decides about the share.  The answer of one that `is_lasting` depends on nothing but
    the call, the visitor and the records that `view.get` told: as long as these are the same, so is the answer."""
    handle_in = attrgetter(handle)

    def register(function: Metadata) -> Metadata:
        def answer(call: Call, args: Any) -> Any:
            services: Nfs3Services = call.services
            share, id_ = services.shares.resolve(handle_in(args))
            visitor = services.admit(call, share)
            volume = share.volume
            if is_change:
                if share.is_read_only or volume.is_frozen:
                    _refuse_change(share)
                if waits is not None and waits.is_for(args):
                    raise MustWait(waits.function(call, visitor, id_, args))
            transactions = volume.transactions
            try:
                if call.is_asked_again:
                    found, call.witness = transactions.look(function, visitor, id_, args, is_relaxed=volume.is_relaxed)
                    return found
                return transactions.run(function, visitor, id_, args, is_relaxed=volume.is_relaxed)
            finally:
                call.hold = transactions.hold

        answer.__name__ = function.__name__.rstrip("_")
        NFS3.procedure(
            number,
            arguments,
            result,
            failure=failure,
            is_replayed=is_change,
            is_lasting=is_lasting,
            success=NFS3_OK,
        )(answer)
        return function

    return register


def waiting(
    number: int,
    arguments: Any,
    result: Any,
    *,
    handle: str,
    failure: Failure,
    is_change: bool = False,
    is_replayed: bool = False,
    at_once: Callable[[Call, Visitor, FileId, Any], Any] | None = None,
) -> Callable[[Waiting], Waiting]:
    """Register a coroutine function ``(call, visitor, file id, arguments) -> success arm``; `at_once` is a plain one,
    with the same parameters, that is asked first and says None if it would have to wait."""
    handle_in = attrgetter(handle)

    def come_to(call: Call, args: Any) -> tuple[Visitor, FileId]:
        services: Nfs3Services = call.services
        share, id_ = services.shares.resolve(handle_in(args))
        visitor = services.admit(call, share)
        if is_change and (share.is_read_only or share.volume.is_frozen):
            _refuse_change(share)
        return visitor, id_

    def register(function: Waiting) -> Waiting:
        # A plain function in either case: mypyc loses a coroutine function that stands beside another in here.
        def answer(call: Call, args: Any) -> Any:
            visitor, id_ = come_to(call, args)
            found = None if at_once is None else at_once(call, visitor, id_, args)
            if found is None:
                raise MustWait(function(call, visitor, id_, args))
            return found

        answer.__name__ = function.__name__.rstrip("_")
        NFS3.procedure(number, arguments, result, failure=failure, is_replayed=is_replayed, success=NFS3_OK)(answer)
        return function

    return register


async def run(call: Call, visitor: Visitor, function: Callable[..., Any], *args: Any) -> Any:
    """Run one transaction of a waiting procedure, without waiting if the store is local: the answer waits instead."""
    volume = visitor.volume
    transactions = volume.transactions
    try:
        return transactions.run(function, *args, is_relaxed=volume.is_relaxed)
    except Later:
        return await transactions.perform(function, *args, is_relaxed=volume.is_relaxed)
    finally:
        call.hold = transactions.hold


Part = Callable[[Call, Any], Any]
"""One field of a failure arm: (call, arguments) -> its value."""


def failing(result: Callable[..., Any], arm: Callable[..., Any] | None = None, **parts: Part) -> Failure:
    """What builds the failure arm of a result from its fields."""

    def build(call: Call, args: Any, error: FileError) -> Any:
        if arm is None:
            return result(status_of(error))
        return result(status_of(error), arm(**{name: part(call, args) for name, part in parts.items()}))

    return build


def attributes_at(handle: str) -> Part:
    """`post_op_attr` of the file with this handle."""
    handle_in = attrgetter(handle)

    def part(call: Call, args: Any) -> bytes | None:
        found = _as_it_is(call, handle_in(args))
        return None if found is None else found[0].attributes.encoded(found[1])

    return part


def wcc_at(handle: str) -> Part:
    """`wcc_data` of the file with this handle: a failed call changed nothing, so both sides are as it is now."""
    handle_in = attrgetter(handle)

    def part(call: Call, args: Any) -> wcc_data | bytes:
        found = _as_it_is(call, handle_in(args))
        return wcc_data(None, None) if found is None else found[0].attributes.wcc(found[1], found[1])

    return part


def _as_it_is(call: Call, handle: bytes) -> tuple[Visitor, File] | None:
    """The file of a handle, for a client that may hear of it."""
    services: Nfs3Services = call.services
    try:
        share, id_ = services.shares.resolve(handle)
        visitor = services.admit(call, share)
        transactions = share.volume.transactions
        file = transactions.run(load, id_, is_relaxed=share.volume.is_relaxed)
    except (FileError, AuthenticationRefused, Later):
        return None  # attributes are optional in every failure arm: none is worth a second journey to the store
    # The failed transaction saw at least as much as this one, so what it waits for comes no earlier.
    call.hold = call.hold or transactions.hold
    return visitor, file
