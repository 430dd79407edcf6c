"""Handles: made by nobody else, and refused in the right way [NFS-7]."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dittofs.files.handles import HANDLE_BYTES, HandleCodec, share_id_of
from dittofs.model.errors import BadHandle, StaleHandle
from dittofs.model.ids import FileId, ShareId

SHARE = ShareId(b"sharesha")
OTHER = ShareId(b"othersha")
KEY = b"k" * 32

file_ids = st.integers(1, 2**64 - 1).map(FileId)


def codec(share: ShareId = SHARE, key: bytes = KEY, capacity: int = 100) -> HandleCodec:
    return HandleCodec(share, key, capacity=capacity)


@given(file_ids)
def test_a_handle_names_its_file_and_its_share(file: FileId) -> None:
    handle = codec().encode(file)
    assert len(handle) == HANDLE_BYTES <= 64
    assert share_id_of(handle) == SHARE
    assert codec().decode(handle) == file


def test_a_handle_is_the_same_after_a_restart_and_on_another_node() -> None:
    assert codec().encode(FileId(7)) == codec().encode(FileId(7))


@pytest.mark.parametrize("bit", range(HANDLE_BYTES * 8))
def test_one_changed_bit_makes_a_handle_useless(bit: int) -> None:
    """[NFS-7]: a wrong version is bad, everything else is stale."""
    handle = bytearray(codec().encode(FileId(7)))
    handle[bit // 8] ^= 1 << bit % 8
    with pytest.raises(BadHandle if bit < 8 else StaleHandle):
        codec().decode(bytes(handle))


@pytest.mark.parametrize("length", [length for length in range(65) if length != HANDLE_BYTES])
def test_a_wrong_length_is_a_bad_handle(length: int) -> None:
    """[NFS-7]."""
    handle = (codec().encode(FileId(7)) + b"\0" * 64)[:length]
    with pytest.raises(BadHandle):
        codec().decode(handle)
    with pytest.raises(BadHandle):
        share_id_of(handle)


def test_handles_of_another_share_or_key_are_stale() -> None:
    handle = codec().encode(FileId(7))
    with pytest.raises(StaleHandle):
        codec(OTHER).decode(handle)
    with pytest.raises(StaleHandle):
        codec(key=b"K" * 32).decode(handle)


def test_forged_handles_stay_refused_when_tried_again() -> None:
    """What is remembered is only what was accepted."""
    one = codec()
    forged = one.encode(FileId(7))[:-1] + b"\0"
    for _ in range(2):
        with pytest.raises(StaleHandle):
            one.decode(forged)


@given(st.lists(file_ids, max_size=20))
def test_remembering_few_handles_changes_nothing(files: list[FileId]) -> None:
    small, large = codec(capacity=3), codec(capacity=1000)
    for file in files:
        assert small.encode(file) == large.encode(file)
        assert small.decode(large.encode(file)) == file
