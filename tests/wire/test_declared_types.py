"""Every declared type of every protocol: round trips, cuts, garbage.  Nothing here names a type."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dittofs.xdr.errors import XdrError
from dittofs.xdr.types import codec_of, decode_exactly, encoded
from tests.wire.strategies import declared_in, values_of, wire_modules

DECLARED = [
    pytest.param(declaration, id=f"{module.__name__.removeprefix('dittofs.')}.{declaration.__name__}")
    for module in wire_modules()
    for declaration in declared_in(module)
]

every_declaration = pytest.mark.parametrize("declaration", DECLARED)
a_few = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)
many = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)


def check_round_trip(declaration: type, value: object, garbage: bytes) -> None:
    """Encoded and decoded again, at an odd position, with garbage behind, from every kind of buffer."""
    data = encoded(declaration, value)
    assert len(data) % 4 == 0
    assert decode_exactly(declaration, data) == value
    for kind in (bytes, bytearray, memoryview):
        decoded, position = codec_of(declaration).decode(kind(b"!" + data + garbage), 1)
        assert decoded == value
        assert position == 1 + len(data)
    if garbage:
        with pytest.raises(XdrError, match="left over"):
            decode_exactly(declaration, data + garbage)


def check_garbage(declaration: type, data: bytes) -> None:
    """A value or an XdrError; and a value, encoded, is the same value again."""
    try:
        value, position = codec_of(declaration).decode(data, 0)
    except XdrError:
        return
    assert position <= len(data)
    canonical = encoded(declaration, value)
    assert len(canonical) == position
    assert decode_exactly(declaration, canonical) == value


def check_cuts(declaration: type, value: object) -> None:
    data = encoded(declaration, value)
    for end in range(len(data)):
        with pytest.raises(XdrError):
            decode_exactly(declaration, data[:end])


def test_there_are_declarations() -> None:
    """The collection above finds what it should, so that an empty parametrization cannot pass for success."""
    names = {parameter.values[0].__name__ for parameter in DECLARED}
    assert {"rpc_msg", "authsys_parms", "fattr3", "READDIRPLUS3res", "mapping"} <= names


@every_declaration
@a_few
@given(data=st.data(), garbage=st.binary(max_size=5))
def test_round_trip(declaration: type, data: st.DataObject, garbage: bytes) -> None:
    check_round_trip(declaration, data.draw(values_of(declaration)), garbage)


@every_declaration
@settings(a_few, max_examples=3)
@given(data=st.data())
def test_cut_anywhere_is_an_error(declaration: type, data: st.DataObject) -> None:
    """[NFS-6]"""
    check_cuts(declaration, data.draw(values_of(declaration)))


@every_declaration
@a_few
@given(data=st.data(), noise=st.binary(max_size=300))
def test_garbage_is_a_value_or_an_error(declaration: type, data: st.DataObject, noise: bytes) -> None:
    """[NFS-6]  Random bytes rarely get past the first length; a valid encoding with a few changes does."""
    check_garbage(declaration, noise)
    check_garbage(declaration, damaged(declaration, data))


@pytest.mark.slow
@every_declaration
@many
@given(data=st.data(), garbage=st.binary(max_size=5), noise=st.binary(max_size=600))
def test_many_values_and_much_garbage(declaration: type, data: st.DataObject, garbage: bytes, noise: bytes) -> None:
    """[NFS-6]  The same, for longer."""
    check_round_trip(declaration, data.draw(values_of(declaration)), garbage)
    check_garbage(declaration, noise)
    check_garbage(declaration, damaged(declaration, data))


def damaged(declaration: type, data: st.DataObject) -> bytes:
    """A valid encoding with some words replaced by small or extreme numbers."""
    encoding = bytearray(encoded(declaration, data.draw(values_of(declaration))))
    if encoding:
        words = st.tuples(
            st.integers(0, len(encoding) // 4 - 1), st.sampled_from([0, 1, 2, 3, 255, 2**31 - 1, 2**31, 2**32 - 1])
        )
        for index, number in data.draw(st.lists(words, max_size=3)):
            encoding[4 * index : 4 * index + 4] = number.to_bytes(4)
    return bytes(encoding)
