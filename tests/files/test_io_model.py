"""Random reads, writes and cuts: with power lost at any step, and side by side."""

import asyncio
from collections.abc import Coroutine
from itertools import accumulate, permutations
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dittofs.files import at_once, io, namespace, recovery
from dittofs.files.io import Stability
from dittofs.files.namespace import CreateMode
from dittofs.files.values import SetAttributes
from dittofs.model.ids import FileId
from tests.files.world import ALICE, SHARE, At, World

LONGEST = 12


class Write(NamedTuple):
    offset: int
    data: bytes
    stability: Stability = Stability.UNSTABLE
    at_once: bool = False


class Cut(NamedTuple):
    size: int


class Read(NamedTuple):
    offset: int
    count: int
    at_once: bool = False


class Commit(NamedTuple):
    pass


Step = Write | Cut | Read | Commit

writes = st.builds(
    Write,
    st.integers(0, LONGEST),
    st.sampled_from([b"A", b"BB", b"CCC", b"DDDD"]),
    st.sampled_from([Stability.UNSTABLE, Stability.UNSTABLE, Stability.FILE_SYNC]),
    st.booleans(),
)
cuts = st.builds(Cut, st.integers(0, LONGEST))
reads = st.builds(Read, st.integers(0, LONGEST), st.integers(1, LONGEST), st.booleans())
steps = st.one_of(writes, writes, cuts, st.just(Commit()))


def applied(content: bytes, step: Step) -> bytes:
    """What a file looks like after a step, in one line of thought."""
    match step:
        case Write(offset, data):
            return content[:offset].ljust(offset, b"\0") + data + content[offset + len(data) :]
        case Cut(size):
            return content[:size].ljust(size, b"\0")
        case _:
            return content


def start(world: World, file: FileId, step: Step) -> Coroutine[Any, Any, Any]:
    world.transactions.now += 1_000
    match step:
        case Write():
            return write(world, file, step)
        case Cut(size):
            return io.truncate(world.volume, ALICE, file, size)
        case Read():
            return read(world, file, step)
        case Commit():
            return io.commit(world.volume, file)


async def write(world: World, file: FileId, step: Write) -> io.WriteResult:
    offset, data, stability, world.content.is_quick = step
    done = at_once.write(world.volume, ALICE, file, offset, data, stability, None)
    return done or await io.write(world.volume, ALICE, file, offset, data, stability)


async def read(world: World, file: FileId, step: Read) -> io.ReadResult:
    offset, count, world.content.is_quick = step
    found = at_once.read(world.volume, ALICE, file, offset, count, None)
    return found or await io.read(world.volume, ALICE, file, offset, count)


def make(world: World) -> FileId:
    created = world.call(namespace.create, ALICE, At(world.root), b"f", SetAttributes(mode=0o644), CreateMode.GUARDED)
    world.transactions.flush()
    file: FileId = created.file.id
    return file


async def whole(world: World, file: FileId) -> bytes:
    return bytes((await io.read(world.volume, ALICE, file, 0, 100)).data)


