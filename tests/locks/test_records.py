"""A lock as bytes keeps every field, at the full 64 bits [KEEP-2]."""

import dataclasses

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dittofs.locks.recording import decoded, encoded, record_of
from dittofs.locks.spans import END
from dittofs.locks.values import Access, Lock, Mode, Origin, Owner, Reservation
from dittofs.model.ids import ClientId, FileId, FileRef, LockId, ShareName

uint64 = st.one_of(st.integers(0, END - 1), st.sampled_from([0, 2**31, 2**32, 2**63 - 1, 2**63, END - 1]))
uint32 = st.integers(0, 2**32 - 1)
reservations = st.builds(Reservation, st.sampled_from(list(Access)), st.sampled_from(list(Access)))


@st.composite
def locks(draw: st.DrawFn) -> Lock:
    start = draw(uint64)
    mode = draw(st.sampled_from(list(Mode)))
    return Lock(
        id=LockId(draw(uint64)),
        file=FileRef(ShareName(draw(st.text(max_size=8))), FileId(draw(uint64))),
        owner=Owner(
            draw(st.text(max_size=20)), ClientId(draw(st.text(max_size=20))), draw(uint32), draw(st.binary(max_size=16))
        ),
        start=start,
        end=draw(st.one_of(st.integers(start + 1, END), st.just(END))),
        mode=mode,
        acquired_at=draw(st.floats(0, 1e12)),
        origin=Origin(draw(st.text(max_size=8)), draw(uint64)),
        state=draw(uint32),
        reservation=draw(reservations) if mode is Mode.RESERVATION else None,
        was_blocking=draw(st.booleans()),
        is_reclaim=draw(st.booleans()),
        is_offered=draw(st.booleans()),
    )


@settings(max_examples=40, deadline=None)
@given(locks())
def test_every_field_survives(lock: Lock) -> None:
    """[KEEP-2], [LOCK-1]"""
    assert decoded(encoded(lock)) == lock


def test_a_lock_to_the_very_end_reads_back_as_one() -> None:
    """Traps: unsigned offsets in a signed column, a length that reads back as to-EOF."""
    origin = Origin("n", 1)
    file, owner = FileRef(ShareName("/s"), FileId(END - 1)), Owner("o", ClientId("c"), 2**32 - 1, b"\xff")
    for start, end in ((0, END), (END - 1, END), (END - 2, END - 1), (2**63, 2**63 + 1), (2**63 - 1, 2**63)):
        lock = Lock(LockId(END - 1), file, owner, start, end, Mode.EXCLUSIVE, 0.5, origin)
        assert decoded(encoded(lock)).span == (start, end)


def test_no_field_is_left_out() -> None:
    """A field that is added to a lock must be recorded."""
    names = {field.name for field in msgspec.structs.fields(record_of(next_lock()))}
    for field in msgspec.structs.fields(Lock):
        assert field.name in names | {"end", "origin", "reservation", "file", "owner"}
    assert {"last", "node", "epoch", "access", "deny", "share", "file", "owner", "client", "svid", "oh"} <= names


def next_lock() -> Lock:
    file, owner = FileRef(ShareName("/s"), FileId(1)), Owner("o", ClientId("c"))
    return Lock(LockId(1), file, owner, 0, 1, Mode.SHARED, 0.0, Origin("n", 1))


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xc1", encoded(next_lock())[:-1], b"\x93\x01\x02\x03"])
def test_bytes_that_are_no_lock_are_refused(data: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        decoded(data)


def test_the_limits_are_plain_values() -> None:
    """Nothing in the table is changed through a value that came out of it."""
    with pytest.raises((AttributeError, dataclasses.FrozenInstanceError, TypeError)):
        next_lock().start = 5  # type: ignore[misc]
