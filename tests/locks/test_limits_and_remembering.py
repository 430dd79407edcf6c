"""Each limit has its own outcome [LOCK-6]; what a waiter must still hear is kept, for a while and not without bound."""

import pytest

from dittofs.locks.limits import LockLimits
from dittofs.locks.outcomes import LimitReached, TimedOut
from dittofs.locks.remembering import KEEP_SECONDS, MAX_REMEMBERED, Remembered
from dittofs.locks.spans import Span
from dittofs.locks.values import Mode, Owner
from dittofs.model.ids import ClientId, FileId, FileRef, ShareName

FILE = FileRef(ShareName("/s"), FileId(1))
SPAN = Span(0, 10)
VERDICT = TimedOut(30)


@pytest.mark.parametrize(
    ("setting", "counts"),
    [
        ("max_per_file", {"in_file": 9, "of_client": 0, "in_all": 0}),
        ("max_per_client", {"in_file": 0, "of_client": 9, "in_all": 0}),
        ("max_total", {"in_file": 0, "of_client": 0, "in_all": 9}),
    ],
)
def test_each_limit_says_its_name_and_value(setting: str, counts: dict[str, int]) -> None:
    """[LOCK-6]: the last one that fits is granted, the next is not; what shrinks never is refused."""
    limits = LockLimits(**{setting: 10})  # type: ignore[arg-type]
    assert limits.refusal(growth=1, **counts) is None
    assert limits.refusal(growth=2, **counts) == LimitReached(setting, 10)
    over = {name: value * 2 for name, value in counts.items()}
    assert limits.refusal(growth=0, **over) is None
    assert limits.refusal(growth=-1, **over) is None
    assert limits.refusal(growth=1, **over) == LimitReached(setting, 10)


def test_a_queue_takes_as_many_as_it_says() -> None:
    """[LOCK-6]"""
    limits = LockLimits(max_waiters_per_file=2)
    assert limits.queue_refusal(1) is None
    assert limits.queue_refusal(2) == LimitReached("max_waiters_per_file", 2)


def test_the_defaults_are_those_of_the_requirement() -> None:
    """[LOCK-6], [LOCK-8], [GRACE-1]"""
    limits = LockLimits()
    found = (limits.max_per_file, limits.max_per_client, limits.max_total, limits.max_waiters_per_file)
    assert found == (1_000, 10_000, 100_000, 100)
    assert (limits.blocking_timeout_seconds, limits.grace_seconds) == (0, 90)


def owner(number: int = 0, client: str = "c") -> Owner:
    return Owner(f"o{number}", ClientId(client))


def test_a_verdict_is_told_once_and_only_to_the_same_request() -> None:
    """[LOCK-5]"""
    kept = Remembered()
    kept.keep(owner(), FILE, SPAN, Mode.SHARED, verdict=VERDICT, now=0)
    assert kept.take(owner(), FILE, SPAN, Mode.EXCLUSIVE, now=1) is None
    assert kept.take(owner(), FILE, Span(0, 11), Mode.SHARED, now=1) is None
    assert kept.take(owner(1), FILE, SPAN, Mode.SHARED, now=1) is None
    assert kept.take(owner(client="d"), FILE, SPAN, Mode.SHARED, now=1) is None
    assert kept.take(owner(), FILE, SPAN, Mode.SHARED, now=60) == VERDICT
    assert kept.take(owner(), FILE, SPAN, Mode.SHARED, now=60) is None


def test_a_verdict_is_kept_for_a_minute_at_least_and_not_for_ever() -> None:
    """[LOCK-5]: bounded, at least 60 s."""
    assert KEEP_SECONDS >= 60
    kept = Remembered()
    kept.keep(owner(), FILE, SPAN, Mode.SHARED, verdict=VERDICT, now=0)
    assert kept.take(owner(), FILE, SPAN, Mode.SHARED, now=KEEP_SECONDS) is None
    kept.keep(owner(), FILE, SPAN, Mode.SHARED, verdict=VERDICT, now=0)
    kept.keep(owner(1), FILE, SPAN, Mode.SHARED, verdict=VERDICT, now=10)
    kept.expire(KEEP_SECONDS)
    assert len(kept) == 1


def test_a_verdict_that_is_kept_again_counts_from_then_on() -> None:
    kept = Remembered()
    kept.keep(owner(), FILE, SPAN, Mode.SHARED, verdict=VERDICT, now=0)
    kept.keep(owner(1), FILE, SPAN, Mode.SHARED, verdict=VERDICT, now=50)
    kept.keep(owner(), FILE, SPAN, Mode.SHARED, verdict=LimitReached("max_total", 1), now=100)
    kept.expire(KEEP_SECONDS + 60)
    assert kept.take(owner(), FILE, SPAN, Mode.SHARED, now=KEEP_SECONDS + 60) == LimitReached("max_total", 1)


def test_not_more_is_remembered_than_the_bound() -> None:
    """[LOCK-5]: when full, the oldest goes."""
    kept = Remembered()
    for number in range(MAX_REMEMBERED + 5):
        kept.keep(owner(number), FILE, SPAN, Mode.SHARED, verdict=VERDICT, now=0)
    assert len(kept) == MAX_REMEMBERED
    assert kept.take(owner(4), FILE, SPAN, Mode.SHARED, now=1) is None
    assert kept.take(owner(5), FILE, SPAN, Mode.SHARED, now=1) == VERDICT


def test_a_client_that_is_gone_is_forgotten() -> None:
    kept = Remembered()
    kept.keep(owner(client="c"), FILE, SPAN, Mode.SHARED, verdict=VERDICT, now=0)
    kept.keep(owner(client="d"), FILE, SPAN, Mode.SHARED, verdict=VERDICT, now=0)
    kept.forget_client(ClientId("c"))
    assert kept.take(owner(client="c"), FILE, SPAN, Mode.SHARED, now=1) is None
    assert kept.take(owner(client="d"), FILE, SPAN, Mode.SHARED, now=1) == VERDICT
