"""Answers that are told again: bounded, per client, and only while their witness stands by them."""

from dittofs.rpc.dispatch import Dispatcher
from dittofs.rpc.program import Peer
from dittofs.rpc.remembering import (
    ANSWER_BYTES_MAX,
    QUESTION_BYTES_MAX,
    QUESTIONS_NOTED,
    AnswerMemory,
    Question,
    Remembered,
    Repeat,
    Series,
    question_of,
)
from dittofs.rpc.replay import ReplayCache
from dittofs.xdr.types import Chunks


class Anyone:
    def is_unchanged(self) -> bool:
        return True


def answer(tail: bytes = b"tail") -> Remembered:
    return Remembered(tail, Anyone(), None)


def test_clients_do_not_share_answers() -> None:
    memory = AnswerMemory()
    memory.keep(memory.of("192.0.2.1"), b"question", answer())
    assert memory.of("192.0.2.1") is memory.of("192.0.2.1")
    assert not memory.of("192.0.2.2")


def test_memory_is_bounded_over_all_clients() -> None:
    memory = AnswerMemory(limit=10)
    for number in range(100):
        memory.keep(memory.of(f"192.0.2.{number % 3}"), b"%d" % number, answer())
        assert 0 < len(memory) <= 10


def test_keeping_the_same_again_needs_no_room() -> None:
    memory = AnswerMemory(limit=2)
    answers = memory.of("192.0.2.1")
    memory.keep(answers, b"first", answer())
    for _ in range(10):
        memory.keep(answers, b"second", answer())
    assert set(answers) == {b"first", b"second"}


def test_client_that_leaves_makes_room() -> None:
    memory = AnswerMemory(limit=2)
    for client in ("192.0.2.1", "192.0.2.2"):
        for number in range(2):
            memory.keep(memory.of(client), b"%d" % number, answer())
        assert len(memory) == 2
        memory.leave(client)
        assert len(memory) == 0


class Reader:
    before = b""

    def again(self, rest: bytes, out: Chunks) -> int:
        out.append(rest)
        return len(rest)


def series(beginning: bytes) -> Series:
    return Series(beginning, Reader(), Anyone(), None, before=b"")


def test_series_share_the_room_of_answers() -> None:
    memory = AnswerMemory(limit=4)
    kept = memory.series_of("192.0.2.1")
    answers = memory.of("192.0.2.1")
    for number in range(10):
        memory.keep(answers, b"%d" % number, answer())
        memory.keep_series("192.0.2.1", series(b"%d" % number))
        assert 0 < len(memory) <= 4
    memory.forget()
    assert not kept
    assert len(memory) == 0


def test_series_go_with_their_client() -> None:
    memory = AnswerMemory()
    memory.keep_series("192.0.2.1", series(b"nobody is connected"))
    memory.series_of("192.0.2.1")
    memory.keep_series("192.0.2.1", series(b"beginning"))
    memory.keep_series("192.0.2.1", series(bytes(QUESTION_BYTES_MAX + 1)))
    assert len(memory) == 1
    memory.leave("192.0.2.1")
    assert len(memory) == 0


def test_large_questions_and_answers_are_not_kept() -> None:
    memory = AnswerMemory()
    answers = memory.of("192.0.2.1")
    memory.keep(answers, bytes(QUESTION_BYTES_MAX + 1), answer())
    memory.keep(answers, b"question", answer(bytes(ANSWER_BYTES_MAX + 1)))
    assert not answers


def test_what_is_asked_once_is_not_worth_keeping_and_little_is_noted_of_it() -> None:
    memory = AnswerMemory()
    assert not memory.is_asked_again(b"question")
    assert memory.is_asked_again(b"question")
    for number in range(QUESTIONS_NOTED):
        memory.is_asked_again(b"%d" % number)
    assert not memory.is_asked_again(b"question")


def test_forgetting_reaches_those_who_hold_on_to_their_answers() -> None:
    memory = AnswerMemory()
    answers = memory.of("192.0.2.1")
    memory.keep(answers, b"question", answer())
    memory.forget()
    assert not answers


def test_series_that_breaks_off_is_served_as_any_other_call() -> None:
    """Whatever goes wrong is told where calls are answered; here it must not reach the connection."""
    dispatcher = Dispatcher(replay=ReplayCache(max_bytes=1, max_age_seconds=1.0), clock=lambda: 0.0)

    class Broken(Reader):
        def again(self, rest: bytes, out: Chunks) -> int:
            raise OSError("the disk is gone")

    assert not dispatcher.go_on(Series(b"", Broken(), Anyone(), None, before=b""), bytes(12), [])
    assert dispatcher.remembered == 0


class Nobody:
    """Does nothing more than once."""

    hold = None

    def again(self) -> bool:
        return False


def repeat() -> Repeat:
    return Repeat(Nobody(), before=b"before", cookie=b"\0\0\0\4cook", tail=b"tail", counts=None, status="granted")


def peer(port: int) -> Peer:
    return Peer(address="192.0.2.1", port=port, local_address="192.0.2.9", transport="tcp", is_loopback=False)


def test_a_question_is_found_without_its_cookie_and_transaction_id() -> None:
    record = b"xid.head\0\0\0\4cookrest"
    found = question_of(record, 8, 4)
    assert found == Question(b"headrest", b"\0\0\0\4cook", 8)
    assert question_of(b"xid.head\0\0\0\3coo\0rest", 8, 3) is None, "what is padded is not told back"


def test_repeats_are_of_one_connection_and_bounded_over_all() -> None:
    memory = AnswerMemory(limit=4)
    peers = [peer(port) for port in range(3)]
    kept = [memory.repeats_of(each) for each in peers]
    for number in range(20):
        question = Question(b"%d" % number, b"\0\0\0\4cook", 84)
        memory.keep_repeat(peers[number % 2], question, repeat())
        assert question.text in kept[number % 2].by_question
        assert 0 < len(memory) <= 4
    assert not kept[2].by_question
    assert (kept[0].args_at, kept[0].rest_at) == (84, 92)
    assert repeat().cookie_length == b"\0\0\0\4"
    memory.end(peers[0])
    memory.end(peers[1])
    assert len(memory) == 0
    memory.keep_repeat(peers[0], Question(b"late", b"\0\0\0\0", 84), repeat())
    memory.keep_repeat(peers[2], Question(bytes(QUESTION_BYTES_MAX + 1), b"\0\0\0\0", 84), repeat())
    assert len(memory) == 0
