"""NLM, one method per procedure, in any of its versions: for tests, and for `dittofs client lock`.

A lock has an owner, who is a number and some bytes of the caller's choice; whoever finds the lock in his way is told
both.
"""

import itertools
from dataclasses import dataclass
from typing import Any

from dittofs.client.transports import Transport
from dittofs.protocols.nlm.dialects import NLM4, Dialect
from dittofs.protocols.nlm.types import fsh_access, fsh_mode, nlm4_lock, nlm4_share, nlm4_stats, nlm_lock, nlm_share
from dittofs.rpc.calling import Exchange

NUMBERS = {
    "TEST": (1, "testargs", "testres"),
    "LOCK": (2, "lockargs", "res"),
    "CANCEL": (3, "cancargs", "res"),
    "UNLOCK": (4, "unlockargs", "res"),
    "GRANTED": (5, "testargs", "res"),
    "SHARE": (20, "shareargs", "shareres"),
    "UNSHARE": (21, "shareargs", "shareres"),
    "NM_LOCK": (22, "lockargs", "res"),
    "FREE_ALL": (23, "notify", None),
}
MESSAGES_BEHIND = 5
"""`TEST_MSG` is so far behind `TEST`, and so on up to `GRANTED_MSG`."""


@dataclass(frozen=True, slots=True)
class LockOwner:
    """Who locks, within one host."""

    svid: int
    oh: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Which bytes of which file; length 0: to the end."""

    handle: bytes
    offset: int = 0
    length: int = 0


def exchange_of(dialect: Dialect, name: str) -> Exchange:
    number, arguments, result = NUMBERS[name]
    declared = None if result is None else getattr(dialect, result)
    return dialect.outgoing(name, number, getattr(dialect, arguments), declared)


class NlmClient:
    """The procedures over one transport, as the host `caller_name`."""

    def __init__(self, transport: Transport, caller_name: bytes, *, dialect: Dialect = NLM4):
        self.transport = transport
        self.caller_name = caller_name
        self.dialect = dialect
        self._cookies = itertools.count(1)

    def null(self) -> None:
        self.transport.call(self.dialect.outgoing("NULL", 0, None, None))

    def test(self, owner: LockOwner, where: Range, *, exclusive: bool = True) -> tuple[nlm4_stats, Any]:
        """The status, and if it is DENIED the holder that is in the way."""
        arguments = self.dialect.testargs(self._cookie(), exclusive, self._lock(owner, where))
        reply = self._call("TEST", arguments).test_stat
        return nlm4_stats(reply.discriminant), reply.value

    def lock(
        self,
        owner: LockOwner,
        where: Range,
        *,
        exclusive: bool = True,
        block: bool = False,
        reclaim: bool = False,
        state: int = 0,
        is_monitored: bool = True,
    ) -> nlm4_stats:
        arguments = self.lock_arguments(owner, where, exclusive=exclusive, block=block, reclaim=reclaim, state=state)
        return self._status("LOCK" if is_monitored else "NM_LOCK", arguments)

    def lock_arguments(
        self,
        owner: LockOwner,
        where: Range,
        *,
        exclusive: bool = True,
        block: bool = False,
        reclaim: bool = False,
        state: int = 0,
    ) -> Any:
        return self.dialect.lockargs(
            self._cookie(), block, exclusive, self._lock(owner, where), reclaim=reclaim, state=state
        )

    def cancel(self, owner: LockOwner, where: Range, *, exclusive: bool = True, block: bool = True) -> nlm4_stats:
        arguments = self.dialect.cancargs(self._cookie(), block, exclusive, self._lock(owner, where))
        return self._status("CANCEL", arguments)

    def unlock(self, owner: LockOwner, where: Range) -> nlm4_stats:
        return self._status("UNLOCK", self.dialect.unlockargs(self._cookie(), self._lock(owner, where)))

    def granted(self, owner: LockOwner, where: Range, *, exclusive: bool = True) -> nlm4_stats:
        """What servers call: a server does not expect it."""
        arguments = self.dialect.testargs(self._cookie(), exclusive, self._lock(owner, where))
        return self._status("GRANTED", arguments)

    def share(
        self, oh: bytes, handle: bytes, *, access: fsh_access, mode: fsh_mode, reclaim: bool = False
    ) -> nlm4_stats:
        return self._status("SHARE", self._share(oh, handle, access, mode, reclaim))

    def unshare(self, oh: bytes, handle: bytes) -> nlm4_stats:
        return self._status("UNSHARE", self._share(oh, handle, fsh_access.fsa_NONE, fsh_mode.fsm_DN, reclaim=False))

    def free_all(self, *, state: int = 0) -> None:
        self._call("FREE_ALL", self.dialect.notify(self.caller_name, state))

    def message(self, name: str, arguments: Any) -> None:
        """The `_MSG` form: the answer comes as a call to this host's own lock service."""
        number, declared, _ = NUMBERS[name]
        exchange = self.dialect.outgoing(f"{name}_MSG", number + MESSAGES_BEHIND, getattr(self.dialect, declared), None)
        self.transport.call(exchange, arguments)

    def _status(self, name: str, arguments: Any) -> nlm4_stats:
        return nlm4_stats(self._call(name, arguments).stat)

    def _call(self, name: str, arguments: Any) -> Any:
        return self.transport.call(exchange_of(self.dialect, name), arguments)

    def _cookie(self) -> bytes:
        return next(self._cookies).to_bytes(4, "big")

    def _lock(self, owner: LockOwner, where: Range) -> Any:
        made = nlm4_lock if self.dialect is NLM4 else nlm_lock
        return made(self.caller_name, where.handle, owner.oh, owner.svid, where.offset, where.length)

    def _share(self, oh: bytes, handle: bytes, access: fsh_access, mode: fsh_mode, reclaim: bool) -> Any:
        made = nlm4_share if self.dialect is NLM4 else nlm_share
        return self.dialect.shareargs(self._cookie(), made(self.caller_name, handle, oh, mode, access), reclaim)
