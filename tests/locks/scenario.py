"""Scenarios as people read them: one event and its expected outcome per line, at least two blanks between the two.

    == a downgrade lets a waiting reader in [LOCK-7]
    a  lock   f 0-100 exclusive        granted
    b  lock   f 50-60 shared wait      blocked #1
    a  lock   f 0-100 shared           granted, offer #1

`a` is an owner of the client `a`, `a@x` one of the client `x`.  `f` is a file of the share /s, `t:f` one of /t.  A span
is half-open, `50-` goes to the end.  Behind the outcome come the offers, refusals and settlements in their order; `-`
is none.  Whatever is saved and forgotten goes to a store, which must be equal to the table after every line.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dittofs.locks.limits import LockLimits
from dittofs.locks.outcomes import Effect, Forget, Reason, Save
from dittofs.locks.recording import decoded, encoded
from dittofs.locks.spans import END, Span
from dittofs.locks.table import LockTable
from dittofs.locks.values import Access, Acquire, Lock, Mode, Origin, Owner, Reserve
from dittofs.model.ids import ClientId, FileId, FileRef, LockId, ShareName, Ticket
from tests.locks.wording import file_text, lock_text, outcome_text, record_text, told

NODE = "node-a"


@dataclass(frozen=True)
class Line:
    number: int
    event: str
    expected: str


@dataclass(frozen=True)
class Scenario:
    name: str
    lines: tuple[Line, ...]


def scenarios(path: Path) -> Iterator[Scenario]:
    name, lines = "", []
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if text.startswith("== "):
            if name:
                yield Scenario(name, tuple(lines))
            name, lines = text[3:].strip(), []
        elif text.strip() and not text.startswith("#"):
            event, separator, expected = text.strip().rpartition("  ")
            if not separator:
                raise ValueError(f"{path.name}:{number}: two blanks must stand before the outcome: {text}")
            lines.append(Line(number, " ".join(event.split()), expected.strip()))
    yield Scenario(name, tuple(lines))


def owner_named(name: str) -> Owner:
    owner, _, client = name.partition("@")
    return Owner(owner, ClientId(client or owner), svid=7, oh=owner.encode())


def file_named(name: str) -> FileRef:
    share, _, file = name.rpartition(":")
    return FileRef(ShareName("/" + (share or "s")), FileId(ord(file)))


def span_named(text: str) -> Span:
    start, _, end = text.partition("-")
    return Span(number_named(start), number_named(end) if end else END)


def number_named(text: str) -> int:
    """A number, a power of two such as 2^63, or one a little beside it: 2^64~1 is less by one, 2^63+1 more."""
    power, _, less = text.partition("~")
    power, _, more = power.partition("+")
    base, _, exponent = power.partition("^")
    return int(base) ** int(exponent or 1) - int(less or 0) + int(more or 0)


def access_named(words: list[str], prefix: str) -> Access:
    """`read`, `deny-write` and so on; all that are named together."""
    total = Access.NONE
    for name, access in (("read", Access.READ), ("write", Access.WRITE), ("all", Access.ALL)):
        if prefix + name in words:
            total |= access
    return total


class Play:
    """One scenario on a table and a store of its own."""

    def __init__(self) -> None:
        self.now = 0.0
        self.epoch = 1
        self.limits = LockLimits()
        self.store: dict[LockId, bytes] = {}
        self.used_ids: set[LockId] = set()
        self.last: list[Effect] = []
        self.table = LockTable(self.limits, node=NODE)

    def step(self, event: str) -> str:
        """What came of it, as text."""
        is_lost = event.startswith("lost ")
        words = event.removeprefix("lost ").split()
        before = dict(self.store)
        text = self._event(words)
        if is_lost:
            text = self._lose(before)
        assert {lock.id: encoded(lock) for lock in self.table.inspect.locks()} == self.store, (
            "the store is not the table"
        )
        return text

    def _event(self, words: list[str]) -> str:
        world_event: Callable[[list[str]], str] | None = getattr(self, "on_" + words[0].replace("-", "_"), None)
        if world_event is not None:
            return world_event(words[1:])
        owner_event: Callable[[Owner, FileRef, list[str]], str] = getattr(self, "do_" + words[1].replace("-", "_"))
        return owner_event(owner_named(words[0]), file_named(words[2]), words[3:])

    def _after(self, outcome: object, effects: list[Effect]) -> str:
        """Perform the effects; the outcome, if there is one, and what others are told."""
        self.last = effects
        for effect in effects:
            match effect:
                case Save(lock):
                    assert lock.id not in self.used_ids, "an id was used twice"
                    self.used_ids.add(lock.id)
                    self.store[lock.id] = encoded(lock)
                case Forget(lock):
                    assert decoded(self.store.pop(lock.id)) == lock
        said = [] if outcome is None else [outcome_text(outcome)]
        return ", ".join(said + told(effects)) or "-"

    def _lose(self, before: dict[LockId, bytes]) -> str:
        """The store kept nothing of it: its files are read again."""
        touched = {decoded(data).file for data in dict(before.items() ^ self.store.items()).values()}
        self.store = before
        records = {file: [lock for lock in self._records() if lock.file == file] for file in sorted(touched)}
        return self._after(None, self.table.replace_files(records, self.now))

    def _next_id(self) -> LockId:
        return LockId(max(self.used_ids, default=0) + 1)

    def _records(self) -> list[Lock]:
        return [decoded(data) for data in self.store.values()]

    # What an owner does

    def _request(self, owner: Owner, file: FileRef, words: list[str], *, reclaim: bool) -> Acquire:
        state = next((int(word.removeprefix("state=")) for word in words if word.startswith("state=")), 0)
        span, mode = span_named(words[0]), Mode(words[1])
        return Acquire(file, owner, span, mode, wait="wait" in words, reclaim=reclaim, state=state)

    def do_lock(self, owner: Owner, file: FileRef, words: list[str]) -> str:
        return self._after(*self.table.acquire(self._request(owner, file, words, reclaim=False), self.now))

    def do_reclaim(self, owner: Owner, file: FileRef, words: list[str]) -> str:
        return self._after(*self.table.acquire(self._request(owner, file, words, reclaim=True), self.now))

    def do_unlock(self, owner: Owner, file: FileRef, words: list[str]) -> str:
        return self._after(*self.table.release(file, owner, span_named(words[0]), self.now))

    def do_test(self, owner: Owner, file: FileRef, words: list[str]) -> str:
        conflict = self.table.test(file, owner, span_named(words[0]), Mode(words[1]))
        return "free" if conflict is None else f"held by {lock_text(conflict)}"

    def do_cancel(self, owner: Owner, file: FileRef, words: list[str]) -> str:
        return self._after(*self.table.cancel(file, owner, span_named(words[0]), Mode(words[1]), self.now))

    def do_upgrade(self, owner: Owner, file: FileRef, words: list[str]) -> str:
        return self._after(*self.table.upgrade(file, owner, span_named(words[0]), self.now))

    def do_downgrade(self, owner: Owner, file: FileRef, words: list[str]) -> str:
        return self._after(*self.table.downgrade(file, owner, span_named(words[0]), self.now))

    def do_reserve(self, owner: Owner, file: FileRef, words: list[str]) -> str:
        access, deny = access_named(words, ""), access_named(words, "deny-")
        request = Reserve(file, owner, access, deny, reclaim="reclaim" in words)
        return self._after(*self.table.reserve(request, self.now))

    def do_unreserve(self, owner: Owner, file: FileRef, words: list[str]) -> str:
        return self._after(*self.table.unreserve(file, owner, self.now))

    def do_may_read(self, owner: Owner, file: FileRef, words: list[str]) -> str:
        return "yes" if self.table.may_read(file, span_named(words[0]), owner=owner) else "no"

    def do_may_write(self, owner: Owner, file: FileRef, words: list[str]) -> str:
        return "yes" if self.table.may_write(file, span_named(words[0]), owner=owner) else "no"

    # What happens to offers, clients, files and the table

    def on_settle(self, words: list[str]) -> str:
        return self._after(None, self.table.settle(Ticket(int(words[0][1:])), self.now))

    def on_refuse(self, words: list[str]) -> str:
        return self._after(None, self.table.refuse_offer(Ticket(int(words[0][1:])), self.now))

    def on_unanswered(self, words: list[str]) -> str:
        return self._after(None, self.table.refuse_offer(Ticket(int(words[0][1:])), self.now, is_silent=True))

    def on_silent(self, words: list[str]) -> str:
        return self._after(None, self.table.client_silent(ClientId(words[0]), self.now))

    def on_heard(self, words: list[str]) -> str:
        return self._after(None, self.table.client_heard(ClientId(words[0]), self.now))

    def on_crash(self, words: list[str]) -> str:
        keep = int(words[1].removeprefix("keep=")) if len(words) > 1 else None
        effects = self.table.client_gone(ClientId(words[0]), self.now, reason=Reason.CRASH, keep_state=keep)
        return self._after(None, effects)

    def on_remove(self, words: list[str]) -> str:
        return self._after(None, self.table.file_removed(file_named(words[0]), self.now))

    def on_operator(self, words: list[str]) -> str:
        """`operator f 0-10 a`: take this lock of his away."""
        file, span, owner = file_named(words[0]), span_named(words[1]), owner_named(words[2])
        locks = self.table.inspect.locks_of_file(file)
        found = [lock.id for lock in locks if lock.span == span and lock.owner == owner]
        return self._after(*self.table.force_release(found[0] if found else LockId(0), self.now))

    def on_pass(self, words: list[str]) -> str:
        """So many seconds."""
        self.now += float(words[0])
        return self._after(None, self.table.tick(self.now))

    def on_deadline(self, words: list[str]) -> str:
        return f"{self.table.next_deadline()}"

    def on_end_grace(self, words: list[str]) -> str:
        return self._after(None, self.table.end_grace(ShareName(words[0]), self.now))

    def on_limits(self, words: list[str]) -> str:
        chosen = {name: int(value) for name, value in (word.split("=") for word in words)}
        self.limits = LockLimits(**chosen)  # type: ignore[arg-type]
        return self._start()

    def on_restart(self, words: list[str]) -> str:
        self.epoch += 1
        return self._start()

    def _start(self) -> str:
        self.table = LockTable(self.limits, node=NODE, epoch=self.epoch, first_lock_id=self._next_id())
        effects = []
        for share in sorted({lock.file.share for lock in self._records()}):
            records = [lock for lock in self._records() if lock.file.share == share]
            effects += self.table.restore(share, records, self.now)
        return self._after(None, effects)

    def on_other_node(self, words: list[str]) -> str:
        """`other-node f a 0-10 shared`: another node grants it; `other-node f nothing`: what it granted is gone."""
        file = file_named(words[0])
        records = [lock for lock in self._records() if lock.file == file and lock.origin.node == NODE]
        if words[1:] != ["nothing"]:
            new_id = self._next_id()
            self.used_ids.add(new_id)
            start, end = span_named(words[2])
            owner, mode, origin = owner_named(words[1]), Mode(words[3]), Origin("node-b", 5)
            records.append(Lock(new_id, file, owner, start, end, mode, self.now, origin))
            self.table._state.next_lock_id = new_id + 1
        self.store = {lock_id: data for lock_id, data in self.store.items() if decoded(data).file != file}
        self.store |= {lock.id: encoded(lock) for lock in records}
        return self._after(None, self.table.replace(file, records, self.now))

    # What can be seen

    def on_held(self, words: list[str]) -> str:
        locks = self.table.inspect.locks_of_file(file_named(words[0]))
        return ", ".join(map(record_text, locks)) or "-"

    def on_waiting(self, words: list[str]) -> str:
        views = self.table.inspect.waiters_of_file(file_named(words[0]))
        return ", ".join(f"#{view.ticket} {view.request.owner.id}" for view in views) or "-"

    def on_why(self, words: list[str]) -> str:
        view = self.table.inspect.ticket(Ticket(int(words[0][1:])))
        if view is None:
            return "no such ticket"
        said = [lock_text(lock) for lock in view.blockers]
        said += [f"behind #{ticket}" for ticket in view.behind] + [f"overtakes #{ticket}" for ticket in view.overtakes]
        return ", ".join(said + ["passed over"] * view.is_passed_over) or "-"

    def on_edges(self, words: list[str]) -> str:
        edges = self.table.inspect.edges()
        return ", ".join(f"{edge.owner.id}-{'>' if edge.lock else '~'}{edge.waits_for.id}" for edge in edges) or "-"

    def on_effects(self, words: list[str]) -> str:
        """Everything that the event before caused, in its order."""
        said = []
        for effect in self.last:
            match effect:
                case Save(lock):
                    said.append(f"save {record_text(lock)}")
                case Forget(lock, reason):
                    said.append(f"forget {record_text(lock)} {reason.value}")
                case _:
                    said += told([effect])
        return ", ".join(said) or "-"

    def on_grace(self, words: list[str]) -> str:
        said = []
        for view in self.table.inspect.grace():
            roster = " ".join(f"{entry.client}:{entry.bytes}" for entry in view.roster)
            said.append(f"{view.share} until {view.ends_at:g} {roster}")
        return ", ".join(said) or "-"

    def on_sizes(self, words: list[str]) -> str:
        sizes = self.table.inspect.sizes()
        return f"{sizes.locks} locks {sizes.files} files {sizes.owners} owners {sizes.tickets} tickets"

    def on_contended(self, words: list[str]) -> str:
        return ", ".join(file_text(view.request.file) for view in self.table.inspect.waiters()) or "-"
