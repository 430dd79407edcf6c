"""What NLM makes of errors, outcomes and ranges (pure) [NLM-3]."""

import typing

import pytest

from dittofs.locks import outcomes
from dittofs.locks.spans import END, Span
from dittofs.locks.values import Lock, Mode, Origin, Owner
from dittofs.model.errors import FileError, FileTooBig
from dittofs.model.ids import ClientId, FileId, FileRef, LockId, ShareName
from dittofs.protocols.nlm.errors import NARROWED, OUTCOMES, STATUS, status_of
from dittofs.protocols.nlm.procedures import PROGRAMS
from dittofs.protocols.nlm.ranges import MAX32, MAX64, holder_of, holder_of_32, span_of, span_of_32
from dittofs.protocols.nlm.types import nlm4_stats, nlm_stats

MESSAGES = set(range(16))
SHARES = {20, 21, 22, 23}


def lock(start: int, end: int) -> Lock:
    return Lock(
        id=LockId(1),
        file=FileRef(ShareName("/export"), FileId(2)),
        owner=Owner("nlm:host:7:0a", ClientId("host"), svid=7, oh=b"\n"),
        start=start,
        end=end,
        mode=Mode.EXCLUSIVE,
        acquired_at=0.0,
        origin=Origin("node", 1),
    )


def kinds(error: type[FileError] = FileError) -> list[type[FileError]]:
    return [error, *(found for kind in error.__subclasses__() for found in kinds(kind))]


def test_every_procedure_is_there_in_every_version() -> None:
    """[NLM-1]: versions 1, 3 and 4."""
    served = {program.version: set(program.procedures) for program in PROGRAMS}
    assert served == {1: MESSAGES, 3: MESSAGES | SHARES, 4: MESSAGES | SHARES}


@pytest.mark.parametrize("error", kinds(), ids=lambda error: error.__name__)
def test_no_error_is_told_as_a_grant(error: type[FileError]) -> None:
    told = status_of(error("why"))
    assert told in set(STATUS.values())
    assert told not in {nlm4_stats.NLM4_GRANTED, nlm4_stats.NLM4_BLOCKED}


def test_every_outcome_has_a_status() -> None:
    assert set(OUTCOMES) == set(typing.get_args(outcomes.Outcome))


def test_versions_1_and_3_have_a_word_for_every_status() -> None:
    """Five of their own, and of the others none that could be taken for a grant."""
    assert set(NARROWED) == set(nlm4_stats)
    for status, narrow in NARROWED.items():
        assert narrow == status if status <= 4 else narrow in {nlm_stats.LCK_DENIED, nlm_stats.LCK_DENIED_NOLOCKS}


@pytest.mark.parametrize(
    ("offset", "length", "span"),
    [
        (0, 0, Span(0, END)),
        (0, 1, Span(0, 1)),
        (5, MAX64, Span(5, END)),
        (MAX64, 0, Span(MAX64, END)),
        (MAX64, 1, Span(MAX64, END)),
        (2**63, 2**63, Span(2**63, END)),
        (2**63, 2**63 - 1, Span(2**63, MAX64)),
    ],
)
def test_spans_of_64_bits(offset: int, length: int, span: Span) -> None:
    assert span_of(offset, length) == span


@pytest.mark.parametrize(("offset", "length"), [(MAX64, 2), (3, MAX64 - 1), (2**63, 2**63 + 1)])
def test_what_would_end_behind_the_last_byte_is_too_big(offset: int, length: int) -> None:
    with pytest.raises(FileTooBig):
        span_of(offset, length)


def test_spans_of_32_bits_may_end_where_such_a_client_cannot_look() -> None:
    assert span_of_32(7, 0) == span_of_32(7, MAX32) == Span(7, END)
    assert span_of_32(MAX32, MAX32 - 1) == Span(MAX32, 2 * MAX32 - 1)


@pytest.mark.parametrize(
    ("start", "end", "told", "told_32"),
    [
        (3, 10, (3, 7), (3, 7)),
        (3, END, (3, 0), (3, 0)),
        (3, 2**40, (3, 2**40 - 3), (3, 0)),
        (2**40, 2**40 + 1, (2**40, 1), (MAX32, 0)),
    ],
)
def test_a_holder_as_each_version_can_say_it(
    start: int, end: int, told: tuple[int, int], told_32: tuple[int, int]
) -> None:
    wide, narrow = holder_of(lock(start, end)), holder_of_32(lock(start, end))
    assert (wide.l_offset, wide.l_len) == told
    assert (narrow.l_offset, narrow.l_len) == told_32
    assert (wide.svid, wide.oh, wide.exclusive) == (narrow.svid, narrow.oh, narrow.exclusive) == (7, b"\n", True)
