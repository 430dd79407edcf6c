"""Arithmetic of byte ranges: half-open, over the whole unsigned 64 bits, and nothing else.

"Length 0 means to the end" exists only on the wire; here the end of an unbounded range is `END`, so that
`start < end` always holds and no sum can overflow.
"""

from collections.abc import Iterable
from typing import NamedTuple

END = 2**64
"""One past the last byte a file can have."""


class Span(NamedTuple):
    """The bytes from `start` up to, not including, `end`."""

    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.start}-{'' if self.end == END else self.end}"


WHOLE = Span(0, END)


def checked(span: Span) -> Span:
    """The span itself.  Raises `ValueError` for one that holds no byte or leaves the 64 bits."""
    start, end = span
    if 0 <= start < end <= END:
        return span
    raise ValueError(f"a span must be 0 <= start < end <= 2**64, not {start} and {end}")


def overlaps(a: Span, b: Span) -> bool:
    return a.start < b.end and b.start < a.end


def common(a: Span, b: Span) -> Span | None:
    """The bytes that are in both."""
    start, end = max(a.start, b.start), min(a.end, b.end)
    return Span(start, end) if start < end else None


def subtract(a: Span, b: Span) -> list[Span]:
    """What is left of `a` without `b`: none, one or two spans, in order."""
    if not overlaps(a, b):
        return [a]
    left = [Span(a.start, b.start)] if a.start < b.start else []
    right = [Span(b.end, a.end)] if b.end < a.end else []
    return left + right


def join(a: Span, b: Span) -> Span:
    """The span from the first byte of the two to the last; they overlap or adjoin."""
    assert max(a.start, b.start) <= min(a.end, b.end), "only spans that touch can be joined"
    return Span(min(a.start, b.start), max(a.end, b.end))


def gaps(whole: Span, parts: Iterable[Span]) -> list[Span]:
    """What of `whole` no part covers; the parts come in the order of their starts."""
    missing = []
    position = whole.start
    for part in parts:
        if part.start > position:
            missing.append(Span(position, min(part.start, whole.end)))
        position = max(position, part.end)
        if position >= whole.end:
            return missing
    return [*missing, Span(position, whole.end)]
