"""Staying awake for a client that asks again at once, and for no other."""

import asyncio
from collections.abc import Callable

import pytest

from dittofs.net.attention import Attention

SECONDS = 0.0001


class Asked:
    """A loop that only counts what it is asked for, and a clock that is set."""

    def __init__(self) -> None:
        self.now = 100.0
        self.due: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.due.append(callback)

    def run(self) -> None:
        due, self.due = self.due, []
        for callback in due:
            callback()


def attention(loop: Asked, monkeypatch: pytest.MonkeyPatch, seconds: float = SECONDS) -> Attention:
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: loop)
    return Attention(lambda: loop.now, seconds)


def ask(loop: Asked, one: Attention, *, pause: float, times: int = 1) -> None:
    for _ in range(times):
        loop.now += pause
        one.arrived(loop.now)
        one.answered(loop.now)


def test_quick_questions_keep_it_awake_and_silence_lets_it_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Asked()
    one = attention(loop, monkeypatch)
    ask(loop, one, pause=SECONDS / 10, times=30)
    assert len(loop.due) == 1, "once, however often it is asked"
    loop.run()
    assert loop.due, "still awake"
    loop.now += SECONDS
    loop.run()
    assert not loop.due, "asleep"


def test_slow_questions_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Asked()
    one = attention(loop, monkeypatch)
    ask(loop, one, pause=5 * SECONDS, times=100)
    assert not loop.due


def test_one_quick_question_among_slow_ones_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Asked()
    one = attention(loop, monkeypatch)
    for _ in range(20):
        ask(loop, one, pause=1.0, times=5)
        ask(loop, one, pause=0.0)
    assert not loop.due


def test_it_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Asked()
    one = attention(loop, monkeypatch, seconds=0.0)
    ask(loop, one, pause=0.0, times=100)
    assert not loop.due
