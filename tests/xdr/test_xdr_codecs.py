"""How the compiled functions behave: bounds, bad bytes, bad values, copies, and the text of the functions."""

import traceback
from enum import IntEnum
from typing import Annotated, Any

import pytest

from dittofs.xdr.errors import UnencodableValue, XdrError
from dittofs.xdr.types import (
    Array,
    Chain,
    Chunks,
    FixedArray,
    FixedOpaque,
    MayBeEncoded,
    Opaque,
    OpaqueView,
    Remembered,
    XdrUnion,
    arm_encoder,
    codec_of,
    decode_exactly,
    encoded,
    struct,
    uint32,
    uint64,
    union,
)


class status(IntEnum):
    OK = 0
    NOENT = 2
    IO = 5


@struct
class when:
    seconds: uint32
    nseconds: uint32


@struct
class attributes:
    kind: status
    size: uint64
    mtime: when
    frozen: bool
    ctime: when


@struct
class read_ok:
    attributes: Annotated[attributes | bytes, MayBeEncoded()] | None
    count: uint32
    eof: bool
    data: Annotated[bytes | bytearray | memoryview, OpaqueView(max=1 << 20)]


@struct
class failed:
    attributes: Annotated[attributes | bytes, MayBeEncoded()] | None


@union(status)
class read_result(XdrUnion):
    OK: read_ok
    NOENT: None
    default: failed


ATTRIBUTES = attributes(status.IO, 2**40, when(1, 2), True, when(3, 4))

handle = Annotated[bytes, Opaque(max=64)]


class TestBadBytes:
    @pytest.mark.parametrize(
        ("declaration", "data", "text"),
        [
            (bool, "00000002", "2 is not a value of bool"),
            (status, "00000001", "1 is not a value of status"),
            (status, "ffffffff", "-1 is not a value of status"),
            (handle, "00000041" + "00" * 68, "length 65, allowed are 64"),
            (handle, "ffffffff", "length 4294967295, allowed are 64"),
            (handle, "00000005 3132333435 0000", "end too early"),
            (handle, "00000005 3132", "end too early"),
            (uint32, "000000", "end too early"),
            (uint32, "", "end too early"),
            (Annotated[list[uint32], Array(max=2)], "00000003" + "00" * 12, "length 3, allowed are 2"),
            (Annotated[list[uint32], Chain(max=1)], "00000001 00000005 00000001 00000005 00000000", "allowed are 1"),
            (Annotated[list[uint32], Chain(max=1)], "00000001 00000005 00000002", "2 is not a value of bool"),
            (uint32 | None, "00000002 00000000", "2 is not a value of bool"),
            (read_result, "00000001", "1 is not a value of status"),
            (uint32, "00000000 00", "1 bytes left over"),
        ],
        ids=str,
    )
    def test_are_an_xdr_error_that_says_what_is_wrong(self, declaration: Any, data: str, text: str) -> None:
        with pytest.raises(XdrError, match=text):
            decode_exactly(declaration, bytes.fromhex(data))

    def test_an_error_names_the_field(self) -> None:
        @struct
        class lookup:
            directory: handle
            name: Annotated[bytes, Opaque(max=4)]

        with pytest.raises(XdrError, match=r"^lookup\.name: length 5, allowed are 4$"):
            decode_exactly(lookup, bytes.fromhex("00000000 00000005 3132333435000000"))

    def test_a_missing_arm(self) -> None:
        @union(uint32)
        class strict(XdrUnion):
            case_1: uint32

        with pytest.raises(XdrError, match="there is no arm for 2"):
            decode_exactly(strict, bytes.fromhex("00000002 00000000"))

    def test_a_position_behind_the_end(self) -> None:
        with pytest.raises(XdrError):
            codec_of(attributes).decode(bytes(100), 200)

    def test_padding_that_is_not_zero_is_accepted(self) -> None:
        """RFC 4506 wants zeros, real senders do not always oblige, and nobody reads them."""
        assert decode_exactly(handle, bytes.fromhex("00000001 31ffffff")) == b"1"


