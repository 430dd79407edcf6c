"""NSM state numbers (pure): odd while a host is up, growing with each of its boots, and compared serially [NSM-3]."""

BITS = 32
_HALF = 1 << (BITS - 1)


def is_newer(state: int, than: int) -> bool:
    """Did the host reach `state` after `than`?  Numbers wrap around, as those of RFC 1982 do."""
    return 0 < (state - than) % (1 << BITS) < _HALF


def next_state(state: int) -> int:
    """The next odd number; it stays within the positive half of the wire's signed 32 bits."""
    following = state + 1 | 1
    return following if following < _HALF else 1
