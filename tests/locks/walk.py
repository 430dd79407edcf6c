"""Walks through every state that a small world can reach, breadth first, and looks at each step with the model's eyes.

Two states are one if nothing but ids, tickets and the time tell them apart: the order of waiters and offers counts,
the number on them does not.  Owners are as good as each other, and so are files: of the states that differ only by
that, one is walked and all are counted.
"""

import pickle
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import permutations

from dittofs.locks.limits import LockLimits
from dittofs.locks.remembering import KEEP_SECONDS
from dittofs.locks.values import Mode
from tests.locks.checking import Checked, spans
from tests.locks.judging import Shape
from tests.locks.model import EXCLUSIVE, SHARED

Move = Callable[[Checked], object]


@dataclass(frozen=True)
class World:
    """What there is, how many requests may wait or be offered, and what happens besides locking and unlocking."""

    shape: Shape
    max_tickets: int
    modes: tuple[Mode, ...] = (EXCLUSIVE, SHARED)
    with_crashes: bool = False
    with_silence: bool = False
    with_restarts: bool = False
    with_losses: bool = False


State = tuple[object, ...]


def states(world: Checked) -> set[State]:
    """This state without its names, in every way that its owners and files can be exchanged."""
    shape = world.shape
    clients = {client: [o for o in range(shape.owners) if shape.client_of[o] == client] for client in shape.client_of}
    is_plain = all(len(owners) == 1 for owners in clients.values())
    orders = permutations(range(shape.owners)) if is_plain else [tuple(range(shape.owners))]
    files = permutations(range(shape.files)) if len(set(shape.share_of)) == 1 else [tuple(range(shape.files))]
    numbering = list(files)
    return {state(world, owners, order) for owners in orders for order in numbering}


def state(world: Checked, owner: tuple[int, ...], file: tuple[int, ...]) -> State:
    model = world.model
    claims = tuple(
        (ticket in model.offered, ticket in world.foreign, file[c.file], owner[c.owner], c.low, c.high, c.mode.value)
        for ticket, c in sorted({**model.waiting, **model.offered}.items())
    )
    held = tuple(
        sorted(
            (file[f], owner[o], tuple((c.mode.value, c.epoch == model.epoch) if c else () for c in cells))
            for (f, o), cells in model.held.items()
        )
    )
    silent = tuple(sorted(owner[o] for o in range(model.owners) if model.client_of[o] in model.silent))
    return claims, held, silent, bool(world.grace_ends)


def moves(world: Checked, limits: World) -> Iterator[Move]:
    """Everything that can happen next."""
    shape, model = limits.shape, world.model
    for file in range(shape.files):
        for owner in range(shape.owners):
            has_something = (file, owner) in model.held or any(
                (claim.file, claim.owner) == (file, owner) for claim in model.offered.values()
            )
            for low, high in spans(shape.cells):
                if has_something:
                    yield lambda w, f=file, o=owner, a=low, b=high: w.release(f, o, a, b)
                for mode in limits.modes:
                    yield lambda w, f=file, o=owner, a=low, b=high, m=mode: w.acquire(f, o, a, b, m)
                    if len(model.waiting) + len(model.offered) < limits.max_tickets:
                        yield lambda w, f=file, o=owner, a=low, b=high, m=mode: w.acquire(f, o, a, b, m, wait=True)
                    if limits.with_restarts and world.grace_ends:
                        yield lambda w, f=file, o=owner, a=low, b=high, m=mode: w.reclaim(f, o, a, b, m)
                    if limits.with_losses:
                        yield lambda w, f=file, o=owner, a=low, b=high, m=mode: w.lose(lambda: w.acquire(f, o, a, b, m))
                if limits.with_losses:
                    yield lambda w, f=file, o=owner, a=low, b=high: w.lose(lambda: w.release(f, o, a, b))
    for claim in [*model.waiting.values(), *model.offered.values()]:
        yield lambda w, c=claim: w.cancel(c.file, c.owner, c.low, c.high, c.mode)
        yield lambda w, c=claim: w.acquire(c.file, c.owner, c.low, c.high, c.mode, wait=True)
    for ticket in list(model.offered):
        yield lambda w, t=ticket: w.settle(t)
        yield lambda w, t=ticket: w.refuse_offer(t, is_silent=False)
        if limits.with_silence:
            yield lambda w, t=ticket: w.refuse_offer(t, is_silent=True)
    for client in sorted(set(shape.client_of)):
        if limits.with_crashes:
            yield lambda w, c=client: w.client_gone(c)
        if limits.with_silence:
            yield lambda w, c=client: w.hear(c)
    if limits.with_restarts:
        yield lambda w: w.restart()
        yield lambda w: w.end_grace(0)


def walk(limits: World) -> tuple[int, int]:
    """How many states there are, and how many moves were judged."""
    # Grace lasts for ever; what is remembered does not last at all: it would multiply the states and change nothing.
    first = Checked(shape=limits.shape, limits=LockLimits(grace_seconds=10**12))
    seen = states(first)
    unseen = deque([pickle.dumps(first, pickle.HIGHEST_PROTOCOL)])
    as_they_are = tuple(range(limits.shape.owners)), tuple(range(limits.shape.files))
    judged = 0
    while unseen:
        kept = unseen.popleft()
        for move in list(moves(pickle.loads(kept), limits)):
            world: Checked = pickle.loads(kept)
            move(world)
            judged += 1
            if world.remembered:
                world.tick(KEEP_SECONDS)
                world.remembered.clear()
            if (
                state(world, *as_they_are) in seen
                or len({*world.model.waiting, *world.model.offered}) > limits.max_tickets
            ):
                continue
            seen |= states(world)
            unseen.append(pickle.dumps(world, pickle.HIGHEST_PROTOCOL))
    return len(seen), judged
