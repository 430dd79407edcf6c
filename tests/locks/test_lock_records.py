"""A lock as bytes: whatever it says comes back [KEEP-2]."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dittofs.locks.keeping import LOCKS
from dittofs.locks.values import Lock, Mode, Origin, Owner
from dittofs.testing.lock_suite import lock

LOCK = st.builds(
    lock,
    number=st.integers(1, 2**64 - 1),
    file=st.integers(1, 2**64 - 1),
    owner=st.builds(Owner, st.text(), st.text(), st.integers(0, 2**32 - 1), st.binary(max_size=1024)),
    start=st.integers(0, 2**64 - 1),
    end=st.integers(1, 2**64),
    mode=st.sampled_from([Mode.SHARED, Mode.EXCLUSIVE]),
    acquired_at=st.floats(0, 2**40),
    origin=st.builds(Origin, st.text(), st.integers(0, 2**63)),
    state=st.integers(0, 2**32 - 1),
    was_blocking=st.booleans(),
    is_reclaim=st.booleans(),
    is_offered=st.booleans(),
)


@pytest.mark.slow
@given(held=LOCK, share=st.binary(min_size=8, max_size=8))
def test_any_lock_comes_back_as_it_was(held: Lock, share: bytes) -> None:
    """[KEEP-2], [LOCK-1]"""
    key = (share, held.file.file, held.id)
    assert LOCKS.decode(LOCKS.encode(held)) == held
    assert LOCKS.unpack(LOCKS.pack(key)) == key


@pytest.mark.slow
@given(first=st.tuples(*[st.integers(0, 2**64 - 1)] * 2), second=st.tuples(*[st.integers(0, 2**64 - 1)] * 2))
def test_keys_are_in_the_order_of_files_and_locks(first: tuple[int, int], second: tuple[int, int]) -> None:
    """So that the locks of one file are neighbours, and no other's are among them."""
    packed = [LOCKS.pack((b"share-id", *numbers)) for numbers in (first, second)]
    assert (packed[0] < packed[1]) is (first < second)
