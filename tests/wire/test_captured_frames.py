"""[NFS-6]: frames of real clients and of our answers to them, as they went over the wire."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dittofs.rpc.messages import rpc_msg
from dittofs.rpc.records import Reassembler, frame
from dittofs.xdr.errors import XdrError
from dittofs.xdr.types import codec_of, decode_exactly
from tests.fuzz.targets import Dispatching
from tests.wire.frames import Frame, decoded, encoded_again, text_of

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("*.bin"))
FRAMES = [pytest.param(Frame(file.stem, file.read_bytes()), id=file.stem) for file in FILES]

every_frame = pytest.mark.parametrize("captured", FRAMES)


def test_there_are_frames_of_every_protocol() -> None:
    programs = {file.name.split("-")[0] for file in FILES}
    assert {"NFS", "MOUNT", "PORTMAP", "NLM", "NSM"} <= programs
    nfs = {file.stem.split("-")[2] for file in FILES if file.name.startswith("NFS-3-")}
    assert len({name.split(".")[0] for name in nfs}) >= 20, "the kernel's client uses nearly all of them"


@every_frame
def test_it_says_what_was_written_down(captured: Frame) -> None:
    assert text_of(captured) == (HERE / f"{captured.name}.txt").read_text()


@every_frame
def test_it_is_encoded_to_the_same_bytes(captured: Frame) -> None:
    assert encoded_again(captured) == captured.record


@every_frame
def test_it_is_read_whole_and_byte_by_byte(captured: Frame) -> None:
    stream = frame(captured.record) * 2
    for size in (1, 7, len(stream)):
        reassembler = Reassembler(max_record_size=4096)
        found = [
            record for start in range(0, len(stream), size) for record in reassembler.feed(stream[start : start + size])
        ]
        assert found == [captured.record] * 2


@every_frame
def test_cut_short_it_is_refused(captured: Frame) -> None:
    for end in range(len(captured.record)):
        with pytest.raises(XdrError):
            decoded(Frame(captured.name, captured.record[:end]))


@every_frame
def test_garbage_behind_is_noticed(captured: Frame) -> None:
    head, position = codec_of(rpc_msg).decode(captured.record + b"garb", 0)
    assert head == decoded(captured)[0]
    _, end = codec_of(captured.body).decode(captured.record + b"garb", position)
    assert end == len(captured.record)
    with pytest.raises(XdrError, match="left over"):
        decode_exactly(captured.body, captured.record + b"garb", position)


@pytest.fixture(scope="module")
def dispatching() -> Iterator[Dispatching]:
    made = Dispatching()
    yield made
    made.close()


@pytest.mark.slow
def test_a_server_answers_each_of_them_however_it_is_cut(dispatching: Dispatching) -> None:
    """Another server than the one they were sent to: handles are stale there, and nothing breaks."""
    for file in FILES:
        record = file.read_bytes()
        for end in range(0, len(record) + 1, 4):
            dispatching(b"\0" + record[:end])
        dispatching(b"\1" + record + b"garbage behind")