class Expectation:
    """What a file looks like, and how it may look after a crash: its size is that of one of the versions since it was
    last durable, and each byte is what one of them has there."""

    def __init__(self) -> None:
        self.versions = [b""]

    @property
    def current(self) -> bytes:
        return self.versions[-1]

    def add(self, step: Step) -> None:
        """Count with a step that has begun."""
        if isinstance(step, Cut):
            self.versions += [applied(version, step) for version in self.versions]
        else:
            self.versions.append(applied(self.current, step))

    def finish(self, step: Step) -> None:
        match step:
            case Commit() | Write(stability=Stability.FILE_SYNC):
                self.versions = [self.current]
            case Cut():
                self.versions = self.versions[len(self.versions) // 2 :]

    def allows(self, found: bytes) -> bool:
        if all(len(found) != len(version) for version in self.versions):
            return False
        longest = max(len(version) for version in self.versions)
        padded = [version.ljust(longest, b"\0") for version in self.versions]
        return all(any(version[i] == value for version in padded) for i, value in enumerate(found))


async def live_through(history: list[tuple[Step, int | None, bool]]) -> None:
    world = World()
    file = make(world)
    expected = Expectation()
    for step, turns, cache_survives in history:
        expected.add(step)
        task = asyncio.ensure_future(start(world, file, step))
        if turns is None:
            await task
        else:
            for _ in range(turns):
                await asyncio.sleep(0)
        if task.done():
            task.result()
            expected.finish(step)
            assert await whole(world, file) == expected.current
            assert world.problems({SHARE: world.content}) == []
        if turns is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            world.lose_power(cache_survives=cache_survives)
            await recovery.recover(world.volume)
            found = await whole(world, file)
            assert expected.allows(found), f"{found!r} is none of {expected.versions}"
            assert world.problems({SHARE: world.content}) == []
            expected.versions = [found]


histories = st.lists(
    st.tuples(steps, st.one_of(st.none(), st.none(), st.integers(0, 12)), st.booleans()), min_size=1, max_size=12
)


@given(histories)
@settings(max_examples=40, deadline=None)
def test_what_is_stable_survives_and_nothing_else_appears(history: list[tuple[Step, int | None, bool]]) -> None:
    """[STORE-3]."""
    asyncio.run(live_through(history))


@pytest.mark.slow
@given(histories)
@settings(max_examples=1_500, deadline=None)
def test_what_is_stable_survives_for_long(history: list[tuple[Step, int | None, bool]]) -> None:
    """[STORE-3]."""
    asyncio.run(live_through(history))


async def side_by_side(before: bytes, together: list[tuple[Step, int]]) -> None:
    world = World()
    file = make(world)
    if before:
        await start(world, file, Write(0, before))
    tasks = []
    for step, turns in together:
        tasks.append(asyncio.ensure_future(start(world, file, step)))
        for _ in range(turns):
            await asyncio.sleep(0)
    results = await asyncio.gather(*tasks)
    seen = [bytes(result.data) if isinstance(result, io.ReadResult) else None for result in results]
    end = await whole(world, file)
    changes = [step for step, _ in together if not isinstance(step, Read)]
    histories = [list(accumulate(order, applied, initial=before)) for order in permutations(changes)]
    assert end in {states[-1] for states in histories}, (histories, end)
    states = [state for history in histories for state in history]
    for (step, _), data in zip(together, seen, strict=True):
        if isinstance(step, Read):
            assert data is not None
            assert could_be_read(data, step, states), (data, states)
    await io.commit(world.volume, file)
    world.lose_power()
    await recovery.recover(world.volume)
    assert await whole(world, file) == end
    assert world.problems({SHARE: world.content}) == []


def could_be_read(data: bytes, step: Read, states: list[bytes]) -> bool:
    """A read beside a write may see part of it; but every byte, and the length, come from a state that there was."""
    parts = [state[step.offset : step.offset + step.count] for state in states]
    return any(len(part) == len(data) for part in parts) and all(
        any(part[i : i + 1] == data[i : i + 1] for part in parts) for i in range(len(data))
    )


crowds = st.lists(st.tuples(st.one_of(writes, cuts, reads, st.just(Commit())), st.integers(0, 4)), max_size=4)


@given(st.sampled_from([b"", b"abcdef"]), crowds)
@settings(max_examples=40, deadline=None)
def test_calls_side_by_side_behave_as_if_one_came_after_the_other(
    before: bytes, together: list[tuple[Step, int]]
) -> None:
    asyncio.run(side_by_side(before, together))


@pytest.mark.slow
@given(st.sampled_from([b"", b"abcdef"]), crowds)
@settings(max_examples=1_500, deadline=None)
def test_calls_side_by_side_for_long(before: bytes, together: list[tuple[Step, int]]) -> None:
    asyncio.run(side_by_side(before, together))