class TestBounds:
    """Exactly as much as is allowed passes; one more does not, in either direction."""

    def test_opaque(self) -> None:
        assert decode_exactly(handle, encoded(handle, b"x" * 64)) == b"x" * 64
        with pytest.raises(UnencodableValue, match="length 65, allowed are 64"):
            encoded(handle, b"x" * 65)

    def test_array(self) -> None:
        three = Annotated[list[uint32], Array(max=3)]
        assert decode_exactly(three, encoded(three, [1, 2, 3])) == [1, 2, 3]
        with pytest.raises(UnencodableValue, match="length 4, allowed are 3"):
            encoded(three, [1, 2, 3, 4])

    def test_chain(self) -> None:
        three = Annotated[list[uint32], Chain(max=3)]
        assert decode_exactly(three, encoded(three, [1, 2, 3])) == [1, 2, 3]
        with pytest.raises(UnencodableValue, match="length 4, allowed are 3"):
            encoded(three, [1, 2, 3, 4])

    def test_a_long_chain_does_not_recurse(self) -> None:
        long = Annotated[list[uint32], Chain(max=100_000)]
        assert decode_exactly(long, encoded(long, [7] * 100_000)) == [7] * 100_000


class TestBadValues:
    """Our own mistakes are not the sender's garbage: they are another exception."""

    def test_is_no_xdr_error(self) -> None:
        assert not issubclass(UnencodableValue, XdrError)

    @pytest.mark.parametrize(
        ("declaration", "value"),
        [
            (uint32, 2**32),
            (uint32, -1),
            (uint64, 2**64),
            (uint32, None),
            (Annotated[bytes, FixedOpaque(8)], b"1234567"),
            (Annotated[bytes, FixedOpaque(8)], b"123456789"),
            (Annotated[list[uint32], FixedArray(2)], [1]),
            (read_result, read_result(status.NOENT, 3)),
            (None, 3),
        ],
        ids=str,
    )
    def test_is_unencodable(self, declaration: Any, value: object) -> None:
        with pytest.raises(UnencodableValue):
            encoded(declaration, value)

    def test_a_discriminant_without_an_arm(self) -> None:
        @union(status)
        class strict(XdrUnion):
            OK: None

        with pytest.raises(UnencodableValue, match="no arm for"):
            encoded(strict, strict(status.IO))
        with pytest.raises(UnencodableValue, match="no arm for"):
            arm_encoder(strict, status.IO)


class TestPayload:
    def test_is_decoded_as_a_slice_of_the_buffer(self) -> None:
        record = encoded(read_result, read_result(status.OK, read_ok(None, 5, True, b"12345")))
        data = decode_exactly(read_result, record).value.data
        assert type(data) is memoryview
        assert data.obj is record
        assert data == b"12345"

    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
    def test_is_a_chunk_of_its_own(self, kind: Any) -> None:
        data = kind(b"x" * 1000)
        out: Chunks = []
        codec_of(read_result).encode(out, read_result(status.OK, read_ok(None, 1000, True, data)))
        assert any(chunk is data for chunk in out)
        assert len(out) <= 3

    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
    def test_small_opaque_data_is_bytes_whatever_the_buffer(self, kind: Any) -> None:
        decoded = decode_exactly(handle, kind(encoded(handle, b"abc")))
        assert type(decoded) is bytes
        assert decoded == b"abc"


class TestRuns:
    """What makes it fast is also what can silently get lost."""

    def test_nested_fixed_structs_are_one_chunk(self) -> None:
        out: Chunks = []
        codec_of(attributes).encode(out, ATTRIBUTES)
        assert len(out) == 1

    def test_discriminant_and_presence_join_the_first_fields(self) -> None:
        out: Chunks = []
        codec_of(read_result).encode(out, read_result(status.IO, failed(ATTRIBUTES)))
        assert len(out) == 1

    def test_what_is_known_beforehand_is_not_packed_again(self) -> None:
        first: Chunks = []
        second: Chunks = []
        encode = arm_encoder(read_result, status.OK)
        encode(first, read_ok(None, 0, False, b""))
        encode(second, read_ok(None, 0, False, b""))
        assert first[0] is second[0]


