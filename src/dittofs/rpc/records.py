"""Record marking (RFC 5531 section 11): a stream of fragments to whole records, and back.

The reassembler believes nothing: the size of a record, the number of its fragments, and with them the memory that a
peer can make us hold, are bounded [NFS-6].  After a RecordError the stream has no meaning any more: close it.
"""

import struct
from typing import Final

LAST_FRAGMENT: Final = 0x80000000
MAX_FRAGMENT_SIZE: Final = 0x7FFFFFFF
SMALL_PART: Final = 4096
"""Smaller parts are collected in one buffer: a list of single bytes would cost forty times what was sent."""

_unpack_mark: Final = struct.Struct(">I").unpack_from
_pack_mark: Final = struct.Struct(">I").pack


class RecordError(Exception):
    """The peer sent more than is allowed; the connection cannot go on."""


class Reassembler:
    """Takes a stream in pieces of any size and gives out the records in it."""

    __slots__ = ("_fragments", "_is_last", "_mark", "_max_fragments", "_max_record_size", "_parts", "_size", "_wanted")

    def __init__(self, *, max_record_size: int, max_fragments: int = 1024) -> None:
        self._max_record_size = max_record_size
        self._max_fragments = max_fragments
        self._mark = b""  # the beginning of a mark, never all of it
        self._fragments = 0  # begun of the unfinished record
        self._size = 0  # of the unfinished record, as its marks say so far
        self._parts: list[bytes | bytearray] = []  # of the unfinished record
        self._wanted = 0  # still to come of the current fragment
        self._is_last = False  # the current fragment is the last of its record

    @property
    def held(self) -> int:
        """How many bytes of something unfinished are kept."""
        return self._size - self._wanted + len(self._mark)

    @property
    def is_empty(self) -> bool:
        """Nothing is unfinished: the stream stands between two records."""
        return not self._fragments and not self._mark

    def feed(self, data: bytes) -> list[bytes]:
        """The records that `data` completes, in order."""
        records: list[bytes] = []
        if self._mark:
            data = self._mark + data
            self._mark = b""
        size = len(data)
        position = self._take(data, 0, records) if self._wanted else 0
        while size - position >= 4:
            (mark,) = _unpack_mark(data, position)
            position += 4
            end = position + (mark & MAX_FRAGMENT_SIZE)
            if mark & LAST_FRAGMENT and end <= size and not self._fragments and end - position <= self._max_record_size:
                records.append(data[position:end])  # the common case: a record in one fragment, all of it here
                position = end
            else:
                self._begin_fragment(mark)
                position = self._take(data, position, records)
        self._mark = data[position:]
        return records

    def _begin_fragment(self, mark: int) -> None:
        """Hold a mark against the limits before anything of its fragment is kept."""
        self._wanted = mark & MAX_FRAGMENT_SIZE
        self._is_last = bool(mark & LAST_FRAGMENT)
        self._size += self._wanted
        self._fragments += 1
        if self._size > self._max_record_size:
            raise RecordError(f"a record of at least {self._size} bytes, allowed are {self._max_record_size}")
        if self._fragments > self._max_fragments:
            raise RecordError(f"a record of more than {self._max_fragments} fragments")

    def _take(self, data: bytes, position: int, records: list[bytes]) -> int:
        """Keep what there is of the current fragment, and finish the record if this was all that it lacked."""
        part = data[position : position + self._wanted]
        self._wanted -= len(part)
        if len(part) >= SMALL_PART:
            self._parts.append(part)
        elif self._parts and type(self._parts[-1]) is bytearray:
            self._parts[-1] += part
        elif part:
            self._parts.append(bytearray(part))
        if self._is_last and not self._wanted:
            records.append(b"".join(self._parts))
            self._parts, self._size, self._fragments = [], 0, 0
        return position + len(part)


def frame(record: bytes) -> bytes:
    """One record as one fragment."""
    return mark_of(len(record)) + record


def mark_of(size: int) -> bytes:
    """The mark in front of a record of that size, sent as one fragment."""
    if size > MAX_FRAGMENT_SIZE:
        raise ValueError(f"a record of {size} bytes, one fragment holds {MAX_FRAGMENT_SIZE}")
    return _pack_mark(size | LAST_FRAGMENT)
