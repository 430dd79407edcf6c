"""What each word of the declaration vocabulary means in bytes, and which declarations are refused."""

from enum import IntEnum
from typing import Annotated, Any

import pytest

from dittofs.xdr.types import (
    Array,
    Chain,
    FixedArray,
    FixedOpaque,
    Opaque,
    OpaqueView,
    String,
    XdrUnion,
    codec_of,
    decode_exactly,
    encoded,
    int32,
    int64,
    packer,
    struct,
    uint32,
    uint64,
    union,
)


class filekind(IntEnum):
    TEXT = 0
    DATA = 1
    EXEC = 2


@union(filekind)
class filetype(XdrUnion):
    TEXT: None
    DATA: Annotated[bytes, String(max=32)]
    EXEC: Annotated[bytes, String(max=32)]


@struct
class file:
    filename: Annotated[bytes, String(max=255)]
    type: filetype
    owner: Annotated[bytes, String(max=32)]
    data: Annotated[bytes, Opaque(max=65535)]


def test_the_example_of_the_rfc() -> None:
    """RFC 4506 section 7, byte by byte as it is printed there."""
    printed = bytes.fromhex(
        "00000009 73696c6c 7970726f 67000000 00000002 00000004 6c697370 00000004 6a6f686e 00000006 28717569 74290000"
    )
    value = file(b"sillyprog", filetype(filekind.EXEC, b"lisp"), b"john", b"(quit)")
    assert encoded(file, value) == printed
    assert decode_exactly(file, printed) == value


@struct
class pair:
    a: uint32
    b: uint64


@union(bool)
class switched_by_bool(XdrUnion):
    TRUE: uint32
    FALSE: None


@union(int32)
class switched_by_number(XdrUnion):
    case_7: uint64
    default: None


@struct
class nothing:
    pass


@pytest.mark.parametrize(
    ("declaration", "value", "expected"),
    [
        (uint32, 2**32 - 1, "ffffffff"),
        (int32, -2, "fffffffe"),
        (uint64, 2**64 - 1, "ffffffffffffffff"),
        (int64, -(2**63), "8000000000000000"),
        (bool, True, "00000001"),
        (filekind, filekind.EXEC, "00000002"),
        (None, None, ""),
        (nothing, nothing(), ""),
        (Annotated[bytes, Opaque(max=5)], b"", "00000000"),
        (Annotated[bytes, Opaque(max=5)], b"12345", "00000005 3132333435 000000"),
        (Annotated[memoryview, OpaqueView(max=5)], b"123", "00000003 313233 00"),
        (Annotated[bytes, FixedOpaque(8)], b"12345678", "3132333435363738"),
        (Annotated[bytes, FixedOpaque(6)], b"123456", "313233343536 0000"),
        (Annotated[bytes, FixedOpaque(5)], b"12345", "3132333435 000000"),
        (pair | None, None, "00000000"),
        (pair | None, pair(1, 2), "00000001 00000001 0000000000000002"),
        (Annotated[list[uint32], Array(max=3)], [5, 6], "00000002 00000005 00000006"),
        (
            Annotated[list[pair], FixedArray(2)],
            [pair(1, 2), pair(3, 4)],
            "00000001 00000000 00000002 00000003 00000000 00000004",
        ),
        (Annotated[list[uint32], Chain(max=2)], [5, 6], "00000001 00000005 00000001 00000006 00000000"),
        (Annotated[list[Annotated[bytes, String(max=9)]], Chain(max=2)], [b"a"], "00000001 00000001 61000000 00000000"),
        (switched_by_bool, switched_by_bool(True, 9), "00000001 00000009"),
        (switched_by_bool, switched_by_bool(False), "00000000"),
        (switched_by_number, switched_by_number(7, 1), "00000007 0000000000000001"),
        (switched_by_number, switched_by_number(-1), "ffffffff"),
    ],
    ids=str,
)
def test_bytes_of(declaration: Any, value: object, expected: str) -> None:
    assert encoded(declaration, value) == bytes.fromhex(expected)
    assert decode_exactly(declaration, bytes.fromhex(expected)) == value


