"""The judge of the lock torture is judged: it accepts what is right, and finds each kind of wrong."""

from dataclasses import replace

from tests.torture.lock_history import Held, History, Probe, Reclaim, Run, Waited, violations

A = Held("a", "f", 0, 10, is_exclusive=True, since=1.0, until=2.0, freed=2.1)
B = Held("b", "f", 5, 15, is_exclusive=True, since=2.05, until=3.0, freed=3.1)
WAIT = Waited("b", "f", 5, 15, is_exclusive=True, asked=1.5, granted=2.05)


def judge(**parts: object) -> list[str]:
    history = History(**{"runs": [Run(launched=0.0, opened=0.5)], "ended": 100.0, **parts})  # type: ignore[arg-type]
    return violations(history, grace_seconds=3.0, wait_seconds=5.0)


def test_one_after_the_other_is_right() -> None:
    assert judge(held=[A, B], waited=[WAIT]) == []


def test_two_at_once_are_found() -> None:
    [found] = judge(held=[A, replace(B, since=1.9)])
    assert "b and a both held" in found


def test_one_that_was_not_given_back_is_held_for_ever() -> None:
    assert judge(held=[Held("a", "f", 0, 10, is_exclusive=True, since=1.0), B]) != []


def test_a_third_is_found_behind_a_short_one() -> None:
    """Whoever holds for long is not forgotten because somebody else came and went."""
    long = Held("c", "f", 20, 30, is_exclusive=True, since=0.5, until=9.0, freed=9.0)
    assert judge(held=[A, B, long, Held("d", "f", 29, 31, is_exclusive=False, since=8.0, until=8.5)]) != []


def test_readers_other_files_other_bytes_and_the_owner_himself_do_not_conflict() -> None:
    reader = replace(A, is_exclusive=False)
    assert judge(held=[reader, replace(reader, owner="b")]) == []
    assert judge(held=[A, replace(A, owner="b", file="g")]) == []
    assert judge(held=[A, replace(A, owner="b", start=10, end=20)]) == []
    assert judge(held=[A, replace(A, start=5)]) == []
    assert judge(held=[reader, replace(A, owner="b")]) != []


RUNS = [
    Run(launched=0.0, opened=0.5, killed=3.0),
    Run(launched=4.0, killed=5.0),
    Run(launched=6.0, opened=9.5),
]
REFUSED = Reclaim("a", "f", 0, 10, held_in=0, run=2, answered=8.9, is_granted=False)


def test_a_reclaim_refused_in_grace_is_found() -> None:
    assert "refused in grace" in judge(reclaims=[REFUSED], runs=RUNS)[0]
    assert judge(reclaims=[replace(REFUSED, is_granted=True)], runs=RUNS) == []


def test_a_reclaim_that_may_have_come_too_late_proves_nothing() -> None:
    """In its own run, or in one before it that lived longer than grace lasts."""
    assert judge(reclaims=[replace(REFUSED, answered=9.1)], runs=RUNS) == []
    assert judge(reclaims=[REFUSED], runs=[RUNS[0], replace(RUNS[1], launched=1.0), RUNS[2]]) == []


def test_a_lock_that_was_not_reclaimed_in_time_is_not_held_for_certain() -> None:
    """Nor is one before that: only its reclaim shows that it was there all the time."""
    held = replace(A, until=50.0, freed=50.0)
    other = replace(A, owner="b", since=7.1, until=8.0, freed=8.0)
    assert judge(held=[held, other], runs=RUNS) == [], "it could have been reclaimed until 4.0 + 3.0, and was not"
    assert judge(held=[held, replace(other, since=6.9)], runs=RUNS) != []
    assert judge(held=[replace(held, run=2), other], runs=RUNS) != [], "it was reclaimed in the last run"


def test_a_held_lock_that_looks_free_is_found() -> None:
    probe = Probe("f", 0, 1, is_exclusive=True, sent=1.2, answered=1.3, is_free=True)
    assert "were free" in judge(held=[A], probes=[probe])[0]
    assert judge(held=[A], probes=[replace(probe, is_free=False)]) == []
    assert judge(held=[A], probes=[replace(probe, sent=0.9)]) == [], "it may have been asked before it was held"
    assert judge(held=[A], probes=[replace(probe, answered=2.2)]) == [], "it may have been asked afterwards"


def test_a_waiter_that_is_granted_late_is_found() -> None:
    assert judge(held=[A], waited=[replace(WAIT, granted=7.2)]) != []
    assert judge(held=[A], waited=[replace(WAIT, granted=7.0)]) == []


def test_a_waiter_that_is_never_granted_is_found() -> None:
    [found] = judge(held=[A], waited=[Waited("b", "f", 5, 15, is_exclusive=True, asked=1.5)])
    assert "still not granted" in found


def test_who_stands_in_the_way_counts_until_the_server_has_heard_of_the_unlock() -> None:
    assert judge(held=[replace(A, freed=50.0)], waited=[replace(WAIT, granted=54.0)]) == []
    assert judge(held=[replace(A, freed=50.0)], waited=[replace(WAIT, granted=56.0)]) != []


def test_a_blocker_that_came_later_counts_too() -> None:
    later = replace(A, owner="c", since=3.0, until=60.0, freed=60.0)
    assert judge(held=[A, later], waited=[replace(WAIT, granted=64.0)]) == []


def test_what_does_not_conflict_is_no_excuse() -> None:
    other = replace(A, owner="c", start=20, end=30, freed=60.0)
    assert judge(held=[A, other], waited=[replace(WAIT, granted=64.0)]) != []


def test_the_time_without_a_server_and_in_grace_does_not_count() -> None:
    late = replace(WAIT, granted=14.0)
    down = [Run(launched=0.0, opened=0.5, killed=3.0), Run(launched=8.0, opened=10.0)]
    assert judge(held=[A], waited=[late], runs=down) == []
    assert judge(held=[A], waited=[replace(WAIT, granted=15.1)], runs=down) != []
    assert judge(held=[A], waited=[late], runs=[Run(launched=0.0, opened=0.5)]) != []
