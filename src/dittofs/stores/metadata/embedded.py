"""The default metadata store: a log that is flushed once per flush, over records in LMDB.

A batch goes into the log's buffer and into an overlay in memory; `flush` writes the buffer and flushes the device
once.  When the overlay or the log has reached half of its bound, the overlay is set aside, a new one is begun, and
the folding process brings the records up to date from the log (`folding`); then the old overlay is dropped and its
segments are written over.  Reads look into the overlays first.  After a crash, `open` folds what the log holds.

Four numbers of batches say where everything is:  folded <= durable <= applied, and `_set_aside` for the fold.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from dittofs.stores.api import Change, MetadataStore, StoreError, StoreFull, check_keys
from dittofs.stores.data_directory import DataDirectory, flush_file
from dittofs.stores.metadata.folding import Folder, fold_log
from dittofs.stores.metadata.log import Log, encode_batch, read_log
from dittofs.stores.metadata.ordered import Layer, OrderedRecords, scan_layers
from dittofs.stores.metadata.records import RecordFile
from dittofs.stores.metadata.reserve import SpaceReserve

KIND = "embedded-metadata"
VERSION = 1
MEBIBYTE = 1 << 20

ENTRY_BYTES = 250
"""What a record costs in the overlay besides its bytes: two objects and its place in the dict, measured."""

RETRY_SECONDS = 1.0
"""So long a full disk is believed to be full."""

SPARED_BYTES = 64 << 10
"""So much may be changed on a full disk without removing anything, in records that are there: a server starts, notes a
stop, or commits a file that was written before."""

_ABSENT = b"absent"  # told from any value by identity


class EmbeddedMetadataStore(MetadataStore):
    """`overlay_bytes` bounds what is kept in memory, `log_bytes` the log on disk (both approximately), `reserve_bytes`
    is room kept back so that files can be removed from a full disk."""

    is_volatile: ClassVar[bool] = False

    def __init__(
        self,
        path: Path,
        *,
        overlay_bytes: int = 64 * MEBIBYTE,
        log_bytes: int = 128 * MEBIBYTE,
        segment_bytes: int = 8 * MEBIBYTE,
        map_bytes: int = 1024 * MEBIBYTE,
        reserve_bytes: int = 16 * MEBIBYTE,
        is_read_only: bool = False,
        sync: Callable[[int], None] = flush_file,
    ):
        if log_bytes < 4 * segment_bytes:
            raise StoreError(f"log_bytes is {log_bytes}; at least four segments of {segment_bytes} bytes are needed")
        self._directory = DataDirectory(Path(path), kind=KIND, version=VERSION, is_read_only=is_read_only)
        self._log_path = Path(path) / "log"
        self._records_path = Path(path) / "records"
        self._fold_bytes = overlay_bytes // 2
        self._fold_log_bytes = log_bytes // 2
        self._segment_bytes = segment_bytes
        self._map_bytes = map_bytes
        self._reserve = SpaceReserve(Path(path) / "reserve", reserve_bytes)
        self._is_read_only = is_read_only
        self._sync = sync

        self._resources = contextlib.ExitStack()
        self._records: RecordFile
        self._log: Log
        self._folder: Folder
        self._active = OrderedRecords()
        self._active_bytes = 0
        self._aside: OrderedRecords | None = None
        self._set_aside = 0
        self._retired: dict[bytes, bytes | None] = {}
        self._folded = 0
        self._durable = 0
        self._applied = 0
        self._pending: list[bytes] = []
        self._lock = threading.Lock()  # _pending, _applied and _set_aside belong together
        self._flushing = threading.Lock()
        self._failure: StoreError | None = None
        self._is_reverting = False
        self._is_full = False
        self._is_guarded = is_read_only  # something is wrong: `apply` has to look closer
        self._retry_at = 0.0
        self._spared = SPARED_BYTES

    def open(self) -> None:
        with contextlib.ExitStack() as resources:
            self._directory.acquire()
            resources.callback(self._directory.release)
            try:
                self._open_files(resources)
            except OSError as error:
                raise StoreError(f"cannot open {self._directory.path}: {error.strerror}") from error
            self._resources = resources.pop_all()

    def _open_files(self, resources: contextlib.ExitStack) -> None:
        if not self._is_read_only:
            self._records_path.mkdir(exist_ok=True)
            self._log_path.mkdir(exist_ok=True)
        self._records = RecordFile(self._records_path, map_bytes=self._map_bytes, is_read_only=self._is_read_only)
        resources.callback(self._records.close)
        if self._is_read_only:
            self._load_overlay(through=None)
            return
        store = self._directory.identity
        self._recover(store)
        self._folded = self._durable = self._applied = self._records.folded
        self._log = Log(self._log_path, store, segment_bytes=self._segment_bytes, sync=self._sync)
        resources.callback(self._log.close)
        self._log.start(self._durable + 1)
        self._folder = Folder(
            records=self._records_path,
            log_directory=self._log_path,
            store=store,
            map_bytes=self._records.map_bytes,
            on_folded=self._on_folded,
        )
        resources.callback(self._folder.stop)
        self._is_full = not self._has_room()
        try:
            self._log.make_spare()
        except StoreFull:
            self._is_full = True
        self._is_guarded = self._is_full

    def _recover(self, store: bytes) -> None:
        self._failure = None
        self._is_reverting = False
        self._pending = []
        self._spared = SPARED_BYTES
        try:
            fold_log(self._records, self._log_path, store)
        except StoreFull:
            if not self._reserve.give_up():
                raise
            fold_log(self._records, self._log_path, store)

    def close(self) -> None:
        """Flush and fold, so that the next `open` finds nothing to do."""
        resources, self._resources = self._resources, contextlib.ExitStack()
        with resources:
            if not self._is_read_only and self._failure is None and not self._is_reverting:
                self.flush()
                self._folder.wait()
                self._records.refresh(self._folder.map_bytes)
                with contextlib.suppress(StoreFull):  # the log keeps it then
                    fold_log(self._records, self._log_path, self._directory.identity, self._durable)
        self._active, self._active_bytes, self._aside, self._retired = OrderedRecords(), 0, None, {}

    def get(self, key: bytes) -> bytes | None:
        value = self._active.values.get(key, _ABSENT)
        if value is _ABSENT:
            if self._aside is not None:
                value = self._aside.values.get(key, _ABSENT)
                if value is not _ABSENT:
                    return value
            return self._records.get(key)
        return value

    def scan(self, start: bytes, end: bytes, limit: int) -> Sequence[tuple[bytes, bytes]]:
        layers: list[Layer] = [self._records, self._active]
        if self._aside is not None:
            layers.insert(1, self._aside)
        return scan_layers(layers, start, end, limit)

    @property
    def is_congested(self) -> bool:
        return self._aside is not None and self._active_bytes >= self._fold_bytes and self._folded < self._set_aside

    @property
    def can_flush_at_once(self) -> bool:
        return not self._is_guarded and not self._is_reverting and not self.is_congested and self._log.has_room

    def apply(self, changes: Sequence[Change]) -> None:
        if self._is_guarded:
            self._admit(changes)
        check_keys(changes)
        if not changes:
            return
        encoded = encode_batch(changes)
        values = self._active.values
        before = len(values)
        values.update(changes)
        # What is written over and over, or removed soon after, takes one place.
        self._active_bytes += len(encoded) + ENTRY_BYTES * (len(values) - before)
        with self._lock:
            self._pending.append(encoded)
            self._applied += 1
        if self._retired:
            self._free_some(8 * len(changes))
        if self._aside is not None and self._folded >= self._set_aside:
            self._drop_aside()
        if self._aside is None and self._is_fold_due():
            self._begin_aside()

    def flush(self) -> None:
        with self._flushing:
            if self._failure is not None:
                raise StoreError(str(self._failure))
            if self._is_reverting:
                raise StoreError("a flush failed; revert before the next one")
            with self._lock:
                batches, self._pending = self._pending, []
            if batches:
                try:
                    self._append(batches)
                except StoreError:
                    self._is_reverting = True
                    raise
                self._durable += len(batches)
            self._fold_aside()
            if self.is_congested:
                self._folder.wait()

    def revert(self) -> None:
        with self._flushing:
            if self._failure is not None:
                raise StoreError(str(self._failure))
            self._folder.wait()
            with self._lock:
                self._pending = []
                self._applied = self._durable
            try:
                self._records.refresh(self._folder.map_bytes)
                self._folded = self._records.folded
                self._load_overlay(through=self._durable)
                if self._log.is_broken:
                    self._log.restart(self._durable + 1)
                    # The last block that is durable was being rewritten: do not rely on it for longer than need be.
                    self._begin_aside()
                    self._fold_aside()
            except StoreError as error:
                self._failure = error
                self._is_guarded = True
                raise
            self._is_reverting = False

    # The overlays.

    def _load_overlay(self, through: int | None) -> None:
        """Make the overlay from the log: everything that is durable and not in the records."""
        self._aside = None
        self._active = OrderedRecords()
        self._active_bytes = 0
        folded = self._records.folded
        for frame in read_log(self._log_path, self._directory.identity, after=folded, through=through):
            for number, batch in enumerate(frame.batches, start=frame.first):
                if number > folded and (through is None or number <= through):
                    self._active.values.update(batch)
                    self._active_bytes += sum(len(key) + len(value or b"") + ENTRY_BYTES for key, value in batch)

    def _is_fold_due(self) -> bool:
        return self._active_bytes >= self._fold_bytes or self._log.used_bytes >= self._fold_log_bytes

    def _begin_aside(self) -> None:
        with self._lock:
            self._aside, self._active = self._active, OrderedRecords()
            self._set_aside = self._applied
        self._active_bytes = 0

    def _drop_aside(self) -> None:
        assert self._aside is not None, "there is nothing to drop"
        self._records.refresh(self._folder.map_bytes)
        self._retired, self._aside = self._aside.values, None
        if not self._has_room():
            self._is_full = self._is_guarded = True

    def _free_some(self, count: int) -> None:
        """Freeing an overlay at once would stop the loop for up to 40 ms, measured."""
        values = self._retired
        for _ in range(min(count, len(values))):
            values.popitem()

    def _fold_aside(self) -> None:
        """Have the overlay that was set aside folded, once all of it is durable."""
        if self._aside is None or self._folder.is_running or not self._folded < self._set_aside <= self._durable:
            return
        error = self._folder.error
        if error is not None:
            self._is_guarded = True
            is_too_early = time.monotonic() < self._retry_at
            has_more_room = isinstance(error, StoreFull) and self._give_up_reserve()
            if is_too_early and not has_more_room:
                return
            self._retry_at = time.monotonic() + RETRY_SECONDS
        self._folder.request(self._set_aside)

    def _on_folded(self, through: int) -> None:
        """Called in the folder's thread; the overlay is dropped by the next batch, in its own thread."""
        self._log.release(through)
        self._folded = through

    # When something is wrong.

    def _append(self, batches: list[bytes]) -> None:
        try:
            self._log.append(self._durable + 1, batches, self._durable)
        except StoreFull:
            if self._log.is_broken or not self._give_up_reserve():
                raise
            self._log.append(self._durable + 1, batches, self._durable)

    def _give_up_reserve(self) -> bool:
        self._is_full = self._is_guarded = True
        self._retry_at = time.monotonic() + RETRY_SECONDS
        return self._reserve.give_up()

    def _has_room(self) -> bool:
        """Room enough for removing: on the disk, or in a file of records that was emptied."""
        return self._reserve.take() or self._records.free_bytes >= 2 * self._reserve.size

    def _admit(self, changes: Sequence[Change]) -> None:
        """Refuse what can't be kept.  On a full disk a batch that removes something is let through: it lives on the
        reserve, and nothing else ever makes room."""
        if self._is_read_only:
            raise StoreError(f"{self._directory.path} is open for reading only")
        if self._failure is not None:
            raise StoreError(str(self._failure))
        error = self._folder.error
        if error is not None and self._active_bytes >= 2 * self._fold_bytes:
            raise type(error)(str(error))
        if self._is_full and time.monotonic() >= self._retry_at:
            self._retry_at = time.monotonic() + RETRY_SECONDS
            self._is_full = not self._has_room()
        if not self._is_full:
            self._spared = SPARED_BYTES
        elif not any(value is None for _, value in changes) and not self._is_spared(changes):
            raise StoreFull(f"no room left for {self._directory.path}: only removing is possible")
        self._is_guarded = self._is_full or error is not None

    def _is_spared(self, changes: Sequence[Change]) -> bool:
        size = sum(len(key) + len(value or b"") for key, value in changes)
        if size > self._spared or any(self.get(key) is None for key, _ in changes):
            return False
        self._spared -= size
        return True
