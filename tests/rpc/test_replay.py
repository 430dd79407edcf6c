"""[NFS-5]  The duplicate request cache: scenarios, and a state machine against a model that forgets nothing early."""

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dittofs.rpc.replay import ENTRY_OVERHEAD, Begun, Key, ReplayCache, key_of


def key(xid: int = 1, *, address: str = "192.0.2.1", port: int = 800, record: bytes = b"call") -> Key:
    return key_of(address, port, xid.to_bytes(4, "big"), record)


def cache(*, answers: int = 4, reply_size: int = 100, max_age_seconds: float = 60) -> ReplayCache:
    return ReplayCache(max_bytes=answers * (reply_size + ENTRY_OVERHEAD), max_age_seconds=max_age_seconds)


def begun(replay: ReplayCache, call: Key, now: float = 0) -> Begun:
    found = replay.begin(call, now)
    assert isinstance(found, Begun), "it is to run"
    return found


def answered(replay: ReplayCache, call: Key, reply: bytes, now: float = 0) -> None:
    replay.finish(begun(replay, call, now), reply, now)


def test_a_retransmission_gets_the_first_answer() -> None:
    replay = cache()
    answered(replay, key(), b"reply")
    assert replay.begin(key(), 1) == b"reply"
    assert replay.begin(key(), 2) == b"reply"


def test_a_duplicate_of_a_call_in_progress_is_dropped() -> None:
    replay = cache()
    first = begun(replay, key(), 0)
    assert replay.begin(key(), 1) is None
    replay.finish(first, b"reply", 2)
    assert replay.begin(key(), 3) == b"reply"


def test_an_abandoned_call_runs_again() -> None:
    replay = cache()
    replay.abandon(begun(replay, key()))
    assert begun(replay, key(), 1)


@pytest.mark.parametrize(
    "other",
    [key(2), key(address="192.0.2.2"), key(port=801), key(record=b"another")],
    ids=["xid", "address", "port", "record"],
)
def test_another_call_is_not_answered_with_it(other: Key) -> None:
    replay = cache()
    answered(replay, key(), b"reply")
    assert begun(replay, other, 1)


def test_answers_are_bounded_in_bytes_and_the_oldest_goes_first() -> None:
    replay = cache(answers=4)
    for xid in range(6):
        answered(replay, key(xid), b"x" * 100)
    assert replay.answers == 4
    assert all(begun(replay, key(xid)) for xid in (0, 1))
    assert [replay.begin(key(xid), 0) for xid in (2, 3, 4, 5)] == [b"x" * 100] * 4


def test_asking_again_does_not_make_an_answer_younger() -> None:
    """Otherwise one client that repeats itself would push out everybody else's answers."""
    replay = cache(answers=2)
    answered(replay, key(1), b"x" * 100)
    answered(replay, key(2), b"x" * 100)
    assert replay.begin(key(1), 0) == b"x" * 100
    answered(replay, key(3), b"x" * 100)
    assert begun(replay, key(1), 0)


def test_a_large_answer_pushes_out_several() -> None:
    replay = cache(answers=4)
    for xid in range(4):
        answered(replay, key(xid), b"x" * 100)
    answered(replay, key(9), b"x" * 200)
    assert replay.answers == 3
    assert replay.begin(key(9), 0) == b"x" * 200


def test_an_answer_larger_than_the_cache_is_not_kept_and_pushes_nobody_out() -> None:
    replay = cache(answers=2)
    answered(replay, key(1), b"x" * 100)
    answered(replay, key(2), b"x" * 5000)
    assert begun(replay, key(2), 0)
    assert replay.begin(key(1), 0) == b"x" * 100


def test_answers_age() -> None:
    replay = cache(max_age_seconds=60)
    answered(replay, key(1), b"1", now=100)
    answered(replay, key(2), b"2", now=130)
    assert replay.begin(key(1), 159.9) == b"1"
    assert begun(replay, key(1), 160)
    assert replay.begin(key(2), 160) == b"2"


def test_age_counts_from_the_answer_not_from_the_call() -> None:
    replay = cache(max_age_seconds=60)
    replay.finish(begun(replay, key()), b"late", 100)
    assert replay.begin(key(), 159) == b"late"


def test_a_call_in_progress_does_not_age_and_is_not_pushed_out() -> None:
    """Forgotten, it would let its duplicate run beside it."""
    replay = cache(answers=1, max_age_seconds=60)
    replay.begin(key(1), 0)
    for xid in range(2, 9):
        answered(replay, key(xid), b"x" * 100, now=1000)
    assert replay.begin(key(1), 2000) is None


@pytest.mark.parametrize("end", [lambda replay, call: replay.finish(call, b"", 0), ReplayCache.abandon])
def test_a_call_ends_once(end: Callable[[ReplayCache, Begun], None]) -> None:
    replay = cache()
    first = begun(replay, key())
    end(replay, first)
    with pytest.raises(AssertionError):
        replay.abandon(first)


class ReplayMachine(RuleBasedStateMachine):
    """Against a list of (key, reply, time), newest last: a kept answer is the last one given to that key, young
    enough, and the kept ones are the newest that fit."""

    keys = st.integers(0, 7).map(key)

    @initialize(answers=st.integers(1, 5), age=st.integers(1, 50))
    def start(self, answers: int, age: int) -> None:
        self.budget = answers * (100 + ENTRY_OVERHEAD)
        self.age = age
        self.replay = ReplayCache(max_bytes=self.budget, max_age_seconds=age)
        self.now = 0
        self.running: dict[Key, Begun] = {}
        self.given: list[tuple[Key, bytes, int]] = []

    def kept(self) -> dict[Key, bytes]:
        """By definition: walk back from the newest while it fits."""
        held, kept = 0, {}
        for call, reply, finished in reversed(self.given):
            held += len(reply) + ENTRY_OVERHEAD
            if held > self.budget or self.now - finished >= self.age:
                break
            kept[call] = reply
        return kept

    @rule(call=keys)
    def begin(self, call: Key) -> None:
        outcome = self.replay.begin(call, self.now)
        if call in self.kept():
            assert outcome == self.kept()[call]
        elif call in self.running:
            assert outcome is None
        else:
            assert isinstance(outcome, Begun)
            self.running[call] = outcome

    def take(self, index: int) -> Begun:
        return self.running.pop(list(self.running)[index % len(self.running)])

    @precondition(lambda self: self.running)
    @rule(index=st.integers(0, 100), reply=st.binary(max_size=300))
    def finish(self, index: int, reply: bytes) -> None:
        call = self.take(index)
        self.replay.finish(call, reply, self.now)
        if len(reply) + ENTRY_OVERHEAD <= self.budget:
            self.given.append((call.key, reply, self.now))

    @precondition(lambda self: self.running)
    @rule(index=st.integers(0, 100))
    def abandon(self, index: int) -> None:
        self.replay.abandon(self.take(index))

    @rule(seconds=st.integers(0, 30))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @invariant()
    def is_bounded(self) -> None:
        assert self.replay.held_bytes <= self.budget
        assert self.replay.in_progress == len(self.running)


TestReplayMachine = ReplayMachine.TestCase
TestReplayMachine.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)
