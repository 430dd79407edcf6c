"""Arithmetic of byte ranges, compared with plain sets of bytes [LOCK-1]."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dittofs.locks.spans import END, WHOLE, Span, checked, common, gaps, join, overlaps, subtract

small = st.tuples(st.integers(0, 20), st.integers(1, 8)).map(lambda pair: Span(pair[0], pair[0] + pair[1]))


def bytes_of(*spans: Span) -> set[int]:
    return {byte for span in spans for byte in range(*span)}


@settings(max_examples=100, deadline=None)
@given(small, small)
def test_overlap_common_and_subtract_are_those_of_sets(a: Span, b: Span) -> None:
    """[LOCK-2]"""
    shared = common(a, b)
    assert overlaps(a, b) == bool(bytes_of(a) & bytes_of(b)) == (shared is not None)
    assert (bytes_of(shared) if shared else set()) == bytes_of(a) & bytes_of(b)
    left = subtract(a, b)
    assert bytes_of(*left) == bytes_of(a) - bytes_of(b)
    assert left == sorted(left)
    assert all(span.start < span.end for span in left)


@settings(max_examples=100, deadline=None)
@given(small, small)
def test_join_is_the_union_of_spans_that_touch(a: Span, b: Span) -> None:
    """[LOCK-3]"""
    if a.start <= b.end and b.start <= a.end:
        assert bytes_of(join(a, b)) == bytes_of(a) | bytes_of(b)
    else:
        with pytest.raises(AssertionError):
            join(a, b)


@settings(max_examples=100, deadline=None)
@given(small, st.lists(small, max_size=5))
def test_gaps_are_what_no_part_covers(whole: Span, parts: list[Span]) -> None:
    """[GRACE-2]"""
    found = gaps(whole, sorted(parts))
    assert bytes_of(*found) == bytes_of(whole) - bytes_of(*parts)
    assert all(span.start < span.end for span in found)


@pytest.mark.parametrize("span", [Span(0, 1), WHOLE, Span(END - 1, END), Span(2**63, 2**63 + 1)])
def test_every_byte_of_the_64_bits_can_be_in_a_span(span: Span) -> None:
    """[LOCK-1]"""
    assert checked(span) is span
    assert overlaps(span, WHOLE)


@pytest.mark.parametrize("span", [Span(0, 0), Span(5, 4), Span(-1, 3), Span(0, END + 1), Span(END, END + 1)])
def test_a_span_without_bytes_or_past_the_64_bits_is_refused(span: Span) -> None:
    with pytest.raises(ValueError, match="0 <= start < end"):
        checked(span)


def test_the_last_byte_is_not_lost_in_arithmetic() -> None:
    """Traps: the end of an unbounded lock computed as 0, a sum that overflows."""
    last = Span(END - 1, END)
    assert subtract(WHOLE, last) == [Span(0, END - 1)]
    assert not overlaps(last, Span(0, END - 1))
    assert join(Span(0, END - 1), last) == WHOLE
    assert [str(span) for span in (last, WHOLE, Span(3, 9))] == [f"{END - 1}-", "0-", "3-9"]