def test_decoded_enums_and_bools_are_themselves() -> None:
    @struct
    class both:
        kind: filekind
        flag: bool

    decoded = decode_exactly(both, bytes.fromhex("00000002 00000001"))
    assert decoded.kind is filekind.EXEC
    assert decoded.flag is True
    assert decode_exactly(switched_by_bool, bytes(4)).discriminant is False


def test_a_struct_is_a_slotted_dataclass() -> None:
    value = pair(a=1, b=2)
    value.a = 3
    assert value == pair(3, 2)
    assert repr(value) == "pair(a=3, b=2)"
    with pytest.raises(AttributeError):
        value.c = 4  # type: ignore[attr-defined]


def test_a_union_value_compares_and_shows_itself() -> None:
    value = filetype(filekind.DATA, b"x")
    assert value == filetype(filekind.DATA, b"x")
    assert value != filetype(filekind.EXEC, b"x")
    assert value != filetype(filekind.DATA, b"y")
    assert repr(value) == "filetype(<filekind.DATA: 1>, b'x')"
    assert not hasattr(value, "__dict__")


def test_a_codec_is_compiled_once() -> None:
    assert codec_of(pair) is codec_of(pair)
    assert codec_of(pair | None) is codec_of(pair | None)


def test_annotations_may_be_text() -> None:
    @struct
    class quoted:
        a: "uint32"

    assert decode_exactly(quoted, bytes(4)) == quoted(0)


class TestRefusedDeclarations:
    def test_a_plain_int(self) -> None:
        with pytest.raises(TypeError, match=r"broken\.size: <class 'int'> is not an XDR declaration"):

            @struct
            class broken:
                size: int

    def test_bytes_without_a_bound(self) -> None:
        with pytest.raises(TypeError, match=r"broken\.name"):

            @struct
            class broken:
                name: bytes

    def test_a_marker_on_the_wrong_type(self) -> None:
        with pytest.raises(TypeError, match="cannot be said of"):
            codec_of(Annotated[int, Opaque(max=3)])

    def test_two_markers(self) -> None:
        with pytest.raises(TypeError, match="one word about the type"):
            codec_of(Annotated[bytes, Opaque(max=3), FixedOpaque(3)])

    def test_an_array_of_nothing(self) -> None:
        """Its length would cost nothing to claim, and memory to believe."""
        with pytest.raises(TypeError, match="elements without bytes"):
            codec_of(Annotated[list[nothing], Array(max=10)])

    def test_an_arm_that_is_no_member(self) -> None:
        with pytest.raises(TypeError, match=r"broken\.MUSIC: arms are named"):

            @union(filekind)
            class broken(XdrUnion):
                MUSIC: uint32

    def test_a_union_without_arms(self) -> None:
        with pytest.raises(TypeError, match="at least one arm"):

            @union(filekind)
            class broken(XdrUnion):
                default: None

    def test_a_union_that_does_not_say_so(self) -> None:
        with pytest.raises(TypeError, match=r"class broken\(XdrUnion\)"):

            @union(filekind)
            class broken:
                TEXT: None

    def test_a_discriminant_that_is_no_number(self) -> None:
        with pytest.raises(TypeError, match="a discriminant is an enum, a bool or an integer"):

            @union(Annotated[bytes, Opaque(max=3)])
            class broken(XdrUnion):
                case_1: None

    def test_post_init(self) -> None:
        with pytest.raises(TypeError, match="__post_init__ is not allowed"):

            @struct
            class broken:
                a: uint32

                def __post_init__(self) -> None:
                    self.a += 1


def test_packer_takes_the_words_of_nested_structs_one_after_another() -> None:
    @struct
    class outer:
        first: uint32
        inner: pair
        tail: Annotated[bytes, FixedOpaque(5)]

    assert packer(outer)(7, 1, 2, b"12345") == encoded(outer, outer(7, pair(1, 2), b"12345"))
    with pytest.raises(TypeError, match="no fixed size"):
        packer(Annotated[bytes, Opaque(max=5)])
