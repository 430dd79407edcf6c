"""Records of a kind, and the view through which a transaction sees them.

A metadata procedure is a plain function over a `View`: it reads and writes records and has no other effect,
so that it can be run again (DESIGN: repeatable transactions).  It does not know which store is below.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar, cast

import msgspec

from dittofs.model.ids import FileId

K = TypeVar("K")
R = TypeVar("R")
S = TypeVar("S")

_tables: list["Table[Any, Any]"] = []


class Table(Generic[K, R]):
    """One kind of record: a one-byte prefix, an ordered key, a record type.

    `key_format` lists the parts of the key as `struct` letters; keys sort as the tuple of their parts does.  A
    volatile table lives in memory only: what is put there is gone after a restart, and no answer waits for it.  A
    table that has no witnesses is not asked by procedures that only look: its changes make nobody look again.

    For stores across a network two hints spare a journey: who reads a record of the table `beside` wants the one with
    the same key here too; and `leads_to` says which record of another table a scanned one makes wanted.
    """

    __slots__ = (
        "_key",
        "_parts",
        "companions",
        "decode",
        "encode",
        "has_witnesses",
        "is_volatile",
        "leads_to",
        "name",
        "number",
        "pack",
        "prefix",
        "record",
        "unpack",
    )

    def __init__(
        self,
        name: str,
        prefix: bytes,
        key_format: str,
        record: type[R],
        *,
        is_volatile: bool = False,
        has_witnesses: bool = True,
        beside: "Table[K, Any] | None" = None,
        leads_to: "tuple[Table[Any, Any], Callable[[R], Any]] | None" = None,
    ):
        assert len(prefix) == 1, "a table's prefix is one byte"
        assert prefix not in {table.prefix for table in _tables}, f"prefix {prefix!r} is taken"
        self.name = name
        self.prefix: bytes = prefix
        self.record = record
        self.is_volatile = is_volatile
        self.has_witnesses = has_witnesses
        self.companions: list[Table[K, Any]] = []
        self.leads_to = leads_to
        if beside is not None:
            beside.companions.append(self)
        self.number = len(_tables)
        self._key = struct.Struct(">c" + key_format)
        # The way back is taken for each record of a scan: a bare C function, which passes over the prefix.
        self._parts = struct.Struct(">x" + key_format)
        self.encode: Callable[[R], bytes] = msgspec.msgpack.Encoder().encode
        self.decode: Callable[[bytes], R] = msgspec.msgpack.Decoder(record).decode
        packers = {0: self._pack_one, 1: self._pack_one, 2: self._pack_pair}
        self.pack: Callable[[K], bytes] = packers.get(len(key_format), self._pack_tuple)
        self.unpack: Callable[[bytes], K] = (
            cast("Callable[[bytes], K]", self._parts.unpack) if len(key_format) > 1 else self._unpack_one
        )
        _tables.append(self)

    def _pack_one(self, key: K) -> bytes:
        return self._key.pack(self.prefix, key)

    def _pack_pair(self, key: K) -> bytes:
        first, second = cast(tuple[Any, Any], key)
        return self._key.pack(self.prefix, first, second)

    def _pack_tuple(self, key: K) -> bytes:
        return self._key.pack(self.prefix, *cast(tuple[int, ...], key))

    def _unpack_one(self, packed: bytes) -> K:
        return cast(K, self._parts.unpack(packed)[0])


def all_tables() -> Sequence[Table[Any, Any]]:
    """Every table declared so far, in the order of their numbers."""
    return _tables


class NamedTable(Table[bytes, R]):
    """A table whose key is any run of bytes."""

    __slots__ = ()

    def __init__(self, name: str, prefix: bytes, record: type[R], *, is_volatile: bool = False):
        super().__init__(name, prefix, "", record, is_volatile=is_volatile)
        self.pack = self._pack_name
        self.unpack = self._unpack_name

    def _pack_name(self, key: bytes) -> bytes:
        return self.prefix + key

    def _unpack_name(self, packed: bytes) -> bytes:
        return packed[1:]


class View(Protocol):
    """What one transaction sees: the store with all earlier transactions and its own writes.  A view that names this as
    its base is called directly where both are compiled."""

    @property
    def now(self) -> int:
        """The moment of this call in nanoseconds; the same at each look and over reruns."""

    def get(self, table: Table[K, R], key: K) -> R | None: ...

    def get_all(self, table: Table[K, R], keys: Sequence[K]) -> list[R | None]:
        """What `get` says of each key, for whoever asks for many."""

    def put(self, table: Table[K, R], key: K, record: R) -> None: ...

    def delete(self, table: Table[K, R], key: K) -> None: ...

    def merge(self, table: Table[K, R], key: K, change: Callable[[R, S], R], argument: S) -> R:
        """Apply a change that commutes with others of its kind to a record that is there (a directory's times and
        link count).  A store shared by several servers need not check that nobody else did so meanwhile."""

    def scan(self, table: Table[K, R], start: K, end: K, limit: int) -> Sequence[tuple[K, R]]:
        """At most `limit` records with start <= key < end, in key order."""

    def new_file_id(self) -> FileId:
        """An id that no file ever had [NFS-7]; the same one over reruns."""

    def after(self, effect: object) -> None:
        """Something outside the view to be done once, if this transaction is kept."""
