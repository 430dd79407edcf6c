"""A record in, an answer out: finds the procedure, runs it, and turns whatever happens into a reply.

The only place that turns exceptions into replies.  A plain handler answers before `serve` returns; a coroutine is
stepped once at once, and becomes a task only if it really has to wait.
"""

import asyncio
import struct
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

import structlog

from dittofs.metrics.counting import ProcedureCounts
from dittofs.model.errors import FileError
from dittofs.model.later import Later, Resumed
from dittofs.rpc.credentials import CallReader, Credentials
from dittofs.rpc.messages import (
    CREDENTIAL_START,
    SUCCESS_TAIL,
    CallRefused,
    ReplyReceived,
    accept_stat,
    accepted,
    auth_stat,
    mismatch_info,
    refused_credentials,
)
from dittofs.rpc.program import AuthenticationRefused, Call, MustWait, NoAnswer, Peer, Procedure, Program
from dittofs.rpc.remembering import (
    SERIES_BYTES,
    AnswerMemory,
    Answers,
    Remembered,
    Repeat,
    Series,
    Witness,
    question_of,
)
from dittofs.rpc.replay import Begun, ReplayCache, key_of
from dittofs.rpc.statuses import OK, status_reader
from dittofs.rpc.unfinished import BegunCoroutine, LateResult
from dittofs.xdr.errors import XdrError
from dittofs.xdr.types import Chunks, arm_encoder, codec_of

log = structlog.get_logger()

Deliver = Callable[[Chunks | None], None]
"""Takes the answer of a call that was not answered at once; None if there will never be one."""


HEADS_KEPT: Final = 4096

_word_at: Final = struct.Struct(">I").unpack_from

RESULT_AT: Final = 4 + len(SUCCESS_TAIL)
"""Where the result of an answer begins."""


class _Entry:
    """A procedure with what the server bound to it, laid out for speed."""

    __slots__ = (
        "counts",
        "decode",
        "encode",
        "encode_failure",
        "failure",
        "handler",
        "has_cookie",
        "is_async",
        "is_lasting",
        "is_replayed",
        "is_replayed_over_udp",
        "name",
        "services",
        "status_of",
        "success_status_of",
    )

    def __init__(self, program: Program, procedure: Procedure, services: Any):
        self.name = f"{program.name}.{procedure.name}"
        self.decode = codec_of(procedure.arguments).decode
        self.encode_failure = self.encode = codec_of(procedure.result).encode
        if procedure.success is not None:
            self.encode = arm_encoder(procedure.result, procedure.success)
        self.failure = procedure.failure
        self.handler = procedure.handler
        self.is_async = procedure.is_async
        self.is_lasting = procedure.is_lasting
        self.has_cookie = procedure.has_cookie
        self.is_replayed = procedure.is_replayed
        self.is_replayed_over_udp = procedure.is_replayed_over_udp
        self.services = services
        self.counts = ProcedureCounts(program.name, procedure.name)
        self.status_of = status_reader(procedure.result)
        self.success_status_of = None if procedure.success is not None else self.status_of


