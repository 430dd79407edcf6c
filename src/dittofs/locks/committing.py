"""From effects to records: which store each goes to, what an answer waits for, and what a lost batch leaves in doubt.

No clock and no loop: `service` performs.  The order of the effects is kept, in memory and in every store [KEEP-1].
"""

from collections.abc import Callable, Sequence

from dittofs.locks.keeping import Hold, JoinedHold, LockKey, LockRecords, Transactions
from dittofs.locks.outcomes import Effect, Forget, Save
from dittofs.locks.sharing import Outdated
from dittofs.locks.values import Lock
from dittofs.model.errors import FileError, StoreFailure
from dittofs.model.ids import FileRef, LockId, ShareName
from dittofs.stores.api import StoreError

Tell = Callable[[Sequence[Effect], FileError | None], None]
"""Takes all effects of a call when they are durable, or with the error that lost them."""


class _Flight:
    """A batch that is not durable yet, and the files whose locks it changes."""

    __slots__ = ("files", "hold", "records")

    def __init__(self, hold: Hold, records: LockRecords):
        self.hold = hold
        self.records = records
        self.files: set[FileRef] = set()


def _first_file(effects: Sequence[Effect]) -> FileRef | None:
    for effect in effects:
        if isinstance(effect, Save | Forget):
            return effect.lock.file
    return None


class Commits:
    """The stores of all shares, and what is on its way to them."""

    __slots__ = (
        "_flights",
        "_on_health",
        "_tell",
        "doubtful",
        "on_outdated",
        "outdated",
        "records",
        "stores",
        "undurable",
    )

    def __init__(self, tell: Tell, on_health: Callable[[FileError | None, bool], None]):
        """`on_health` gets the error of each lost batch, None when a store keeps something again after that, and
        whether that is news."""
        self.stores: dict[Transactions, LockRecords] = {}
        self.records: dict[ShareName, LockRecords] = {}
        self.undurable: dict[FileRef, Hold] = {}
        """Files whose locks are not durable as they are, and the newest batch that is needed for it."""
        self.doubtful: set[FileRef] = set()
        """Files that a lost batch had changed: the table knows of things that did not happen.  Always this one set."""
        self.outdated: set[FileRef] = set()
        """The same in a store that other nodes use too: another one may have been faster, and has to be asked."""
        self._flights: dict[LockRecords, _Flight] = {}
        self.on_outdated: Callable[[], None] = lambda: None
        self._tell = tell
        self._on_health = on_health

    def keep(self, file: FileRef | None, effects: Sequence[Effect]) -> Hold | None:
        """Record what is to be recorded, and tell the rest when that is durable; `file` is what was asked about."""
        if len(effects) == 1 and file is not None:
            effect = effects[0]
            kind = type(effect)
            if kind is Save or kind is Forget:
                lock: Lock = effect.lock  # type: ignore[union-attr]
                if lock.file == file:
                    return self.write_one(file, lock.id, lock if kind is Save else None)
        hold: Hold | None = None
        has_notices: bool | None = None
        about = file or _first_file(effects)
        if about is not None:
            hold, has_notices = self._write_to_one(about, effects)
        if has_notices is None:
            hold, has_notices = self._write_to_all(effects), True
        if hold is None and file is not None:
            hold = self.undurable.get(file)
        if has_notices:
            if hold is None:
                self._tell(effects, None)
            else:
                hold.when_settled(lambda error: self._tell(effects, error))
        return hold

    def write_one(self, file: FileRef, number: LockId, lock: Lock | None) -> Hold | None:
        """One record of the file: what nearly every call brings."""
        records = self.records[file.share]
        hold = records.write_one((records.shares[file.share], file.file, number), lock)
        if hold is None:
            return self.undurable.get(file) if self.undurable else None
        self._under_way(records, hold).files.add(file)
        self.undurable[file] = hold
        return hold

    def _write_to_one(self, file: FileRef, effects: Sequence[Effect]) -> tuple[Hold | None, bool | None]:
        """Nearly every call changes the locks of the file that it is about, and of no other.  Also whether there is
        something to be told; None, and nothing done, if other files are touched."""
        records = self.records[file.share]
        share, number = records.shares[file.share], file.file
        changes: dict[LockKey, Lock | None] = {}
        has_notices = False
        for effect in effects:
            kind = type(effect)
            if kind is Save or kind is Forget:
                lock: Lock = effect.lock  # type: ignore[union-attr]
                if lock.file != file:
                    return None, None
                changes[(share, number, lock.id)] = lock if kind is Save else None
            else:
                has_notices = True
        if not changes:
            return None, has_notices
        hold = records.write(changes)
        if hold is not None:
            self._under_way(records, hold).files.add(file)
            self.undurable[file] = hold
        return hold, has_notices

    def _under_way(self, records: LockRecords, hold: Hold) -> _Flight:
        flight = self._flights.get(records)
        if flight is None or flight.hold is not hold:
            flight = self._flights[records] = _Flight(hold, records)
            # The first to be told of this batch: whoever else waits for it finds the doubt about what it held.  To wait
            # for a batch is also what has it flushed at once on a relaxed share.
            begun = flight
            hold.when_settled(lambda error: self._landed(begun, error))
        return flight

    def _write_to_all(self, effects: Sequence[Effect]) -> Hold | None:
        """Any number of files, in any number of stores; each store has the effects in their order."""
        changes: dict[LockRecords, dict[LockKey, Lock | None]] = {}
        files: dict[LockRecords, dict[FileRef, None]] = {}
        for effect in effects:
            if isinstance(effect, Save | Forget):
                lock = effect.lock
                records = self.records[lock.file.share]
                key = (records.shares[lock.file.share], lock.file.file, lock.id)
                changes.setdefault(records, {})[key] = lock if isinstance(effect, Save) else None
                files.setdefault(records, {})[lock.file] = None
        holds = []
        for records, own in changes.items():
            hold = records.write(own)
            if hold is not None:
                holds.append(hold)
                self._under_way(records, hold).files.update(files[records])
                self.undurable.update(dict.fromkeys(files[records], hold))
        return JoinedHold(holds) if len(holds) > 1 else holds[0] if holds else None

    def _landed(self, flight: _Flight, error: FileError | None) -> None:
        for file in flight.files:
            if self.undurable.get(file) is flight.hold:
                del self.undurable[file]
        if self._flights.get(flight.records) is flight:
            del self._flights[flight.records]
        if error is not None:
            flight.records.lost(flight.files)
            (self.outdated if flight.records.is_shared else self.doubtful).update(flight.files)
        if isinstance(error, Outdated):
            self.on_outdated()
            return
        is_new = flight.records.is_failing is (error is None)
        flight.records.is_failing = error is not None
        if error is not None or is_new:
            self._on_health(error, is_new)

    def load_doubtful(self, file: FileRef | None) -> tuple[dict[FileRef, list[Lock]], StoreFailure | None]:
        """What the stores have of the files in doubt, as far as they can be read; and the failure, if `file`, or for
        None any file, is not among them."""
        found: dict[FileRef, list[Lock]] = {}
        failure: StoreFailure | None = None
        for doubtful in sorted(self.doubtful):
            records = self.records.get(doubtful.share)
            try:
                found[doubtful] = records.load(doubtful) if records is not None else []
            except (StoreError, FileError) as error:
                if file is None or file == doubtful:
                    failure = StoreFailure(str(error))
        self.doubtful.difference_update(found)
        return found, failure
