"""From a call to a file and an owner: whose handle it is, whether this client may use the share, and who locks.

Nobody is believed to be another host: an owner belongs to the caller name *and* the address that the call came from
[NLM-7], and so do the client's entry in the registry and every callback.
"""

from typing import Any, NamedTuple

from dittofs.clients.host_ids import host_id, host_name
from dittofs.clients.monitoring import HostMonitor
from dittofs.clients.registry import TooManyClients
from dittofs.clients.watched import Caller, Standing
from dittofs.files import io
from dittofs.files.volume import Volume
from dittofs.locks.service import LockService
from dittofs.locks.values import Owner
from dittofs.model.errors import FileError, TryLater
from dittofs.model.identity import Identity
from dittofs.model.ids import FileRef
from dittofs.protocols.nlm.answering import Answering
from dittofs.protocols.nlm.granting import Granting
from dittofs.rpc.credentials import Credentials
from dittofs.rpc.program import AuthenticationRefused, Call, Hold, Peer
from dittofs.rpc.remembering import Witness
from dittofs.shares.registry import ShareRegistry
from dittofs.shares.share import FlavorRefused, Share

OWNERS_KEPT = 65_536
ADMITTED_KEPT = 8192
KNOWN_KEPT = 16_384


class Target(NamedTuple):
    """A file that a call is about, and whom its share takes the caller for."""

    share: Share
    file: FileRef
    identity: Identity

    async def check_access(self) -> None:
        """Read access or ownership, for shared and exclusive locks alike [LOCK-10].  Raises StaleHandle, AccessDenied,
        and what tells of something that is no regular file."""
        volume = self.share.volume
        await volume.transactions.perform(io.open_for_read, self.identity, self.file.file, is_relaxed=volume.is_relaxed)


class Known:
    """An owner of a client at a file of a share that this server decides about alone: everything about them that stays
    the same from call to call, so that they can be answered at once."""

    __slots__ = (
        "_credentials",
        "changes",
        "file",
        "identity",
        "owner",
        "share",
        "standing",
        "told",
        "volume",
        "witness",
    )

    def __init__(self, target: Target, owner: Owner, changes: int, credentials: Credentials):
        self.share: Share = target.share
        self.volume: Volume = target.share.volume
        self.file: FileRef = target.file
        self.identity: Identity = target.identity
        self.owner = owner
        self.changes = changes
        self.standing: Standing | None = None
        self.told: tuple[str, str, int, int] | None = None
        """What the client said of itself when it had this standing."""
        self._credentials = credentials
        """Kept, so that no others can have the same `id` as long as this is remembered."""
        self.witness: Witness | None = None
        """Of having been allowed to lock."""

    def may_lock(self) -> bool:
        """[LOCK-10], if that can be said at once; what is wrong, or not durable yet, is found by who waits."""
        witness = self.witness
        if witness is not None and witness.is_unchanged():
            return True
        volume = self.volume
        transactions = volume.transactions
        try:
            _, self.witness = transactions.look(
                io.open_for_read, self.identity, self.file.file, is_relaxed=volume.is_relaxed
            )
        except FileError:
            return False
        return transactions.hold is None