class Dispatcher:
    """All programs that one set of sockets serves."""

    def __init__(self, *, replay: ReplayCache, clock: Callable[[], float], reader: CallReader | None = None):
        self.reader = reader or CallReader()
        self._replay = replay
        self._clock = clock
        self._entries: dict[tuple[int, int, int], _Entry] = {}
        self._heads: dict[bytes, tuple[_Entry, Credentials]] = {}
        self._versions: dict[int, set[int]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._arrived = clock()
        self._in_batch: list[ProcedureCounts] = []
        self.refused = 0
        """Calls of programs, versions and procedures that are not served, and with credentials that nobody knows."""
        self.replayed = 0
        self.remembered = 0
        """Calls that were answered as before, because nothing had changed."""
        self.memory = AnswerMemory()

    @property
    def counts(self) -> list[ProcedureCounts]:
        """What happened to the calls of each procedure."""
        return [entry.counts for entry in self._entries.values()]

    def begin_batch(self, now: float) -> None:
        """Whatever is served from now on has arrived at this moment."""
        self._arrived = now

    def end_batch(self, now: float) -> None:
        """The answers that are there already have left at this moment."""
        if self._in_batch:
            seconds = now - self._arrived
            for counts in self._in_batch:
                counts.end_batch(seconds)
            self._in_batch.clear()

    def add(self, program: Program, services: Any) -> None:
        """Serve a program; `services` is what its handlers find in their call."""
        self._versions.setdefault(program.number, set()).add(program.version)
        for number, procedure in program.procedures.items():
            self._entries[(program.number, program.version, number)] = _Entry(program, procedure, services)

    async def drain(self) -> None:
        """Wait for the calls that are still under way."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def answer_present(self, seconds: float) -> bool:
        """Wait, but not for longer, for the calls that are under way now; others may come meanwhile.  False if some of
        them are still under way."""
        present = set(self._tasks)
        return not present or not (await asyncio.wait(present, timeout=seconds))[1]

    def count_remembered(self, counts: ProcedureCounts, answers: int = 1) -> None:
        """So many answers were given out of the memory."""
        self.remembered += answers
        counts.ok += answers
        if not counts.in_batch:
            self._in_batch.append(counts)
        counts.in_batch += answers

    def go_on(self, series: Series, rest: bytes, out: Chunks) -> int:
        """Append what is left of the answer to the next question of a series; how long that is, or 0 if it has to be
        served as any other."""
        try:
            return series.again(rest, out)
        except Exception:  # whatever it is, it happens again where an answer is made of it
            return 0

    def serve(
        self, record: bytes | memoryview, peer: Peer, deliver: Deliver, answers: Answers | None = None
    ) -> Chunks | None:
        """The answer to a record, if there is one yet; otherwise `deliver` gets it later, or None at once.  What may be
        told again is added to `answers`.

        Raises XdrError if the record is not a call at all: there is nobody to answer.
        """
        # A client's calls of one procedure begin alike, but for the xid: what was found once is found by those bytes.
        try:
            (length,) = _word_at(record, CREDENTIAL_START + 4)
        except struct.error:
            length = 0
        position = CREDENTIAL_START + 16 + (length + 3 & ~3)
        known = self._heads.get(bytes(record[4:position]))
        if known is None:
            try:
                known, position = self._read_head(record)
            except CallRefused as refusal:
                self.refused += 1
                return [refusal.reply]
            except ReplyReceived:
                deliver(None)  # to a call of our own that needs none (`Peer.send`)
                return None
        entry, credentials = known
        try:
            arguments, end = entry.decode(record, position)
        except XdrError:
            entry.counts.count("garbage_args")
            return [accepted(_number(record[:4]), accept_stat.GARBAGE_ARGS)]
        call = Call(bytes(record[:4]), peer, credentials, entry.services)
        call.is_remembered = answers is not None
        if entry.is_lasting and answers is not None:
            call.is_asked_again = self.memory.is_asked_again(bytes(record[4:]))
        elif entry.has_cookie and answers is not None:
            question = question_of(bytes(record), position, len(arguments.cookie))
            if question is not None:
                call.question = question
                call.is_asked_again = self.memory.is_asked_again(question.text)
        if entry.is_replayed or (entry.is_replayed_over_udp and peer.transport == "udp"):
            reply = self._serve_once(entry, record, call, arguments, deliver)
        elif entry.is_async:
            reply = self._step(entry, call, arguments, entry.handler(call, arguments), deliver)
        else:
            reply = self._now_or_held(entry, call, arguments, self._answer(entry, call, arguments), deliver)
        if reply is not None:
            counts = entry.counts
            if not counts.in_batch:
                self._in_batch.append(counts)
            counts.in_batch += 1
            if answers is not None and call.witness is not None:
                self._keep_answer(entry, record, end, call, call.witness, reply, answers)
        return reply

    def _keep_answer(
        self,
        entry: _Entry,
        record: bytes | memoryview,
        end: int,
        call: Call,
        witness: Witness,
        reply: Chunks,
        answers: Answers,
    ) -> None:
        """It may be told again, or leads on to the next ones."""
        if call.again is None:
            self.memory.keep(answers, bytes(record[4:]), Remembered(b"".join(reply)[4:], witness, entry.counts))
        elif end == len(record):
            beginning = bytes(record[4:-SERIES_BYTES])
            series = Series(beginning, call.again, witness, entry.counts, before=SUCCESS_TAIL)
            self.memory.keep_series(call.peer.address, series)

    def _read_head(self, record: bytes | memoryview) -> tuple[tuple[_Entry, Credentials], int]:
        """What a call asks for, and where its arguments are.  Raises CallRefused with the answer if it gets none."""
        xid, program, version, number, credentials, position = self.reader.read(record)
        entry = self._entries.get((program, version, number))
        if entry is None:
            raise CallRefused(self._no_such_procedure(xid, program, version), "no such procedure")
        head = (entry, credentials)
        if self.reader.knows(bytes(record[CREDENTIAL_START:position])):
            if len(self._heads) >= HEADS_KEPT:
                del self._heads[next(iter(self._heads))]  # the oldest
            self._heads[bytes(record[4:position])] = head
        return head, position

    # One call.

    def _answer(self, entry: _Entry, call: Call, arguments: Any) -> Chunks | None:
        try:
            return self._reply(entry, call, entry.handler(call, arguments))
        except Later as later:
            call.hold = LateResult(later)
            return None
        except MustWait as wait:
            call.hold = BegunCoroutine(wait.coroutine)
            return None
        except Exception as error:  # everything that can go wrong becomes a reply here
            return self._error_reply(entry, call, arguments, error)

    def _reply(self, entry: _Entry, call: Call, result: Any) -> Chunks:
        out: Chunks = [call.xid + SUCCESS_TAIL]
        entry.encode(out, result)
        if entry.success_status_of is None:
            entry.counts.ok += 1
        else:
            status = entry.success_status_of(result)
            entry.counts.count(status)
            if call.doing is not None:
                self._keep_doing(entry, call, out, status)
        return out

    def _error_reply(self, entry: _Entry, call: Call, arguments: Any, error: Exception) -> Chunks | None:
        if isinstance(error, FileError) and entry.failure is not None:
            try:
                out: Chunks = [call.xid + SUCCESS_TAIL]
                result = entry.failure(call, arguments, error)
                entry.encode_failure(out, result)
                entry.counts.count(OK if entry.status_of is None else entry.status_of(result))
                return out
            except Exception as second:  # a fault while telling of a fault
                error = second
        if isinstance(error, NoAnswer):
            entry.counts.count("no_answer")
            return None
        if isinstance(error, AuthenticationRefused):
            entry.counts.count("auth_tooweak")
            return [refused_credentials(_number(call.xid), auth_stat.AUTH_TOOWEAK)]
        entry.counts.count("system_err")
        log.error("call failed", procedure=entry.name, client=call.peer.address, exc_info=error)
        return [accepted(_number(call.xid), accept_stat.SYSTEM_ERR)]

    def _no_such_procedure(self, xid: int, program: int, version: int) -> bytes:
        versions = self._versions.get(program)
        if versions is None:
            return accepted(xid, accept_stat.PROG_UNAVAIL)
        if version not in versions:
            return accepted(xid, accept_stat.PROG_MISMATCH, mismatch=mismatch_info(min(versions), max(versions)))
        return accepted(xid, accept_stat.PROC_UNAVAIL)

    # Calls that come again with another cookie.

    def _keep_doing(self, entry: _Entry, call: Call, out: Chunks, status: str) -> None:
        """The same question may be asked again: keep who can do what it asks, and what it is answered with."""
        question, doing = call.question, call.doing
        if question is None or doing is None:
            return
        cookie = question.cookie
        tail = b"".join(out)[RESULT_AT + len(cookie) :]
        repeat = Repeat(doing, before=SUCCESS_TAIL, cookie=cookie, tail=tail, counts=entry.counts, status=status)
        self.memory.keep_repeat(call.peer, question, repeat)

    def count_repeated(self, repeat: Repeat) -> None:
        """What it asks was done once more, and is answered at once."""
        counts = repeat.counts
        counts.statuses[repeat.status] += 1  # the first one has been counted
        if not counts.in_batch:
            self._in_batch.append(counts)
        counts.in_batch += 1

    def count_held(self, repeats: Sequence[Repeat], arrived: float) -> None:
        """The same of some whose answers had to wait since then."""
        seconds = self._clock() - arrived
        for repeat in repeats:
            repeat.counts.count(repeat.status)
            repeat.counts.durations.observe(seconds)

    @property
    def arrived(self) -> float:
        """When what is being served now has arrived."""
        return self._arrived

    def fail_repeated(self, record: bytes, peer: Peer, error: FileError) -> Chunks | None:
        """What it asks was done once more, and that was lost."""
        (entry, credentials), position = self._read_head(record)
        call = Call(record[:4], peer, credentials, entry.services)
        return self._error_reply(entry, call, entry.decode(record, position)[0], error)

    # Answers that come later.

    def _now_or_held(
        self, entry: _Entry, call: Call, arguments: Any, reply: Chunks | None, deliver: Deliver
    ) -> Chunks | None:
        if call.hold is not None:
            return self._hold(entry, call, arguments, reply, deliver)
        if reply is None:
            deliver(None)
        return reply

    def _hold(self, entry: _Entry, call: Call, arguments: Any, reply: Chunks | None, deliver: Deliver) -> Chunks | None:
        """Keep the answer until what it tells of is durable."""
        hold, call.hold = call.hold, None
        assert hold is not None, "nothing to wait for"
        if isinstance(hold, LateResult):
            self._answer_later(entry, call, arguments, hold.later, deliver)
            return None
        if isinstance(hold, BegunCoroutine):
            return self._step(entry, call, arguments, hold.coroutine, deliver)
        arrived = self._arrived

        def settled(error: FileError | None) -> None:
            entry.counts.durations.observe(self._clock() - arrived)
            if error is None:
                deliver(reply)
                return
            late = self._error_reply(entry, call, arguments, error)
            call.hold = None
            deliver(late)

        hold.when_settled(settled)
        return None

    def _answer_later(self, entry: _Entry, call: Call, arguments: Any, later: Later, deliver: Deliver) -> None:
        """Let the result be found out, and answer with it."""
        arrived = self._arrived

        def done(result: Any, error: Exception | None) -> None:
            entry.counts.durations.observe(self._clock() - arrived)
            if error is None:
                deliver(self._answer_with(entry, call, arguments, result))
            else:
                deliver(self._error_reply(entry, call, arguments, error))

        later.when_done(done)

    def _step(
        self, entry: _Entry, call: Call, arguments: Any, coroutine: Coroutine[Any, Any, Any], deliver: Deliver
    ) -> Chunks | None:
        """Run a coroutine as far as it goes without waiting."""
        try:
            waits_for = coroutine.send(None)
        except StopIteration as stop:
            reply: Chunks | None = self._answer_with(entry, call, arguments, stop.value)
        except Exception as error:  # as in _answer
            reply = self._error_reply(entry, call, arguments, error)
        else:
            rest = Resumed(coroutine, waits_for)
            task = asyncio.ensure_future(self._finish(entry, call, arguments, rest, deliver, self._arrived))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return None
        return self._now_or_held(entry, call, arguments, reply, deliver)

    async def _finish(
        self, entry: _Entry, call: Call, arguments: Any, rest: Resumed, deliver: Deliver, arrived: float
    ) -> None:
        try:
            reply: Chunks | None = self._answer_with(entry, call, arguments, await rest)
        except Exception as error:  # as in _answer
            reply = self._error_reply(entry, call, arguments, error)
        if call.hold is None:
            entry.counts.durations.observe(self._clock() - arrived)
            deliver(reply)
        else:
            self._arrived = arrived
            self._hold(entry, call, arguments, reply, deliver)

    def _answer_with(self, entry: _Entry, call: Call, arguments: Any, result: Any) -> Chunks | None:
        try:
            return self._reply(entry, call, result)
        except Exception as error:  # a result that cannot be encoded
            return self._error_reply(entry, call, arguments, error)

    # Calls that must not run twice [NFS-5].

    def _serve_once(
        self, entry: _Entry, record: bytes | memoryview, call: Call, arguments: Any, deliver: Deliver
    ) -> Chunks | None:
        peer = call.peer
        now = self._clock()
        begun = self._replay.begin(key_of(peer.address, peer.port, call.xid, bytes(record)), now)
        if begun is None:
            deliver(None)  # the first one is still under way, and will be answered
            return None
        if not isinstance(begun, Begun):
            self.replayed += 1
            return [begun]
        if entry.is_async:
            keep = self._keeping(begun, deliver)
            answer = self._step(entry, call, arguments, entry.handler(call, arguments), keep)
        else:
            answer = self._answer(entry, call, arguments)
            if answer is None or call.hold is not None:
                keep = self._keeping(begun, deliver)
                answer = self._now_or_held(entry, call, arguments, answer, keep)
        if answer is None:
            return None
        joined = b"".join(answer)
        self._replay.finish(begun, joined, now)
        return [joined]

    def _keeping(self, begun: Begun, deliver: Deliver) -> Deliver:
        """What takes an answer that comes later, and keeps it."""

        def deliver_and_keep(reply: Chunks | None) -> None:
            if reply is None:
                self._replay.abandon(begun)
            else:
                joined = b"".join(reply)
                reply = [joined]
                self._replay.finish(begun, joined, self._clock())
            deliver(reply)

        return deliver_and_keep


def _number(xid: bytes | memoryview) -> int:
    return int.from_bytes(xid, "big")
