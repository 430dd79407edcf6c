"""Ranges between the wire and the lock table (pure).

On the wire a range is an offset and a length, and length 0 means "to the end"; so does the largest length, which some
clients send instead.  Inside it is a half-open span [NLM-3].
"""

from dittofs.locks.spans import END, Span
from dittofs.locks.values import Lock, Mode
from dittofs.model.errors import FileTooBig
from dittofs.protocols.nlm.types import nlm4_holder, nlm_holder

MAX32 = 2**32 - 1
MAX64 = 2**64 - 1


def span_of(offset: int, length: int) -> Span:
    """The span of a version 4 range.  Raises FileTooBig."""
    if length == 0 or length == MAX64:
        return Span(offset, END)
    end = offset + length
    if end > END:
        raise FileTooBig(f"a range of {length} bytes from {offset} on ends behind 2^64")
    return Span(offset, end)


def span_of_32(offset: int, length: int) -> Span:
    """The span of a version 1 or 3 range; it may end behind 2^32, where such a client cannot look."""
    if length == 0 or length == MAX32:
        return Span(offset, END)
    return Span(offset, offset + length)


def holder_of(lock: Lock) -> nlm4_holder:
    """Who is in the way, for a denied TEST."""
    owner = lock.owner
    return nlm4_holder(
        exclusive=lock.mode is Mode.EXCLUSIVE,
        svid=owner.svid,
        oh=owner.oh,
        l_offset=lock.start,
        l_len=0 if lock.end == END else lock.end - lock.start,
    )


def holder_of_32(lock: Lock) -> nlm_holder:
    """The same as far as 32 bits can say it."""
    owner = lock.owner
    length = lock.end - lock.start
    return nlm_holder(
        exclusive=lock.mode is Mode.EXCLUSIVE,
        svid=owner.svid,
        oh=owner.oh,
        l_offset=min(lock.start, MAX32),
        l_len=0 if lock.end > MAX32 else length,
    )
