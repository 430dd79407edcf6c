"""Plain counters: a number in a slot, a list of buckets.  Whoever counts pays for an addition and nothing else."""

from bisect import bisect_left
from collections.abc import Sequence

DURATION_BOUNDS = (0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Seconds that a request takes: from a cached attribute to a disk that is in trouble."""
LOCK_BOUNDS = (0.001, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0, 86_400.0)
"""Seconds that a lock is held or awaited."""
SIZE_BOUNDS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 4096.0)

SERIES_MAX = 1000
OTHER = "other"


class Histogram:
    """How often a value fell below each bound; the last bucket is for what lies above all of them."""

    __slots__ = ("bounds", "buckets", "total")

    def __init__(self, bounds: Sequence[float] = DURATION_BOUNDS):
        self.bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        self.buckets[bisect_left(self.bounds, value)] += times
        self.total += value * times

    def merge(self, other: "Histogram") -> None:
        """Add what another one of the same bounds has seen."""
        self.buckets = [mine + more for mine, more in zip(self.buckets, other.buckets, strict=True)]
        self.total += other.total

    @property
    def count(self) -> int:
        return sum(self.buckets)


class Count:
    """One number that grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0


class Counts:
    """A counter per tuple of label values.  Their number is bounded: what comes after that is counted together."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[tuple[str, ...], Count] = {}

    def of(self, *labels: str) -> Count:
        """The one counter of these labels; who counts often keeps it."""
        count = self._counts.get(labels)
        if count is None:
            if len(self._counts) >= SERIES_MAX:
                labels = (OTHER,) * len(labels)
            count = self._counts.setdefault(labels, Count())
        return count

    def add(self, *labels: str, amount: float = 1) -> None:
        self.of(*labels).value += amount

    def items(self) -> list[tuple[tuple[str, ...], float]]:
        return [(labels, count.value) for labels, count in self._counts.items()]


class Histograms:
    """A histogram per tuple of label values, bounded as `Counts` are."""

    __slots__ = ("_bounds", "values")

    def __init__(self, bounds: Sequence[float] = DURATION_BOUNDS):
        self._bounds = bounds
        self.values: dict[tuple[str, ...], Histogram] = {}

    def of(self, *labels: str) -> Histogram:
        """The one histogram of these labels."""
        histogram = self.values.get(labels)
        if histogram is None:
            if len(self.values) >= SERIES_MAX:
                labels = (OTHER,) * len(labels)
            histogram = self.values.setdefault(labels, Histogram(self._bounds))
        return histogram

    def observe(self, value: float, *labels: str) -> None:
        self.of(*labels).observe(value)


class ProcedureCounts:
    """What happened to the calls of one procedure.

    A call that is answered at once leaves with all others of its batch, and so has taken as long as they: `in_batch`
    counts those, and the clock is read once for all of them.
    """

    __slots__ = ("durations", "in_batch", "name", "ok", "program", "statuses")

    def __init__(self, program: str, name: str):
        self.program = program
        self.name = name
        self.ok = 0
        self.statuses: dict[str, int] = {}
        """Answers with any other status, those of RPC itself included; its words are those of enums, so it is small."""
        self.durations = Histogram()
        self.in_batch = 0

    def count(self, status: str) -> None:
        self.statuses[status] = self.statuses.get(status, 0) + 1

    def end_batch(self, seconds: float) -> None:
        self.durations.observe(seconds, self.in_batch)
        self.in_batch = 0

    @property
    def requests(self) -> int:
        return self.ok + sum(self.statuses.values())


class StoreCounts:
    """What a metadata store's driver did."""

    __slots__ = ("batch_sizes", "flush_seconds", "loads", "lost", "queries", "reads", "scans")

    def __init__(self) -> None:
        self.reads = 0
        """Records asked for by procedures."""
        self.loads = 0
        """Those of them that were not in memory."""
        self.scans = 0
        self.queries = 0
        """Journeys to a store across a network; each is for many records."""
        self.lost = 0
        """Batches that the store refused."""
        self.batch_sizes = Histogram(SIZE_BOUNDS)
        self.flush_seconds = Histogram()
