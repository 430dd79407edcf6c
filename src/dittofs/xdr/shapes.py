"""What a declaration means, as plain values: the compiler's input, and what test strategies are derived from.

Every shape knows only its own parts.  ``dittofs.xdr.types`` makes shapes from annotations,
``dittofs.xdr.compiler`` makes functions from shapes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from dittofs.xdr.errors import XdrError


class LookupTable(dict[int, Any]):
    """Wire number to value.  A number that is not there is the sender's mistake, reported by name."""

    def __init__(self, name: str, members: Iterable[tuple[int, Any]]) -> None:
        super().__init__(members)
        self.name = name

    def __missing__(self, number: int) -> Any:
        raise XdrError(f"{number} is not a value of {self.name}")


BOOLEANS = LookupTable("bool", ((0, False), (1, True)))


@dataclass(frozen=True, slots=True)
class Void:
    """No bytes at all; the value is None."""


@dataclass(frozen=True, slots=True)
class Number:
    """An integer; ``code`` is its letter in the `struct` module: I, i, Q or q."""

    code: str


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """An enum or a bool: a word of which only some numbers are allowed."""

    code: str
    table: LookupTable


@dataclass(frozen=True, slots=True)
class FixedBytes:
    size: int


@dataclass(frozen=True, slots=True)
class VariableBytes:
    """``as_view``: decoded as a slice of the buffer, not as a copy."""

    maximum: int
    as_view: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """A struct: the class, and its fields in the order of the wire."""

    made: type
    fields: tuple[tuple[str, "Shape"], ...]


@dataclass(frozen=True, slots=True)
class Maybe:
    """Optional data: None, or the element."""

    element: "Shape"


@dataclass(frozen=True, slots=True)
class FixedSequence:
    element: "Shape"
    count: int


@dataclass(frozen=True, slots=True)
class Sequence:
    element: "Shape"
    maximum: int


@dataclass(frozen=True, slots=True)
class LinkedList:
    """``element *next`` as a Python list: each element has TRUE in front of it, the end is FALSE."""

    element: "Shape"
    maximum: int


@dataclass(frozen=True, slots=True)
class Encodable:
    """Like the element; in encoding, `bytes` stand for an element that is already encoded."""

    element: "Shape"


@dataclass(frozen=True, slots=True)
class Remembered:
    """Like the element; in decoding, the same bytes at the end of a buffer give the same object."""

    element: "Shape"


@dataclass(frozen=True, slots=True, eq=False)
class Switch:
    """A union: the arm of each discriminant, and the arm of all others, if there is one."""

    made: type
    discriminant: Number | Choice
    arms: Mapping[int, "Shape"]
    default: "Shape | None"


Shape = (
    Void
    | Number
    | Choice
    | FixedBytes
    | VariableBytes
    | Record
    | Maybe
    | FixedSequence
    | Sequence
    | LinkedList
    | Encodable
    | Remembered
    | Switch
)


def choice_of(enumeration: type[IntEnum]) -> Choice:
    """An enum is a signed word (RFC 4506 4.3).  `IntEnum(x)` costs ten times this table."""
    return Choice("i", LookupTable(enumeration.__name__, ((int(member), member) for member in enumeration)))


def smallest_size(shape: Shape) -> int:
    """The fewest bytes that a value of this shape can take."""
    match shape:
        case Void():
            return 0
        case Number(code) | Choice(code):
            return 8 if code in "Qq" else 4
        case FixedBytes(size):
            return size + (-size & 3)
        case VariableBytes() | Maybe() | Sequence() | LinkedList():
            return 4
        case Record():
            return sum(smallest_size(part) for _, part in shape.fields)
        case FixedSequence(element, count):
            return count * smallest_size(element)
        case Encodable(element) | Remembered(element):
            return smallest_size(element)
        case Switch():
            arms = [*shape.arms.values()] + ([shape.default] if shape.default is not None else [])
            return smallest_size(shape.discriminant) + min(smallest_size(arm) for arm in arms)


def fixed_codes(shape: Shape) -> str:
    """The `struct` codes of a shape that has one size.  Raises TypeError for any other."""
    match shape:
        case Number(code) | Choice(code):
            return code
        case FixedBytes(size):
            return f"{size}s{-size & 3}x"
        case Record():
            return "".join(fixed_codes(part) for _, part in shape.fields)
        case FixedSequence(element, count):
            return fixed_codes(element) * count
    raise TypeError(f"{shape!r} has no fixed size")
