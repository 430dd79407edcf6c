"""The records that a driver has read from a store across a network, with their versions.

They are a guess: whatever was decided on them counts only if the store says that they are still so.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from dittofs.metrics.counting import StoreCounts
from dittofs.stores.attempts import OVERLAID, Attempt, Found, Pair, RangeKey, Rows
from dittofs.stores.sharing import UNKNOWN, Range, Refreshed, SharedStore, Versioned
from dittofs.stores.tables import all_tables


class KnownRecords:
    """At most `limit` of them, the newest."""

    def __init__(self, store: SharedStore, counts: StoreCounts, *, limit: int):
        self.records: dict[Pair, Found] = {}
        self._store = store
        self._counts = counts
        self._limit = limit

    async def load(self, attempts: Iterable[Attempt]) -> dict[Pair, Found]:
        """What the runs have read, or missed, as it is at one moment."""
        missing: dict[bytes, Pair] = {}
        known: dict[bytes, int] = {}
        moment: dict[Pair, Found] = {}
        ranges: dict[RangeKey, int] = {}
        tables = all_tables()
        for attempt in attempts:
            for pair, found in attempt.reads.items():
                if found.version != OVERLAID:
                    known[found.packed] = found.version
                    moment[pair] = found
            if attempt.miss is None:
                continue
            for pair in attempt.wanted():
                at_hand = self.records.get(pair)
                if at_hand is None:
                    packed = tables[pair[0]].pack(pair[1])
                    missing[packed] = pair
                    known[packed] = UNKNOWN
                elif pair not in moment:
                    known[at_hand.packed] = at_hand.version
                    moment[pair] = at_hand
            if attempt.miss.range is not None:
                key, limit = attempt.miss.range
                ranges[key] = max(limit, ranges.get(key, 0))
        self._counts.reads += len(known)
        self._counts.scans += len(ranges)
        refreshed = await self._store.refresh(known, [_range_of(key, limit) for key, limit in ranges.items()])
        if refreshed.changed:
            asked = {found.packed: pair for pair, found in moment.items()}
            moment.update(self.take({**asked, **missing}, refreshed.changed))
        self._take_ranges(ranges, refreshed, attempts, moment)
        return moment

    def take(self, asked: Mapping[bytes, Pair], changed: Sequence[Versioned]) -> dict[Pair, Found]:
        """Remember records as the store told them."""
        tables = all_tables()
        taken: dict[Pair, Found] = {}
        self._counts.loads += len(changed)
        for key, version, value in changed:
            pair = asked[key]
            record = None if value is None else tables[pair[0]].decode(value)
            taken[pair] = self.records[pair] = Found(version, record, key)
        self.evict()
        return taken

    def _take_ranges(
        self, ranges: dict[RangeKey, int], refreshed: Refreshed, attempts: Iterable[Attempt], moment: dict[Pair, Found]
    ) -> None:
        taken: dict[RangeKey, Rows] = {}
        for (key, limit), records in zip(ranges.items(), refreshed.ranges, strict=True):
            table = all_tables()[key.table]
            rows = []
            for packed, version, value in records:
                assert value is not None, "what is in a range is there"
                found = Found(version, table.decode(value), packed)
                pair = (key.table, table.unpack(packed))
                moment[pair] = self.records[pair] = found
                rows.append((pair[1], found))
            taken[key] = Rows(limit, rows)
        for attempt in attempts:
            if attempt.miss is not None and attempt.miss.range is not None:
                attempt.ranges[attempt.miss.range[0]] = taken[attempt.miss.range[0]]

    def evict(self) -> None:
        """Drop the records that came first; nobody relies on one being here."""
        if len(self.records) > self._limit:
            for pair in list(islice(self.records, len(self.records) - self._limit * 7 // 8)):
                del self.records[pair]


def _range_of(key: RangeKey, limit: int) -> Range:
    pack = all_tables()[key.table].pack
    return Range(pack(key.start), pack(key.end), limit)
