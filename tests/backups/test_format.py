"""The file of a backup: what is written is read, and nothing else is taken for a backup."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dittofs.backups import format as form
from dittofs.backups.format import BadBackup, Failed, Finished, Name, Node, Piece, ShareHeader, Value

HEADER = ShareHeader(
    name="/export",
    id="00" * 8,
    handle_key="11" * 32,
    fsid=2**64 - 1,
    root=1,
    made_at=1.5,
    made_by="DittoFS",
    files=2,
    names=1,
    content_bytes=2**63 - 1,
    lowest_id=1,
    highest_id=2**63,
)
IDS = st.integers(0, 2**64 - 1)
NODES = st.builds(Node, IDS, *[st.integers(0, 2**63 - 1)] * 10, st.binary(max_size=300), IDS, IDS)
NAMES = st.builds(Name, IDS, st.binary(max_size=255), IDS)
PIECES = st.builds(Piece, IDS, IDS, st.binary(max_size=300).map(memoryview))
KIND_OF = {Node: form.NODE, Name: form.NAME, Piece: form.CONTENT, ShareHeader: form.SHARE, Finished: form.FINISHED}


def written(values: list[Value]) -> bytes:
    summed = form.Summed()
    data = summed.passed(form.MAGIC)
    for value in values:
        data += summed.passed(form.frame(KIND_OF[type(value)], value))
    return data + summed.digest()


def read(data: bytes) -> list[Value]:
    return list(form.read(io.BytesIO(data)))


EXAMPLE = written(
    [HEADER, Node(1, *[2] * 10, b"", 0, 0), Name(1, b"\xff", 2), Piece(2, 0, memoryview(b"hello")), Finished(1)]
)


@given(st.lists(st.one_of(NODES, NAMES, PIECES), max_size=10))
def test_what_is_written_is_read(values: list[Value]) -> None:
    whole = [HEADER, *values, Finished(3)]
    assert read(written(whole)) == whole


def test_a_file_that_ends_too_early_is_refused_wherever_it_ends() -> None:
    for end in range(len(EXAMPLE)):
        with pytest.raises(BadBackup):
            read(EXAMPLE[:end])


def test_a_file_with_one_wrong_bit_is_refused_wherever_it_is() -> None:
    for position in range(len(EXAMPLE)):
        damaged = bytearray(EXAMPLE)
        damaged[position] ^= 1 << position % 8
        with pytest.raises(BadBackup):
            read(bytes(damaged))


def test_what_is_no_backup_is_called_so() -> None:
    with pytest.raises(BadBackup, match="not a backup"):
        read(b"\x7fELF" + bytes(100))
    with pytest.raises(BadBackup, match="version that is not known here"):
        read(EXAMPLE.replace(b"BACKUP 1", b"BACKUP 2"))
    with pytest.raises(BadBackup, match="follows behind its end"):
        read(EXAMPLE + b"x")
    with pytest.raises(BadBackup, match="its end is missing"):
        read(EXAMPLE[:-1])


def test_a_server_that_gave_up_says_why() -> None:
    with pytest.raises(BadBackup, match="gave up: the disk is on fire"):
        read(form.MAGIC + form.frame(form.SHARE, HEADER) + form.frame(form.FAILED, Failed("the disk is on fire")))
