"""What a waiter must still hear: at its next poll an NLM client learns that its wait was refused [LOCK-5], [LOCK-8]."""

from collections import OrderedDict

from dittofs.locks.outcomes import Deadlock, LimitReached, TimedOut
from dittofs.locks.spans import Span
from dittofs.locks.values import Mode, Owner
from dittofs.model.ids import ClientId, FileRef

KEEP_SECONDS = 120.0
"""Linux polls every 30 s, and the requirement is 60 s at the least."""
MAX_REMEMBERED = 10_000

Verdict = Deadlock | LimitReached | TimedOut
Key = tuple[ClientId, str, FileRef, Span, Mode]


class Remembered:
    """Verdicts by request, each told once.  When full, the oldest goes: its client queues again, to be judged anew."""

    __slots__ = ("_verdicts",)

    def __init__(self) -> None:
        self._verdicts: OrderedDict[Key, tuple[Verdict, float]] = OrderedDict()

    @staticmethod
    def _key(owner: Owner, file: FileRef, span: Span, mode: Mode) -> Key:
        return owner.client, owner.id, file, span, mode

    def keep(self, owner: Owner, file: FileRef, span: Span, mode: Mode, *, verdict: Verdict, now: float) -> None:
        key = self._key(owner, file, span, mode)
        self._verdicts.pop(key, None)
        self.expire(now)
        if len(self._verdicts) >= MAX_REMEMBERED:
            self._verdicts.popitem(last=False)
        self._verdicts[key] = (verdict, now + KEEP_SECONDS)

    def take(self, owner: Owner, file: FileRef, span: Span, mode: Mode, *, now: float) -> Verdict | None:
        if not self._verdicts:
            return None
        found = self._verdicts.pop(self._key(owner, file, span, mode), None)
        return found[0] if found is not None and now < found[1] else None

    def forget_client(self, client: ClientId) -> None:
        for key in [key for key in self._verdicts if key[0] == client]:
            del self._verdicts[key]

    def expire(self, now: float) -> None:
        """Entries are in the order of their time."""
        while self._verdicts and next(iter(self._verdicts.values()))[1] <= now:
            self._verdicts.popitem(last=False)

    def __len__(self) -> int:
        return len(self._verdicts)
