"""Memory for large records: which of it is used again, and when."""

from dittofs.net.buffers import SPARE_BUFFERS, USUAL_BYTES, SpareBuffers


def test_the_last_one_given_is_taken_first() -> None:
    spare = SpareBuffers()
    first, second = spare.take(USUAL_BYTES), spare.take(1)
    spare.give(first)
    spare.give(second)
    assert spare.take(USUAL_BYTES) is second
    assert spare.take(1) is first


def test_one_that_is_too_small_is_passed_over() -> None:
    spare = SpareBuffers()
    usual, larger = spare.take(1), spare.take(4 << 20)
    assert len(usual) >= USUAL_BYTES
    spare.give(larger)
    spare.give(usual)
    assert spare.take(3 << 20) is larger


def test_no_more_are_kept_than_allowed() -> None:
    spare = SpareBuffers()
    buffers = [spare.take(1) for _ in range(SPARE_BUFFERS + 1)]
    for buffer in buffers:
        spare.give(buffer)
    taken = [spare.take(1) for _ in range(SPARE_BUFFERS + 1)]
    assert [id(buffer) for buffer in taken[:-1]] == [id(buffer) for buffer in buffers[-2::-1]]
    assert taken[-1] is not buffers[-1]
