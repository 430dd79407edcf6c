"""One owner's ranges byte by byte: whatever he had, a new range covers its bytes and leaves the others [LOCK-3]."""

from hypothesis import given, settings
from hypothesis import strategies as st

from dittofs.locks.combining import cover, uncover
from dittofs.locks.spans import Span, overlaps
from dittofs.locks.values import Lock, Mode, Origin, Owner
from dittofs.model.ids import ClientId, FileId, FileRef, LockId, ShareName

FILE = FileRef(ShareName("/s"), FileId(1))
OWNER = Owner("a", ClientId("a"))
NOW = Origin("n", 2)
SIZE = 12

cells = st.lists(st.sampled_from([None, Mode.SHARED, Mode.EXCLUSIVE]), min_size=SIZE, max_size=SIZE)
spans = st.tuples(st.integers(0, SIZE - 1), st.integers(1, SIZE)).map(lambda p: Span(p[0], max(p[0] + 1, p[1])))
modes = st.sampled_from([Mode.SHARED, Mode.EXCLUSIVE])


def lock(number: int, span: Span, mode: Mode, *, origin: Origin = NOW, at: float = 1.0) -> Lock:
    return Lock(LockId(number), FILE, OWNER, span.start, span.end, mode, at, origin)


def locks_of(cells: list[Mode | None]) -> list[Lock]:
    """The fewest locks that say the same."""
    found: list[Lock] = []
    for index, mode in enumerate(cells):
        if mode is not None:
            if found and found[-1].end == index and found[-1].mode is mode:
                found[-1] = lock(found[-1].id, Span(found[-1].start, index + 1), mode)
            else:
                found.append(lock(index, Span(index, index + 1), mode))
    return found


def bytes_of(locks: list[tuple[Span, Mode]]) -> list[Mode | None]:
    cells: list[Mode | None] = [None] * SIZE
    for span, mode in locks:
        assert cells[span.start : span.end] == [None] * (span.end - span.start), "two of his ranges overlap"
        cells[span.start : span.end] = [mode] * (span.end - span.start)
    return cells


@settings(max_examples=40, deadline=None)
@given(cells, spans, modes)
def test_cover_paints_the_span_and_nothing_else(before: list[Mode | None], span: Span, mode: Mode) -> None:
    """[LOCK-3]: split, merge and partial replacement; as few locks as can be."""
    locks = locks_of(before)
    touching = [one for one in locks if one.start <= span.end and span.start <= one.end]
    change = cover(touching, span, mode, origin=NOW, now=5.0)
    assert change.merged is not None
    kept = [(one.span, one.mode) for one in locks if one not in change.gone]
    rest = [(piece, one.mode) for one, piece in change.rest]
    after = bytes_of([*kept, *rest, (change.merged, mode)])
    expected = list(before)
    expected[span.start : span.end] = [mode] * (span.end - span.start)
    assert after == expected
    assert len(kept) + len(rest) + 1 == len(locks_of(expected)) == len(locks) + change.growth
    freed = {byte for part in change.freed for byte in range(*part)}
    assert freed == {byte for byte in range(*span) if before[byte] is Mode.EXCLUSIVE and mode is Mode.SHARED}, (
        "readers may go where a writer was, and nowhere else"
    )
    assert change.acquired_at == (1.0 if any(one.mode is mode for one in change.gone) else 5.0)


@settings(max_examples=40, deadline=None)
@given(cells, spans)
def test_uncover_frees_the_span_and_nothing_else(before: list[Mode | None], span: Span) -> None:
    """[LOCK-3]"""
    locks = locks_of(before)
    change = uncover([one for one in locks if overlaps(one.span, span)], span)
    kept = [(one.span, one.mode) for one in locks if one not in change.gone]
    after = bytes_of([*kept, *((piece, one.mode) for one, piece in change.rest)])
    expected = [None if span.start <= byte < span.end else mode for byte, mode in enumerate(before)]
    assert after == expected
    assert change.growth == len(locks_of(expected)) - len(locks)
    freed = {byte for part in change.freed for byte in range(*part)}
    assert freed == {byte for byte in range(*span) if before[byte] is not None}


def test_what_another_run_recorded_does_not_merge_with_what_is_held() -> None:
    """[GRACE-3]: bytes that wait for their reclaim stay apart."""
    old = lock(1, Span(0, 5), Mode.SHARED, origin=Origin("n", 1))
    change = cover([old], Span(5, 10), Mode.SHARED, origin=NOW, now=5.0)
    assert change.gone == []
    assert change.merged == Span(5, 10)
    change = cover([old], Span(3, 10), Mode.SHARED, origin=NOW, now=5.0)
    assert (change.gone, change.rest, change.merged) == ([old], [(old, Span(0, 3))], Span(3, 10))
