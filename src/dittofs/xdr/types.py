"""The vocabulary of XDR declarations: one Python class per type of the RFC, in the RFC's words.

    nfs_fh3 = Annotated[bytes, Opaque(max=64)]

    @struct
    class GETATTR3args:
        object: nfs_fh3

    @union(nfsstat3)
    class GETATTR3res(XdrUnion):
        NFS3_OK: GETATTR3resok
        default: None

`codec_of(GETATTR3args)` is the pair of functions compiled from it, made at the first use and kept.  In annotations,
`bool` and `IntEnum` classes stand for themselves, `T | None` is optional data, `None` is void.
"""

import inspect
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import IntEnum
from struct import Struct
from typing import Annotated, Any, Generic, TypeVar, cast, dataclass_transform, overload

from dittofs.xdr import compiler, shapes
from dittofs.xdr.errors import XdrError

T = TypeVar("T")

Buffer = bytes | bytearray | memoryview
Chunks = list[Buffer]
"""What encoding appends to; the pieces are sent, or joined, as they are."""

uint32 = Annotated[int, shapes.Number("I")]
int32 = Annotated[int, shapes.Number("i")]
uint64 = Annotated[int, shapes.Number("Q")]
int64 = Annotated[int, shapes.Number("q")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opaque:
    """``opaque x<max>``, on `bytes`: decoded as a copy."""

    max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class String:
    """``string x<max>``, on `bytes`: the wire has no character set, and names may be any bytes."""

    max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpaqueView:
    """``opaque x<max>``, on `memoryview` or a union with it: decoded as a slice of the buffer, without a copy.

    Any buffer of single bytes can be encoded.
    """

    max: int


@dataclass(frozen=True, slots=True)
class FixedOpaque:
    """``opaque x[size]``, on `bytes`."""

    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Array:
    """``T x<max>``, on `list[T]`."""

    max: int


@dataclass(frozen=True, slots=True)
class FixedArray:
    """``T x[count]``, on `list[T]`."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """``T *next``, a linked list, on `list[T]`; the declaration of T leaves out its `next`."""

    max: int


@dataclass(frozen=True, slots=True)
class MayBeEncoded:
    """On `T | bytes`: decoded as T; in encoding, `bytes` are taken as a T that is already encoded."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """On a T that ends its message: one that comes in the same bytes as an earlier one is the same object.  For what
    clients send over and over; nobody may change it."""


class XdrUnion:
    """What unions are declared from.  `discriminant` is the enum member, bool or int; `value` its arm, None if void."""

    __slots__ = ("discriminant", "value")

    discriminant: int
    value: Any

    def __init__(self, discriminant: int, value: Any = None) -> None:
        self.discriminant = discriminant
        self.value = value

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.discriminant == other.discriminant and bool(self.value == other.value)

    __hash__ = None  # type: ignore[assignment]  # mutable, as all wire values

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.discriminant!r}, {self.value!r})"


class Codec(Generic[T]):
    """The two functions of a declaration.

    ``decode(buffer, position)`` returns the value and the position behind it, or raises XdrError and nothing else.
    ``encode(out, value)`` appends chunks to the list `out`, or raises UnencodableValue; then `out` may hold a part.
    """

    __slots__ = ("decode", "encode", "shape")

    def __init__(
        self,
        shape: shapes.Shape,
        *,
        decode: Callable[[Buffer, int], tuple[T, int]],
        encode: Callable[[Chunks, T], None],
    ) -> None:
        self.shape = shape
        self.decode = decode
        self.encode = encode


@dataclass_transform()
def struct(declared: type[T]) -> type[T]:
    """Make a slotted dataclass of the declared fields.  It is not frozen: that would triple its construction."""
    hints = inspect.get_annotations(declared, eval_str=True)
    if hasattr(declared, "__post_init__"):
        raise TypeError(f"{declared.__name__}: decoding does not call __init__, so __post_init__ is not allowed")
    made = dataclass(slots=True)(declared)
    parts = tuple(
        (field.name, _shape(hints[field.name], where=f"{made.__name__}.{field.name}"))
        for field in fields(made)  # type: ignore[arg-type]  # a dataclass since the line above
    )
    _shapes[made] = shapes.Record(made, parts)
    return made


def union(discriminant: Any) -> Callable[[type[T]], type[T]]:
    """Make a union of the declared arms, named by enum member, TRUE and FALSE, or ``case_7``; or ``default``."""

    def declare(declared: type[T]) -> type[T]:
        name = declared.__name__
        if not issubclass(declared, XdrUnion):
            raise TypeError(f"{name}: a union is declared as class {name}(XdrUnion)")
        switch = _shape(discriminant, where=f"{name}'s discriminant")
        if not isinstance(switch, shapes.Number | shapes.Choice):
            raise TypeError(f"{name}: a discriminant is an enum, a bool or an integer, not {discriminant!r}")
        hints = inspect.get_annotations(declared, eval_str=True)
        default = _shape(hints.pop("default"), where=f"{name}.default") if "default" in hints else None
        arms = {_case(name, discriminant, arm): _shape(hint, where=f"{name}.{arm}") for arm, hint in hints.items()}
        if not arms:
            raise TypeError(f"{name}: a union has at least one arm besides default")
        namespace = {key: item for key, item in vars(declared).items() if key not in ("__dict__", "__weakref__")}
        made = cast("type[T]", type(name, declared.__bases__, namespace | {"__slots__": ()}))
        _shapes[made] = shapes.Switch(made, switch, arms, default)
        return made

    return declare


def shape_of(declaration: Any) -> shapes.Shape:
    """What a declaration (a struct, a union, or any annotation made of this module's words) means."""
    return _shape(declaration, where="declaration")


@overload
def codec_of(declaration: type[T]) -> Codec[T]: ...
@overload
def codec_of(declaration: Any) -> Codec[Any]: ...
def codec_of(declaration: Any) -> Codec[Any]:
    """The compiled functions of any declaration; one and the same object for a struct or union at every call."""
    shape = shape_of(declaration)
    codec = _codecs.get(shape)
    if codec is None:
        name = shape.made.__name__ if isinstance(shape, shapes.Record | shapes.Switch) else str(declaration)
        codec = _codecs[shape] = Codec(
            shape, decode=compiler.compile_decode(name, shape), encode=compiler.compile_encode(name, shape)
        )
    return codec


def arm_encoder(declaration: type[T], discriminant: int) -> Callable[[Chunks, Any], None]:
    """A function `encode(out, arm_value)` for one discriminant of a union: writes both, needs no union object."""
    shape = shape_of(declaration)
    if not isinstance(shape, shapes.Switch):
        raise TypeError(f"{declaration!r} is not a union")
    key = (shape, int(discriminant))
    encode = _arm_encoders.get(key)
    if encode is None:
        encode = _arm_encoders[key] = compiler.compile_arm_encode(shape.made.__name__, shape, int(discriminant))
    return encode


def packer(declaration: Any) -> Callable[..., bytes]:
    """For a type of fixed size: a function of all its words, those of nested structs included, in the order of the
    wire, that returns them encoded.  For hot paths, which need not build structs only to take them apart."""
    return Struct(">" + shapes.fixed_codes(shape_of(declaration))).pack


@overload
def decode_exactly(declaration: type[T], buffer: Buffer, position: int = 0) -> T: ...
@overload
def decode_exactly(declaration: Any, buffer: Buffer, position: int = 0) -> Any: ...
def decode_exactly(declaration: Any, buffer: Buffer, position: int = 0) -> Any:
    """Decode one value that must end where the buffer ends."""
    value, end = codec_of(declaration).decode(buffer, position)
    if end != len(buffer):
        raise XdrError(f"{len(buffer) - end} bytes left over behind {declaration!r}")
    return value


def encoded(declaration: Any, value: Any) -> bytes:
    """One value as bytes, in one piece."""
    out: Chunks = []
    codec_of(declaration).encode(out, value)
    return b"".join(out)


_shapes: dict[type, shapes.Shape] = {bool: shapes.Choice("I", shapes.BOOLEANS), type(None): shapes.Void()}
_codecs: dict[shapes.Shape, Codec[Any]] = {}
_arm_encoders: dict[tuple[shapes.Shape, int], Callable[[Chunks, Any], None]] = {}


def _shape(hint: Any, *, where: str) -> shapes.Shape:
    if hint is None:
        return shapes.Void()
    if isinstance(hint, type) and hint in _shapes:
        return _shapes[hint]
    if isinstance(hint, type) and issubclass(hint, IntEnum):
        return _shapes.setdefault(hint, shapes.choice_of(hint))
    origin = typing.get_origin(hint)
    if origin is Annotated:
        return _annotated_shape(hint.__origin__, hint.__metadata__, where=where)
    if origin in (types.UnionType, typing.Union):
        present = [item for item in typing.get_args(hint) if item is not type(None)]
        if len(present) == 1 and len(typing.get_args(hint)) == 2:
            return shapes.Maybe(_shape(present[0], where=where))
    raise TypeError(
        f"{where}: {hint!r} is not an XDR declaration; allowed are uint32 and its kin, bool, an IntEnum, "
        "a @struct, a @union, T | None, None, and Annotated bytes, memoryview and list"
    )


def _annotated_shape(hint: Any, metadata: tuple[Any, ...], *, where: str) -> shapes.Shape:
    if len(metadata) != 1:
        raise TypeError(f"{where}: one word about the type is expected, not {metadata!r}")
    match metadata[0], typing.get_origin(hint) or hint:
        case shapes.Number() as number, _:
            return number
        case ((Opaque(max=maximum) | String(max=maximum)), kind) if kind is bytes:
            return shapes.VariableBytes(maximum)
        case OpaqueView(max=maximum), _ if memoryview in (hint, *typing.get_args(hint)):
            return shapes.VariableBytes(maximum, as_view=True)
        case FixedOpaque(size), kind if kind is bytes:
            return shapes.FixedBytes(size)
        case MayBeEncoded(), _:
            return shapes.Encodable(_encodable(hint, where=where))
        case Remembered(), _:
            return shapes.Remembered(_shape(hint, where=where))
        case (Array() | FixedArray() | Chain()) as marker, kind if kind is list:
            return _list_shape(marker, _shape(typing.get_args(hint)[0], where=where), where=where)
    raise TypeError(f"{where}: {metadata[0]!r} cannot be said of {hint!r}")


def _list_shape(marker: Array | FixedArray | Chain, element: shapes.Shape, *, where: str) -> shapes.Shape:
    if shapes.smallest_size(element) == 0 and not isinstance(marker, Chain):
        raise TypeError(f"{where}: elements without bytes would let a short message ask for any number of them")
    match marker:
        case Array(max=maximum):
            return shapes.Sequence(element, maximum)
        case FixedArray(count):
            return shapes.FixedSequence(element, count)
        case Chain(max=maximum):
            return shapes.LinkedList(element, maximum)


def _encodable(hint: Any, *, where: str) -> shapes.Shape:
    named = [item for item in typing.get_args(hint) if item is not bytes]
    if typing.get_origin(hint) in (types.UnionType, typing.Union) and len(named) == 1:
        return _shape(named[0], where=where)
    raise TypeError(f"{where}: MayBeEncoded is said of T | bytes, not of {hint!r}")


def _case(union_name: str, discriminant: Any, arm: str) -> int:
    if discriminant is bool and arm in ("TRUE", "FALSE"):
        return int(arm == "TRUE")
    if isinstance(discriminant, type) and issubclass(discriminant, IntEnum):
        if arm in discriminant.__members__:
            return int(discriminant[arm])
    elif discriminant is not bool and arm.startswith("case_") and arm[5:].isdecimal():
        return int(arm[5:])
    raise TypeError(f"{union_name}.{arm}: arms are named by member, TRUE or FALSE, case_NUMBER, or default")
