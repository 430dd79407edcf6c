"""Runs metadata procedures over a store that is asked over a network, and that other servers change meanwhile.

Calls of one turn of the event loop are run over records that were read before, and kept; then one query tells, for all
of them, which of those records are another by now, and brings what was missing.  A call that only reads is answered
when everything it read was so at one moment, after it came; otherwise it is run again.  Calls that write stand in
line: those that came while a batch was under way are run one after the other, each over what those before it wrote,
and committed as one transaction, which takes place only if all that they read is still so.  If another server was
faster, the batch is run again, now with its records locked.

Nothing is told, no effect performed and nothing kept in memory for a run that was not committed.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, NoReturn, TypeVar

import structlog

from dittofs.metrics.counting import StoreCounts
from dittofs.model.errors import NoSpace, StoreFailure, TryLater
from dittofs.model.later import Done, Later
from dittofs.stores.api import StoreError, StoreFull
from dittofs.stores.attempts import OVERLAID, Attempt, Found, Pair
from dittofs.stores.file_ids import FileIds
from dittofs.stores.known import KnownRecords
from dittofs.stores.patience import Patience
from dittofs.stores.sharing import (
    ABSENT,
    UNKNOWN,
    Commit,
    CommitSession,
    InDoubt,
    Overtaken,
    SharedStore,
    StoreAway,
    version_of,
)
from dittofs.stores.tables import all_tables

T = TypeVar("T")

log = structlog.get_logger()

LOOKS_AT_ONCE = 1
"""Queries under way.  What comes meanwhile shares the next one: on a busy machine two are slower by a third."""
ROUNDS = 10_000
"""How often a call may find that it needs another record; a rename needs one for each directory above."""
LOSSES = 8
CALLS_PER_BATCH = 1024
PATIENCE_SECONDS = 5.0
"""How long calls wait for a store that is away before they are told to come again."""
CLOSE_SECONDS = 5.0


class SharedTransactions:
    """The driver for a store that must be awaited.  Same face as `LocalTransactions`, but that `run` answers later."""

    is_shared = True
    is_volatile = False
    trouble = ""
    hold = None
    """An answer exists only when it is durable: there is never anything else to wait for."""

    def __init__(
        self,
        store: SharedStore,
        *,
        cache_records: int = 100_000,
        clock: Callable[[], int] = time.time_ns,
        patience_seconds: float = PATIENCE_SECONDS,
    ):
        self.store = store
        self.clock = clock
        self.on_effect: Callable[[object, None], None] = _no_effects_expected
        self.epoch = 0
        self._counts = StoreCounts()
        self._patience = Patience(patience_seconds)
        self._known = KnownRecords(store, self._counts, limit=cache_records)
        self._volatile: dict[Pair, Found] = {}
        self._sequence = 0
        self._file_ids = FileIds(store)
        self._pending: list[Attempt] = []
        self._looking: list[Attempt] = []
        self._writers: deque[Attempt] = deque()
        self._is_turn_due = False
        self._looks = 0
        self._is_writing = False
        self._told: Attempt | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def counts(self) -> StoreCounts:
        self._counts.queries = self.store.queries
        return self._counts

    # Life.

    async def open(self) -> None:
        """Open the store, and reserve file ids.  Raises StoreError."""
        self.epoch = await self.store.open()
        await self._file_ids.reserve()

    async def close(self) -> None:
        """Finish what is under way, if the store lets us, and close it."""
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                while self._tasks or self._is_turn_due:
                    await asyncio.sleep(0)
                    if self._tasks:
                        await asyncio.wait(self._tasks)
        except TimeoutError:
            log.warning("the metadata store does not answer; calls under way get no answer")
        self._file_ids.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.store.close()

    # Running procedures.

    def run(self, function: Callable[..., T], *args: Any, is_relaxed: bool = False) -> T:
        """Raises Later; it is kept whole if it returns, and leaves nothing if it raises.  While the error of a call is
        told, what that call has read can be looked at at once."""
        told = self._told
        if told is None:
            raise Later(lambda done: self._submit(function, args, is_relaxed, done))
        look = self._attempt(function, args, is_relaxed, _nobody_listens)
        look.run(told.reads)
        if look.miss is not None:
            raise TryLater("not read by the call that failed")
        if look.error is not None:
            raise look.error
        assert not look.writes, "nothing is written while an error is told"
        return look.result  # type: ignore[no-any-return]

    def look(self, function: Callable[..., T], *args: Any, is_relaxed: bool = False) -> tuple[T, None]:
        """As `run`.  Nobody here can tell later on whether it is still so: the store has to be asked."""
        return self.run(function, *args, is_relaxed=is_relaxed), None

    async def perform(self, function: Callable[..., T], *args: Any, is_relaxed: bool = False) -> T:
        """Run it, and wait until what it wrote is committed."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def done(result: Any, error: Exception | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        self._submit(function, args, is_relaxed, done)
        return await future

    def _attempt(self, function: Callable[..., Any], args: tuple[Any, ...], is_relaxed: bool, done: Done) -> Attempt:
        return Attempt(
            function,
            args,
            now=self.clock(),
            file_ids=self._file_ids.next,
            volatile=self._volatile,
            is_relaxed=is_relaxed,
            done=done,
        )

    def _submit(self, function: Callable[..., Any], args: tuple[Any, ...], is_relaxed: bool, done: Done) -> None:
        self._pending.append(self._attempt(function, args, is_relaxed, done))
        if not self._is_turn_due:
            self._is_turn_due = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """Run what came in this turn of the loop, and look at the store for all of it at once."""
        self._is_turn_due = False
        if self._looks >= LOOKS_AT_ONCE:
            return  # the look that ends first takes them up
        attempts, self._pending = self._pending, []
        for attempt in attempts:
            attempt.run(self._known.records)
            self._sort(attempt)
        if self._looking:
            looking, self._looking = self._looking, []
            self._looks += 1
            self._spawn(self._look(looking))

    def _sort(self, attempt: Attempt) -> None:
        """Whether it has to look at the store next, or to stand in line."""
        if not attempt.writes:
            self._looking.append(attempt)
            return
        self._writers.append(attempt)
        if not self._is_writing:
            self._is_writing = True
            self._spawn(self._write())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Reading.

    async def _look(self, attempts: list[Attempt]) -> None:
        try:
            moment = await self._patience.have(lambda: self._known.load(attempts))
            for attempt in attempts:
                self._after_look(attempt, moment)
        except StoreError as error:
            self._fail(attempts, error)
        except Exception as error:  # the top of a background task: whatever it is, the calls must hear of it
            log.exception("looking at the metadata store failed")
            self._fail(attempts, error)
        finally:
            self._looks -= 1
            if self._pending or self._looking:
                self._turn()

    def _after_look(self, attempt: Attempt, moment: dict[Pair, Found]) -> None:
        if attempt.miss is None:
            if attempt.is_unchanged(moment):
                self._tell(attempt)
                return
            attempt.ranges.clear()  # what was scanned may be another by now, too
        attempt.run(moment, self._known.records)
        if attempt.miss is None and not attempt.writes and attempt.is_unchanged(moment):
            self._tell(attempt)
            return
        attempt.rounds += 1
        if attempt.rounds > ROUNDS:
            self._fail([attempt], Overtaken("what the call reads changes faster than it can be read"))
        else:
            self._sort(attempt)

    # Writing.

    async def _write(self) -> None:
        """One batch after the other, as long as somebody stands in line."""
        while self._writers:
            batch = [self._writers.popleft() for _ in range(min(len(self._writers), CALLS_PER_BATCH))]
            try:
                await self._commit(batch)
            except StoreError as error:
                self._fail(batch, error)
            except Exception as error:  # the top of a background task
                log.exception("committing to the metadata store failed")
                self._fail(batch, error)
        self._is_writing = False

    async def _commit(self, batch: list[Attempt]) -> None:
        """Commit a batch, whatever others do meanwhile.  Raises StoreError if that cannot be: nothing happened."""
        for losses in range(LOSSES):
            self._counts.lost += losses > 0
            try:
                work = self._try_locked if losses else self._try
                overlay = await self._patience.have(partial(work, batch))
            except Overtaken:
                continue
            except InDoubt:
                if not await self._patience.find_out(self.store, self._sequence + 1):
                    continue
                overlay = _overlay_of(batch)
            if overlay is not None:
                self._keep(batch, overlay)
                return
        raise Overtaken(f"other servers were faster {LOSSES} times")

    async def _try_locked(self, batch: list[Attempt]) -> dict[Pair, Any] | None:
        seen = {found.packed: pair for attempt in batch for pair, found in attempt.seen()}
        versions = {
            key: found.version if (found := self._known.records.get(seen[key])) else UNKNOWN for key in sorted(seen)
        }
        async with self.store.locked(versions) as session:
            self._known.take(seen, session.changed)
            return await self._try(batch, session)

    async def _try(self, batch: list[Attempt], session: CommitSession | None = None) -> dict[Pair, Any] | None:
        """Run the calls one after the other, and commit what they wrote; None if what they read is not so any more."""
        loaded: dict[Pair, Found] = {}
        while True:
            overlay: dict[Pair, Found] = {}
            missing = [attempt for attempt in batch if not self._run_over(attempt, overlay, loaded)]
            if not missing:
                break
            loaded.update(await self._known.load(missing))
            for attempt in missing:
                attempt.rounds += 1
            if max(attempt.rounds for attempt in missing) > ROUNDS:
                raise Overtaken("what a call reads changes faster than it can be read")
        seen = {found.packed: found.version for attempt in batch for _, found in attempt.seen()}
        asked = {found.packed: pair for attempt in batch for pair, found in attempt.seen()}
        commit = self._commit_of(batch, overlay, seen)
        if commit.values:
            began = time.monotonic()
            conflicts = await (session or self.store).commit(commit)
            self._counts.flush_seconds.observe(time.monotonic() - began)
            self._counts.batch_sizes.observe(len(commit.values))
        else:
            conflicts = (await self.store.refresh(seen, [])).changed
        self._known.take(asked, conflicts)
        if conflicts:
            for attempt in batch:
                attempt.ranges.clear()
            return None
        return {pair: found.record for pair, found in overlay.items()}

    def _run_over(self, attempt: Attempt, overlay: dict[Pair, Found], loaded: dict[Pair, Found]) -> bool:
        attempt.run(overlay, loaded, self._known.records)
        if attempt.miss is not None:
            return False
        for pair, record in attempt.writes.items():
            overlay[pair] = Found(OVERLAID, record, b"")
        return True

    def _commit_of(self, batch: list[Attempt], overlay: dict[Pair, Found], seen: dict[bytes, int]) -> Commit:
        values: dict[bytes, bytes | None] = {}
        tables = all_tables()
        for (number, key), found in overlay.items():
            table = tables[number]
            if not table.is_volatile:
                values[table.pack(key)] = None if found.record is None else table.encode(found.record)
        return Commit(
            self._sequence + 1,
            dict(sorted(seen.items())),
            dict(sorted(values.items())),
            all(attempt.is_relaxed for attempt in batch),
        )

    def _keep(self, batch: list[Attempt], overlay: dict[Pair, Any]) -> None:
        """The batch is committed: so it is, here too, and those who asked for it hear of it."""
        tables = all_tables()
        version = version_of(self.epoch, self._sequence + 1)
        has_changed = False
        for pair, record in overlay.items():
            table = tables[pair[0]]
            if table.is_volatile:
                if record is None:
                    self._volatile.pop(pair, None)
                else:
                    self._volatile[pair] = Found(OVERLAID, record, b"")
                continue
            has_changed = True
            self._known.records[pair] = Found(ABSENT if record is None else version, record, table.pack(pair[1]))
        self._sequence += has_changed
        self._known.evict()
        for attempt in batch:
            for effect in attempt.effects:
                self.on_effect(effect, None)
            self._tell(attempt)

    # Trouble, and telling.

    def _fail(self, attempts: list[Attempt], error: Exception) -> None:
        for attempt in attempts:
            attempt.error = _told_as(error)
            self._tell(attempt)

    def _tell(self, attempt: Attempt) -> None:
        self._told = attempt
        try:
            attempt.done(attempt.result, attempt.error)
        except Exception:  # one caller's fault is not the others'
            log.exception("a caller failed on its result")
        finally:
            self._told = None


def _overlay_of(batch: list[Attempt]) -> dict[Pair, Any]:
    return {pair: record for attempt in batch for pair, record in attempt.writes.items()}


def _told_as(error: Exception) -> Exception:
    """What the callers hear of a store's trouble."""
    match error:
        case StoreAway() | Overtaken():
            return TryLater(str(error))
        case StoreFull():
            return NoSpace(str(error))
        case StoreError():
            return StoreFailure(str(error))
        case _:
            return error


def _nobody_listens(result: Any, error: Exception | None) -> NoReturn:
    raise AssertionError("a look while an error is told is answered at once")


def _no_effects_expected(effect: object, hold: None) -> None:
    raise AssertionError(f"nobody performs {effect!r}: set on_effect")
