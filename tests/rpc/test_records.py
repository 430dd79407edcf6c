"""Record marking: any cut of the stream gives the same records, and no peer makes us hold more than is allowed."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dittofs.rpc.records import LAST_FRAGMENT, SMALL_PART, Reassembler, RecordError, frame, mark_of


def reassembler(*, max_record_size: int = 1 << 20, max_fragments: int = 1024) -> Reassembler:
    return Reassembler(max_record_size=max_record_size, max_fragments=max_fragments)


def fragment(data: bytes, *, is_last: bool) -> bytes:
    return (len(data) | (LAST_FRAGMENT if is_last else 0)).to_bytes(4) + data


def fragmented(record: list[bytes]) -> bytes:
    return b"".join(fragment(part, is_last=index == len(record) - 1) for index, part in enumerate(record))


def fed_in_pieces(stream: bytes, cuts: list[int], into: Reassembler) -> list[bytes]:
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    return [record for start, end in itertools.pairwise(edges) for record in into.feed(stream[start:end])]


records_in_fragments = st.lists(st.lists(st.binary(max_size=20), min_size=1, max_size=4), max_size=5)


@given(records=records_in_fragments, cuts=st.lists(st.integers(0, 10_000), max_size=12))
def test_any_cut_gives_the_same_records(records: list[list[bytes]], cuts: list[int]) -> None:
    """[NFS-6]"""
    stream = b"".join(fragmented(record) for record in records)
    into = reassembler()
    assert fed_in_pieces(stream, cuts, into) == [b"".join(record) for record in records]
    assert into.held == 0


@given(records=records_in_fragments)
def test_byte_by_byte(records: list[list[bytes]]) -> None:
    """[NFS-6]"""
    stream = b"".join(fragmented(record) for record in records)
    assert fed_in_pieces(stream, [*range(len(stream))], reassembler()) == [b"".join(record) for record in records]


@given(records=st.lists(st.binary(max_size=50), max_size=5))
def test_what_is_framed_comes_back(records: list[bytes]) -> None:
    assert reassembler().feed(b"".join(map(frame, records))) == records


def test_records_are_bytes_however_they_came() -> None:
    stream = frame(b"x" * (3 * SMALL_PART))
    for cuts in ([], [10], [4 + SMALL_PART], [4 + SMALL_PART, 14 + SMALL_PART, 20 + SMALL_PART]):
        (record,) = fed_in_pieces(stream, cuts, reassembler())
        assert type(record) is bytes
        assert record == stream[4:]


def test_a_frame_is_the_bytes_of_the_rfc() -> None:
    assert frame(b"abc") == bytes.fromhex("80000003 616263")
    assert mark_of(2**31 - 1) == bytes.fromhex("ffffffff")
    with pytest.raises(ValueError, match="one fragment holds"):
        mark_of(2**31)


class TestLimits:
    """[NFS-6]  An oversized record or endless fragments close the connection."""

    def test_the_largest_record_passes(self) -> None:
        into = reassembler(max_record_size=10)
        assert into.feed(frame(b"0123456789")) == [b"0123456789"]
        assert into.feed(fragmented([b"01234", b"56789"])) == [b"0123456789"]

    def test_an_oversized_record_is_refused_at_its_mark(self) -> None:
        with pytest.raises(RecordError, match="at least 11 bytes, allowed are 10"):
            reassembler(max_record_size=10).feed(mark_of(11))

    def test_also_if_it_is_all_there(self) -> None:
        with pytest.raises(RecordError, match="allowed are 10"):
            reassembler(max_record_size=10).feed(frame(b"x" * 11))

    def test_fragments_count_together(self) -> None:
        into = reassembler(max_record_size=10)
        into.feed(fragment(b"123456", is_last=False))
        with pytest.raises(RecordError, match="at least 11 bytes"):
            into.feed(fragment(b"12345", is_last=True))

    def test_the_size_counts_anew_for_each_record(self) -> None:
        into = reassembler(max_record_size=10)
        for _ in range(5):
            assert into.feed(fragmented([b"12345", b"6789"])) == [b"123456789"]

    def test_the_greatest_claim(self) -> None:
        with pytest.raises(RecordError):
            reassembler().feed(b"\xff\xff\xff\xff")

    @pytest.mark.parametrize("part", [b"", b"x"])
    def test_endless_fragments(self, part: bytes) -> None:
        into = reassembler(max_fragments=8)
        assert into.feed(fragment(part, is_last=False) * 8) == []
        with pytest.raises(RecordError, match="more than 8 fragments"):
            into.feed(fragment(part, is_last=False))

    def test_as_many_fragments_as_are_allowed(self) -> None:
        into = reassembler(max_fragments=8)
        for _ in range(3):
            assert into.feed(fragmented([b"x"] * 8)) == [b"x" * 8]

    def test_records_before_the_bad_one_in_the_same_piece_are_lost_with_the_stream(self) -> None:
        with pytest.raises(RecordError):
            reassembler(max_record_size=10).feed(frame(b"fine") + mark_of(11))

    @given(noise=st.lists(st.binary(max_size=30), max_size=10))
    def test_noise_gives_records_or_the_error_and_never_holds_more_than_a_record(self, noise: list[bytes]) -> None:
        into = reassembler(max_record_size=64, max_fragments=4)
        try:
            for piece in noise:
                for record in into.feed(piece):
                    assert len(record) <= 64
                assert into.held <= 64 + 3
        except RecordError:
            pass

    def test_a_record_of_single_bytes_is_not_held_as_single_objects(self) -> None:
        into = reassembler()
        into.feed(mark_of(100_000))
        for _ in range(1000):
            into.feed(b"x")
        assert into.held == 1000
        assert into.feed(b"x" * 99_000) == [b"x" * 100_000]
