"""A directory's entries as NFS sends them.

A directory is listed again and again, and little of it changes meanwhile; so its runs (`files/runs.py`) are kept
encoded, and an answer is put together from them.  What is kept is valid exactly as long as reading the run again gives
the same run: nothing has to be thrown away when something changes.  Of a run that changed only the entries that did
are encoded anew.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from enum import IntEnum
from itertools import accumulate

from dittofs.files.cookies import END_OF_PLACES, FIRST_PLACE
from dittofs.files.handles import HANDLE_BYTES
from dittofs.files.namespace import list_self_and_parent
from dittofs.files.records import Entry
from dittofs.files.runs import Run, bounds_of, halvings_for, read_run
from dittofs.files.values import File
from dittofs.files.volume import Volume
from dittofs.model.errors import TooSmall
from dittofs.model.ids import FileId
from dittofs.protocols.nfs3.attributes import AttributeCache
from dittofs.protocols.nfs3.types import dirlist3, dirlistplus3, entry3, entryplus3, fattr3
from dittofs.stores.tables import View
from dittofs.xdr.shapes import smallest_size
from dittofs.xdr.types import Chunks, codec_of, encoded, shape_of

BYTES_KEPT = 48 << 20
"""For one share, with everything that belongs to what is kept: about as many entries as the driver keeps records."""

DIRECTORIES_KNOWN = 65_536

ENTRY_BYTES = 300
RUN_BYTES = 1500
"""What an entry and a run cost besides their encoded bytes, measured."""

Key = tuple[int, FileId, int, int]
"""What is told, of which directory, cut how often, from which place on."""

Encode = Callable[[Chunks, object], None]

# An entry in a list is preceded by a word that says that there is one: as optional data is.
_encode_entry: Encode = codec_of(entry3 | None).encode
_encode_entryplus: Encode = codec_of(entryplus3 | None).encode

_END = {False: encoded(dirlist3, dirlist3([], False)), True: encoded(dirlist3, dirlist3([], True))}
assert _END[True] == encoded(dirlistplus3, dirlistplus3([], True)), "both lists end alike"

_PLAIN = len(encoded(entry3, entry3(0, b"", 0)))
_ATTRIBUTES = bytes(smallest_size(shape_of(fattr3)))
_FOLLOWS = len(encoded(bool, True))
_WITHOUT_FILE = _FOLLOWS + len(encoded(entryplus3, entryplus3(0, b"", 0, None, None))) - _PLAIN
_WITH_FILE = _FOLLOWS + len(encoded(entryplus3, entryplus3(0, b"", 0, _ATTRIBUTES, bytes(HANDLE_BYTES)))) - _PLAIN
"""What READDIRPLUS tells of an entry beyond what READDIR does, which `dircount` does not count."""


class Telling(IntEnum):
    """What is told of each entry."""

    NAME = 0
    """By READDIR."""
    NO_FILE = 1
    """By READDIRPLUS to those who may not search the directory."""
    FILE = 2


NAME = Telling.NAME
FILE = Telling.FILE


class EncodedRun:
    """A run and its bytes.  Entry number n lies from `ends[n]` to `ends[n + 1]`; of these bytes, `dircount` counts
    those from `plain_ends[n]` to `plain_ends[n + 1]`."""

    __slots__ = ("cost", "encoded", "ends", "plain_ends", "run")

    def __init__(self, run: Run, pieces: list[bytes], plain_sizes: list[int]):
        self.run = run
        self.encoded = b"".join(pieces)
        self.ends: array[int] = _sums([len(piece) for piece in pieces])
        self.plain_ends: array[int] = _sums(plain_sizes)
        self.cost = RUN_BYTES + len(self.encoded) + ENTRY_BYTES * len(pieces)

    def pieces(self) -> list[bytes]:
        ends = self.ends
        return [self.encoded[ends[number] : ends[number + 1]] for number in range(len(ends) - 1)]


def _sums(sizes: list[int]) -> "array[int]":
    return array("L", [0, *accumulate(sizes)])


class EntryCache:
    """The encoded runs of one share's directories; bounded."""

    __slots__ = ("_attributes", "_capacity", "_cost", "_dropped", "_halvings", "_handle_of", "_is_guarded", "_kept")

    def __init__(self, volume: Volume, attributes: AttributeCache, *, capacity: int = BYTES_KEPT):
        self._attributes = attributes
        self._handle_of = volume.codec.encode
        self._is_guarded = not volume.transactions.is_shared
        self._capacity = capacity
        self._cost = self._dropped = 0
        self._kept: dict[Key, EncodedRun] = {}
        self._halvings: dict[FileId, int] = {}

    @property
    def cost(self) -> int:
        """In bytes, about."""
        return self._cost

    def list_behind(
        self, view: View, directory: File, cookie: int, telling: Telling, *, room: int, plain_room: int
    ) -> bytes:
        """A `dirlist3` or `dirlistplus3`, encoded: the entries behind a cookie for as long as there is room, which
        does not count the empty list.  Raises TooSmall if there is not room for one."""
        pieces: list[bytes] = []
        for listed in list_self_and_parent(view, directory, cookie, with_files=telling is FILE):
            piece = self._encode(telling, listed.cookie, listed.name, listed.id, listed.file)
            room -= len(piece)
            plain_room -= _plain_size(telling, piece, listed.file)
            if room < 0 or plain_room < 0:
                return _closed(pieces, at_end=False)
            pieces.append(piece)
        place = max(cookie + 1, FIRST_PLACE)
        while place < END_OF_PLACES:
            encoded_run = self._run_at(view, directory, place, telling)
            run, ends, plain_ends = encoded_run.run, encoded_run.ends, encoded_run.plain_ends
            count = len(run.entries)
            first = bisect_left(run.entries, ((directory.id, place),)) if count else 0
            begin, plain_begin = ends[first], plain_ends[first]
            size, plain_size = ends[count] - begin, plain_ends[count] - plain_begin
            if first < count and (size > room or plain_size > plain_room):
                fitting = min(bisect_right(ends, begin + room), bisect_right(plain_ends, plain_begin + plain_room)) - 1
                if fitting > first:
                    pieces.append(encoded_run.encoded[begin : ends[fitting]])
                return _closed(pieces, at_end=False)
            if size:
                pieces.append(encoded_run.encoded[begin:])
            room -= size
            plain_room -= plain_size
            place = run.end
        return _closed(pieces, at_end=True)

    def _run_at(self, view: View, directory: File, place: int, telling: Telling) -> EncodedRun:
        id_ = directory.id
        halvings = self._halvings_of(directory)
        key = (int(telling), id_, halvings, bounds_of(place, halvings)[0])
        kept = self._kept.get(key)
        run = read_run(
            view,
            directory,
            place,
            halvings,
            with_files=telling is FILE,
            is_guarded=self._is_guarded,
            known=None if kept is None else kept.run,
        )
        if kept is not None:
            if run is kept.run:
                return kept
            self._drop(key)
        made = self._encode_run(run, telling, kept)
        if run.is_whole:
            self._keep(key, made)
        return made

    def _keep(self, key: Key, made: EncodedRun) -> None:
        """Of a directory that is too large, and is listed again and again, the oldest run is always the next that is
        wanted; so mostly the newest makes room, and a part of the directory stays."""
        while self._kept and self._cost + made.cost > self._capacity:
            self._dropped += 1
            self._drop(next(iter(self._kept)) if self._dropped % 4 == 0 else next(reversed(self._kept)))
        if made.cost <= self._capacity:
            self._kept[key] = made
            self._cost += made.cost

    def _drop(self, key: Key) -> None:
        self._cost -= self._kept.pop(key).cost

    def _halvings_of(self, directory: File) -> int:
        state = directory.state
        assert state is not None, "only directories are listed"
        known = self._halvings.get(directory.id, -1)
        halvings = halvings_for(state.entries, known)
        if halvings != known:
            if len(self._halvings) >= DIRECTORIES_KNOWN:
                self._halvings.clear()
            self._halvings[directory.id] = halvings
        return halvings

    def _encode_run(self, run: Run, telling: Telling, before: EncodedRun | None) -> EncodedRun:
        known: dict[tuple[FileId, int], tuple[Entry, File | None, bytes]] = {}
        if before is not None:
            old_files = _files_of(before.run, telling)
            for (key, entry), file, piece in zip(before.run.entries, old_files, before.pieces(), strict=True):
                known[key] = (entry, file, piece)
        pieces: list[bytes] = []
        plain_sizes: list[int] = []
        for (key, entry), file in zip(run.entries, _files_of(run, telling), strict=True):
            old = known.get(key)
            if old is not None and old[0] == entry and old[1] == file:
                piece = old[2]
            else:
                piece = self._encode(telling, key[1], entry.name, entry.file, file)
            pieces.append(piece)
            plain_sizes.append(_plain_size(telling, piece, file))
        return EncodedRun(run, pieces, plain_sizes)

    def _encode(self, telling: Telling, cookie: int, name: bytes, id_: FileId, file: File | None) -> bytes:
        out: Chunks = []
        if telling is NAME:
            _encode_entry(out, entry3(id_, name, cookie))
        elif file is None:
            _encode_entryplus(out, entryplus3(id_, name, cookie, None, None))
        else:
            _encode_entryplus(out, entryplus3(id_, name, cookie, self._attributes.encoded(file), self._handle_of(id_)))
        return b"".join(out)


def _files_of(run: Run, telling: Telling) -> list[File | None]:
    return run.files() if telling is FILE else [None] * len(run.entries)


def _plain_size(telling: Telling, piece: bytes, file: File | None) -> int:
    if telling is NAME:
        return 0
    return len(piece) - (_WITHOUT_FILE if file is None else _WITH_FILE)


def _closed(pieces: list[bytes], *, at_end: bool) -> bytes:
    if not pieces and not at_end:
        raise TooSmall("the answer has no room for a single entry")
    return b"".join([*pieces, _END[at_end]])