class NlmServices:
    """What the procedures work on."""

    __slots__ = ("_admitted", "_known", "_owners", "answering", "granting", "hosts", "locks", "shares")

    def __init__(
        self,
        shares: ShareRegistry,
        locks: LockService,
        hosts: HostMonitor,
        *,
        granting: Granting,
        answering: Answering,
    ):
        self.shares = shares
        self.locks = locks
        self.hosts = hosts
        self.granting = granting
        self.answering = answering
        self._admitted: dict[tuple[int, str, Share], tuple[Identity, Credentials]] = {}
        self._owners: dict[tuple[str, bytes, int, bytes], Owner] = {}
        self._known: dict[tuple[bytes, bytes, int, bytes, str, int], Known] = {}

    def target(self, call: Call, handle: bytes) -> Target:
        """Raises BadHandle, StaleHandle, AccessDenied, AuthenticationRefused [NFS-4]."""
        share, id_ = self.shares.resolve(handle)
        key = (id(call.credentials), call.peer.address, share)
        admitted = self._admitted.get(key)
        if admitted is None:
            if len(self._admitted) >= ADMITTED_KEPT:
                del self._admitted[next(iter(self._admitted))]
            # With the credentials, so that no others can have the same `id` as long as these are remembered.
            admitted = self._admitted[key] = (_identity_of(call, share), call.credentials)
        return Target(share, FileRef(share.name, id_), admitted[0])

    def owner(self, call: Call, caller_name: bytes, svid: int, oh: bytes) -> Owner:
        """[NLM-2].  Kept, because a client's owners come again and again."""
        key = (call.peer.address, caller_name, svid, oh)
        owner = self._owners.get(key)
        if owner is None:
            owner = Owner(
                id=f"nlm:{host_name(caller_name)}:{svid}:{oh.hex()}",
                client=host_id(caller_name, call.peer.address),
                svid=svid,
                oh=oh,
            )
            if len(self._owners) >= OWNERS_KEPT:
                del self._owners[next(iter(self._owners))]
            self._owners[key] = owner
        return owner

    def known(self, call: Call, lock: Any) -> Known | None:
        """Who asks, and about what, if that can be answered at once; None also for a client that was silent."""
        key = (lock.fh, lock.oh, lock.svid, lock.caller_name, call.peer.address, id(call.credentials))
        known = self._known.get(key)
        if known is None or known.changes != self.shares.changes:
            known = self._meet(call, lock)
            if known is None:
                return None
            if len(self._known) >= KNOWN_KEPT:
                self._known.clear()
            self._known[key] = known
        silent = self.granting.silent
        return known if not silent or known.owner.client not in silent else None

    def _meet(self, call: Call, lock: Any) -> Known | None:
        try:
            target = self.target(call, lock.fh)
        except (FileError, AuthenticationRefused):
            return None
        if not self.locks.decides_alone(target.file.share):
            return None
        owner = self.owner(call, lock.caller_name, lock.svid, lock.oh)
        return Known(target, owner, self.shares.changes, call.credentials)

    def is_registered(self, known: Known, call: Call, caller_name: bytes, version: int, state: int, now: float) -> bool:
        """Would `register` find nothing to do?  Then it need not be asked."""
        peer = call.peer
        told = (peer.local_address, peer.transport, version, state)
        standing = known.standing
        if standing is None or not standing.is_good or known.told != told:
            standing = self.hosts.standing(_telling(known.share, caller_name, peer, version, state))
            if standing is None:
                return False
            known.standing, known.told = standing, told
        standing.heard(now)
        return True

    async def register(
        self, call: Call, target: Target, caller_name: bytes, *, version: int, state: int = 0
    ) -> Hold | None:
        """The client asks for something to keep: it is known and recorded from now on [CLIENT-1] [NSM-2]; what it hears
        waits for the hold.  Raises TryLater if there are too many clients, which it hears as "no locks"."""
        peer = call.peer
        told = _telling(target.share, caller_name, peer, version, state)
        if self.hosts.standing(told) is not None:
            return None
        caller = Caller(
            name=caller_name,
            address=peer.address,
            local_address=peer.local_address,
            version=version,
            transport=peer.transport,
            state=state,
        )
        try:
            client = self.hosts.heard(caller)
            hold = await self.hosts.lock_asked(target.share.name, caller)
        except TooManyClients as error:
            raise TryLater(str(error)) from error
        if hold is None:
            self.hosts.keep_standing(told, client)
        return hold

    async def hear(self, owner: Owner) -> None:
        """A client that was silent has spoken: its waiters count again [NLM-5]."""
        if owner.client in self.granting.silent:
            self.granting.silent.discard(owner.client)
            await self.locks.client_heard(owner.client)


def _telling(share: Share, caller_name: bytes, peer: Peer, version: int, state: int) -> tuple[object, ...]:
    """All that a client tells of itself with a lock."""
    return (share.name, caller_name, peer.address, peer.local_address, peer.transport, version, state)


def _identity_of(call: Call, share: Share) -> Identity:
    credentials = call.credentials
    named = None
    if not credentials.is_anonymous:
        named = Identity(credentials.uid, credentials.gid, credentials.groups)
    try:
        return share.admit(address=call.peer.address, flavor=credentials.flavor, identity=named)
    except FlavorRefused as refused:
        raise AuthenticationRefused(str(refused)) from None
