"""The hosts whose locks are watched over: recorded with their first lock, freed when they reboot [NSM-2] [NSM-3].

Between the protocols and the locks: NLM tells it who asks for a lock, NSM who has rebooted, an operator whom to drop.
It knows no wire and has no sockets.  Every answer that depends on a record waits for the `Hold` it gives.
"""

import contextlib
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

import msgspec
import structlog

from dittofs.clients.host_ids import host_id, host_name, plain_address
from dittofs.clients.records import ClientRecord, forget, load_own, save
from dittofs.clients.registry import Client, ClientRegistry, TooManyClients
from dittofs.clients.states import is_newer
from dittofs.clients.watched import Caller, Standing, Watched, first_label, record_of, updated
from dittofs.locks.keeping import Hold, JoinedHold, Transactions, send
from dittofs.locks.outcomes import Reason
from dittofs.locks.service import LockService
from dittofs.model.errors import FileError
from dittofs.model.ids import ClientId, ShareName

log = structlog.get_logger()

ADAPTER = "nlm"

IDLE_SECONDS = 30.0
"""A record goes when its client has had nothing for so long: one that locks and unlocks in a loop keeps it, and a lock
that is being decided upon is not left without."""

STANDINGS_KEPT = 8_192


class Heard(Enum):
    """What became of an SM_NOTIFY; the values are for the log."""

    FREED = "its old locks are freed"
    REPEATED = "heard before"
    STALE = "older than what the client said since"
    UNKNOWN = "no client of that address has locks here"
    AMBIGUOUS = "several clients of that address have locks here, and the name does not tell which it is"


