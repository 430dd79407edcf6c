"""Turns a capture of the wire into the frames of this directory: `python tests/wire/capture.py FILE.pcap`.

    tests/kernel_client/kernel-client up ...; ... daemon tcpdump -- tcpdump -i br0 -U -s 0 -w FILE.pcap

One file for the first call, the first good reply and the first refusal of each procedure that is not here yet, with the
value that was read from it as text.  Look at the text before you commit it: it is what the tests believe.
"""

import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[1] / "src")]

from dittofs.rpc.records import Reassembler  # noqa: E402
from tests.wire.frames import Frame, kind_of_call, kind_of_reply, text_of  # noqa: E402

PCAP = 0xA1B2C3D4
ETHERNET, IPV4, TCP, UDP = 1, 0x0800, 6, 17
MAX_FRAME = 3000
"""Larger ones show nothing more."""


class Message(NamedTuple):
    """One RPC message, and the two ends of its way."""

    source: tuple[bytes, int]
    target: tuple[bytes, int]
    record: bytes


@dataclass
class Stream:
    """One direction of a connection."""

    expected: int | None = None
    pieces: Reassembler = field(default_factory=lambda: Reassembler(max_record_size=1 << 24))

    def feed(self, sequence: int, data: bytes) -> list[bytes]:
        if self.expected is None:
            self.expected = sequence
        if not data or sequence != self.expected:  # sent again, or a keep-alive
            return []
        self.expected = (sequence + len(data)) & 0xFFFF_FFFF
        return self.pieces.feed(data)


def packets(capture: bytes) -> Iterator[bytes]:
    magic, *_, link = struct.unpack_from("<IHHiIII", capture)
    assert (magic, link) == (PCAP, ETHERNET), "a plain capture of an Ethernet bridge is wanted"
    position = 24
    while position < len(capture):
        _, _, size, _ = struct.unpack_from("<IIII", capture, position)
        yield capture[position + 16 : position + 16 + size]
        position += 16 + size


def messages(capture: bytes) -> Iterator[Message]:
    streams: dict[tuple[tuple[bytes, int], tuple[bytes, int]], Stream] = {}
    for packet in packets(capture):
        if int.from_bytes(packet[12:14]) != IPV4:
            continue
        head = 14 + 4 * (packet[14] & 15)
        end = 14 + int.from_bytes(packet[16:18])
        protocol, source, target = packet[23], packet[26:30], packet[30:34]
        from_port, to_port = struct.unpack_from(">HH", packet, head)
        ends = (source, from_port), (target, to_port)
        if protocol == UDP:
            yield Message(*ends, packet[head + 8 : end])
        elif protocol == TCP:
            sequence = int.from_bytes(packet[head + 4 : head + 8])
            if packet[head + 13] & 2:  # SYN
                streams[ends] = Stream(sequence + 1)
                continue
            data = packet[head + 4 * (packet[head + 12] >> 4) : end]
            for record in streams.setdefault(ends, Stream()).feed(sequence, data):
                yield Message(*ends, record)


def frames(capture: bytes) -> Iterator[Frame]:
    """Every call of a program that is known here, and every reply to one."""
    waiting: dict[tuple[bytes, bytes, bytes], str] = {}
    for message in messages(capture):
        name = kind_of_call(message.record)
        if name is not None:
            waiting[message.source[0], message.target[0], message.record[:4]] = name
            yield Frame(f"{name}.call", message.record)
            continue
        asked = waiting.pop((message.target[0], message.source[0], message.record[:4]), None)
        if asked is not None and (ending := kind_of_reply(asked, message.record)):
            yield Frame(f"{asked}.{ending}", message.record)


def main() -> None:
    for frame in frames(Path(sys.argv[1]).read_bytes()):
        file = HERE / f"{frame.name}.bin"
        if file.exists() or len(frame.record) > MAX_FRAME:
            continue
        file.write_bytes(frame.record)
        file.with_suffix(".txt").write_text(text_of(frame))
        print(f"{frame.name}: {len(frame.record)} bytes")


if __name__ == "__main__":
    main()
