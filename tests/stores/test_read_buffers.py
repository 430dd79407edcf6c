"""Buffers that are used again must not be in anybody's hands any more."""

from dittofs.stores.content.buffers import BUFFER_BYTES, SMALL_BYTES, ReadBuffers


def address(buffer: bytearray | memoryview) -> int:
    import ctypes

    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


def test_buffer_is_used_again_when_nobody_holds_it() -> None:
    buffers = ReadBuffers()
    first = address(buffers.take(BUFFER_BYTES))
    assert address(buffers.take(100_000)) == first


def test_any_view_of_a_buffer_keeps_it() -> None:
    """Also a part of a view, when the view itself is gone."""
    buffers = ReadBuffers()
    whole = buffers.take(BUFFER_BYTES)
    where = address(whole)
    part = memoryview(whole)[100:200]
    part[:] = b"x" * 100
    del whole
    other = buffers.take(BUFFER_BYTES)
    assert address(other) != where
    other[:] = b"y" * BUFFER_BYTES
    assert bytes(part) == b"x" * 100
    del part
    assert address(buffers.take(BUFFER_BYTES)) == where


def test_number_of_buffers_is_bounded() -> None:
    buffers = ReadBuffers(limit=2)
    held = [buffers.take(BUFFER_BYTES) for _ in range(5)]
    assert [type(buffer) for buffer in held] == [memoryview, memoryview, bytearray, bytearray, bytearray]
    assert len({address(buffer) for buffer in held}) == 5


def test_sizes() -> None:
    buffers = ReadBuffers()
    for count in (1, SMALL_BYTES, SMALL_BYTES + 1, BUFFER_BYTES, BUFFER_BYTES + 1):
        assert len(buffers.take(count)) == count