class HostMonitor:
    """One for all shares.  `add_share` comes before any lock in it."""

    def __init__(self, registry: ClientRegistry, locks: LockService, *, idle_seconds: float = IDLE_SECONDS):
        self.registry = registry
        self._idle_seconds = idle_seconds
        self._locks = locks
        self._shares: dict[ShareName, Transactions] = {}
        self._watched: dict[ClientId, Watched] = {}
        self._at: dict[str, dict[ClientId, None]] = {}
        self._full_until = 0.0
        self._standings: dict[tuple[Any, ...], Standing] = {}
        """What need not be looked at again; emptied whenever a client comes, changes or goes."""

    # Shares

    async def add_share(self, share: ShareName, transactions: Transactions) -> None:
        """Take in the clients that the share's store has recorded; they are to be told of the restart."""
        is_known = transactions in self._shares.values()
        self._shares[share] = transactions
        if is_known:
            return
        now = self._locks.now()
        for record in await transactions.perform(load_own, self._locks.origin.node, transactions.is_shared):
            watched = self._watched.get(ClientId(record.id))
            if watched is None:
                watched = self._watch(record, now)
                watched.is_notified = False
                with contextlib.suppress(TooManyClients):
                    self._register(watched.id, record.name, record.address, record.local_address)
            watched.stores[transactions] = None

    def remove_share(self, share: ShareName) -> None:
        """A share that is not served any more; its records stay where they are."""
        transactions = self._shares.pop(share)
        self._look_again()
        if transactions not in self._shares.values():
            for watched in self._watched.values():
                watched.stores.pop(transactions, None)

    # What NLM asks

    def standing(self, call: tuple[Any, ...]) -> Standing | None:
        """Has a call that told exactly this been through `heard` and `lock_asked`, with nothing to be done since?  The
        tuple is whatever the protocol knows of the share and the caller."""
        found = self._standings.get(call)
        if found is not None:
            found.heard(self._locks.now())
        return found

    def keep_standing(self, call: tuple[Any, ...], client: Client) -> Standing | None:
        """The next call that tells the same need not be looked at again, until anything changes."""
        watched = self._watched[client.id]
        if watched.pending or watched.rebooted_to is not None:
            return None
        if len(self._standings) >= STANDINGS_KEPT:
            self._look_again()
        standing = self._standings[call] = Standing(watched, client)
        return standing

    def _look_again(self) -> None:
        for standing in self._standings.values():
            standing.is_good = False
        self._standings.clear()

    def heard(self, caller: Caller) -> Client:
        """A client asks for something.  Raises TooManyClients."""
        client = host_id(caller.name, caller.address)
        return self._register(client, caller.name, plain_address(caller.address), caller.local_address)

    def _register(self, client: ClientId, name: bytes, address: str, local_address: str) -> Client:
        if self.registry.find(ADAPTER, client) is None:
            self._look_again()  # others may be forgotten to make room
        return self.registry.seen(
            ADAPTER,
            client,
            name=host_name(name),
            address=address,
            local_address=local_address,
            now=self._locks.now(),
        )

    async def lock_asked(self, share: ShareName, caller: Caller) -> Hold | None:
        """A client is about to get or await a lock in this share: its record is written before, in this turn's batch,
        and the answer waits for the hold.  A state that is newer than the known one is as good as an SM_NOTIFY.
        Raises TooManyClients."""
        client = host_id(caller.name, caller.address)
        now = self._locks.now()
        watched = self._watched.get(client)
        hold: Hold | None = None
        if watched is None:
            self._make_room(now)
            watched = self._watch(record_of(client, caller, now, self._locks.origin.node), now)
        elif caller.state:
            hold = await self._check_state(watched, caller.state)
        watched.touched_at = now
        transactions = self._shares[share]
        record = updated(watched.record, caller)
        if record is not watched.record:
            watched.record = record
            return joined(hold, *self._save(watched, {**watched.stores, transactions: None}))
        if transactions not in watched.stores:
            return joined(hold, *self._save(watched, [transactions]))
        if hold is None and not watched.pending:
            return None
        return joined(hold, watched.pending.get(transactions))

    async def _check_state(self, watched: Watched, state: int) -> Hold | None:
        known = watched.record.state
        if watched.rebooted_to is not None:
            rebooted_to, watched.rebooted_to = watched.rebooted_to, None
            if state != rebooted_to:
                return None  # it is there as it was before: what was to be cleaned up is its own
        elif not known or not is_newer(state, known):
            return None
        log.info("a client locks after a reboot: its old locks are freed", client=watched.id, state=state, before=known)
        return await self._locks.client_gone(watched.id, reason=Reason.CRASH, keep_state=state)

    async def freed_all(self, name: bytes, address: str) -> Hold | None:
        """FREE_ALL: the client says that it has nothing any more [NLM-7]."""
        return await self._gone(host_id(name, address), Reason.DISCONNECT)

    # What NSM hears

    async def rebooted(self, *, name: bytes, address: str, state: int) -> tuple[Heard, Hold | None]:
        """SM_NOTIFY: the host at this address has rebooted, and its state is this now [NSM-3]."""
        candidates = [self._watched[client] for client in self._at.get(plain_address(address), ())]
        if not candidates:
            return Heard.UNKNOWN, None
        for part in (bytes.lower, first_label):
            if len(candidates) > 1:
                named = [watched for watched in candidates if part(watched.record.name) == part(name)]
                candidates = named if len(named) == 1 else candidates
        if len(candidates) > 1:
            return Heard.AMBIGUOUS, None
        return await self._reboot(candidates[0], state)

    async def _reboot(self, watched: Watched, state: int) -> tuple[Heard, Hold | None]:
        record = watched.record
        if state == record.notified:
            return Heard.REPEATED, joined(*watched.pending.values())
        if record.state and state != record.state and not is_newer(state, record.state):
            return Heard.STALE, None
        freed = await self._gone(watched.id, Reason.CRASH, keep_state=state)
        watched.touched_at = self._locks.now()
        watched.record = msgspec.structs.replace(record, state=state, notified=state)
        hold = joined(freed, *self._save(watched, watched.stores))

        def settled(error: FileError | None) -> None:
            if error is not None:  # it was not heard: the client will say it again
                watched.record = msgspec.structs.replace(watched.record, notified=record.notified)

        if hold is not None:
            hold.when_settled(settled)
        return Heard.FREED, hold

    async def _gone(self, client: ClientId, reason: Reason, keep_state: int | None = None) -> Hold | None:
        """A disconnect as NLM knows it: what the client has goes at once, or when its TTL is over [CLIENT-1]."""
        self._look_again()
        known = self.registry.find(ADAPTER, client)
        watched = self._watched.get(client)
        if known is not None and self.registry.ttl_seconds(known) > 0:
            self.registry.disconnected(ADAPTER, client, self._locks.now())
            if watched is not None:
                watched.rebooted_to = keep_state
            return None
        hold = await self._locks.client_gone(client, reason=reason, keep_state=keep_state)
        if not self._has_anything(client):
            self.registry.forget(ADAPTER, client)
        return hold

    # Operators and time

    async def forget(self, client: ClientId) -> Hold | None:
        """An operator says that this client will not come back: its locks, its waits and its record go."""
        self.registry.forget(ADAPTER, client)
        freed = await self._locks.client_gone(client, reason=Reason.OPERATOR)
        return joined(freed, *self._drop([client]))

    async def check_stale(self) -> None:
        """Due every `stale_check_seconds`: clients whose TTL is over lose their locks, and records that nobody needs
        any more go."""
        self._look_again()
        now = self._locks.now()
        for client in self.registry.expired(now):
            watched = self._watched.get(client.id)
            keep_state = watched.rebooted_to if watched is not None else None
            log.info("a client did not come back: its locks are freed", client=client.id)
            await self._locks.client_gone(client.id, reason=Reason.DISCONNECT, keep_state=keep_state)
        done = [watched.id for watched in self._idle(now, self._idle_seconds) if watched.is_notified]
        hold = joined(*self._drop(done))

        def settled(error: FileError | None) -> None:
            if error is None:
                log.info("clients that have nothing are watched no longer", clients=len(done))

        if hold is not None:
            hold.when_settled(settled)

    # Who is to be told of a restart

    def unnotified(self) -> list[Watched]:
        """The clients that were recorded before this start and have not acknowledged that it happened."""
        return [watched for watched in self._watched.values() if not watched.is_notified]

    def notified(self, client: ClientId) -> None:
        watched = self._watched.get(client)
        if watched is not None:
            watched.is_notified = True

    def address_of(self, name: bytes) -> str | None:
        """Where the one client of that name is; None if there is none, or more than one."""
        wanted = first_label(name)
        found = {w.record.address for w in self._watched.values() if first_label(w.record.name) == wanted}
        return found.pop() if len(found) == 1 else None

    # Records

    def _has_anything(self, client: ClientId) -> bool:
        return self._locks.inspect.is_busy(client)

    def _idle(self, now: float, seconds: float) -> list[Watched]:
        return [
            watched
            for watched in self._watched.values()
            if now - watched.touched_at >= seconds and not self._has_anything(watched.id)
        ]

    def _make_room(self, now: float) -> None:
        """As many records as there may be clients: then those go that have nothing, heard of the restart or not."""
        limit = self.registry.max_clients(ADAPTER)
        if len(self._watched) < limit:
            return
        if now >= self._full_until:
            self._drop(watched.id for watched in self._idle(now, 0.0))
            self._full_until = now + 1.0
        if len(self._watched) >= limit:
            raise TooManyClients(ADAPTER, limit)

    def _watch(self, record: ClientRecord, now: float) -> Watched:
        watched = self._watched[ClientId(record.id)] = Watched(record, now)
        self._at.setdefault(record.address, {})[watched.id] = None
        return watched

    def _save(self, watched: Watched, stores: Iterable[Transactions]) -> list[Hold]:
        """Write the record where it belongs; if a batch with it is lost, it counts as not written."""
        self._look_again()
        holds = []
        for transactions in [*stores]:
            hold = send(transactions, save, watched.record)
            watched.stores[transactions] = None
            if hold is not None and watched.pending.get(transactions) is not hold:
                watched.pending[transactions] = hold
                hold.when_settled(_settler(watched, transactions, hold))
            if hold is not None:
                holds.append(hold)
        return holds

    def _drop(self, clients: Iterable[ClientId]) -> list[Hold]:
        self._look_again()
        by_store: dict[Transactions, list[ClientRecord]] = {}
        for client in clients:
            watched = self._watched.pop(client, None)
            if watched is None:
                continue
            at = self._at[watched.record.address]
            del at[client]
            if not at:
                del self._at[watched.record.address]
            for transactions in watched.stores:
                by_store.setdefault(transactions, []).append(watched.record)
        holds = []
        for transactions, gone in by_store.items():
            hold = send(transactions, forget, gone)
            if hold is not None:
                holds.append(hold)
        return holds


def _settler(watched: Watched, transactions: Transactions, hold: Hold) -> Callable[[FileError | None], None]:
    def settled(error: FileError | None) -> None:
        if watched.pending.get(transactions) is hold:
            del watched.pending[transactions]
        if error is not None:
            watched.stores.pop(transactions, None)

    return settled


def joined(*holds: Hold | None) -> Hold | None:
    """What an answer waits for that waits for all of these."""
    distinct = {id(hold): hold for hold in holds if hold is not None}
    if len(distinct) > 1:
        return JoinedHold([*distinct.values()])
    return next(iter(distinct.values()), None)