class TestAlreadyEncoded:
    def test_bytes_stand_for_the_value(self) -> None:
        encoding = encoded(attributes, ATTRIBUTES)
        assert encoded(failed, failed(encoding)) == encoded(failed, failed(ATTRIBUTES))

    def test_are_appended_as_they_are(self) -> None:
        encoding = encoded(attributes, ATTRIBUTES)
        out: Chunks = []
        codec_of(read_result).encode(out, read_result(status.OK, read_ok(encoding, 0, True, b"")))
        assert out[1] is encoding

    def test_decoding_gives_the_value(self) -> None:
        encoding = encoded(attributes, ATTRIBUTES)
        assert decode_exactly(failed, encoded(failed, failed(encoding))) == failed(ATTRIBUTES)


class TestArmEncoder:
    @pytest.mark.parametrize(
        ("discriminant", "value"),
        [
            (status.OK, read_ok(ATTRIBUTES, 3, True, b"abc")),
            (status.NOENT, None),
            (status.IO, failed(None)),
        ],
    )
    def test_writes_what_the_union_writes(self, discriminant: status, value: object) -> None:
        out: Chunks = []
        arm_encoder(read_result, discriminant)(out, value)
        assert b"".join(out) == encoded(read_result, read_result(discriminant, value))

    def test_is_made_once(self) -> None:
        assert arm_encoder(read_result, status.OK) is arm_encoder(read_result, status.OK)

    def test_wants_a_union(self) -> None:
        with pytest.raises(TypeError, match="is not a union"):
            arm_encoder(when, 0)


def test_a_traceback_shows_the_compiled_line() -> None:
    with pytest.raises(AttributeError) as caught:
        encoded(attributes, when(1, 2))
    text = "".join(traceback.format_exception(caught.value))
    assert "<xdr encode attributes" in text
    assert "value.mtime" in text


def test_a_class_may_be_named_like_a_variable_of_the_compiled_function() -> None:
    @struct
    class data:
        value: uint32
        position: handle

    @struct
    class value:
        end: data
        buffer: data | None
        append: Annotated[list[data], Array(max=2)]

    one = data(1, b"x")
    example = value(one, one, [one, one])
    assert decode_exactly(value, encoded(value, example)) == example


def test_two_classes_of_one_name_are_kept_apart() -> None:
    def declare(number: Any) -> type:
        @struct
        class same:
            a: number

        return same

    first, second = declare(uint32), declare(uint64)

    @struct
    class both:
        one: first  # type: ignore[valid-type]
        two: second  # type: ignore[valid-type]

    decoded = decode_exactly(both, encoded(both, both(first(a=1), second(a=2))))
    assert type(decoded.one) is first
    assert type(decoded.two) is second


@struct
class remembering:
    name: Annotated[bytes, Opaque(max=8)]
    tail: Annotated[when, Remembered()]


def test_the_same_bytes_at_the_end_are_decoded_once() -> None:
    one = encoded(remembering, remembering(b"a", when(1, 2)))
    other = encoded(remembering, remembering(b"bcd", when(1, 2)))
    third = encoded(remembering, remembering(b"a", when(1, 3)))
    first, second = decode_exactly(remembering, one), decode_exactly(remembering, memoryview(other))
    assert second == remembering(b"bcd", when(1, 2))
    assert second.tail is first.tail
    assert decode_exactly(remembering, third).tail == when(1, 3)


def test_what_is_cut_short_or_has_more_behind_it_is_not_remembered() -> None:
    whole = encoded(remembering, remembering(b"a", when(7, 8)))
    value, end = codec_of(remembering).decode(whole + b"more", 0)
    assert (value.tail, end) == (when(7, 8), len(whole))
    with pytest.raises(XdrError):
        decode_exactly(remembering, whole[:-1])
    with pytest.raises(XdrError):
        decode_exactly(remembering, whole + b"more")
