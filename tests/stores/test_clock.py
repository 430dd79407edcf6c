"""The clock that the other tests hold."""

import pytest

from dittofs.testing.clock import FakeClock


def test_time_passes_only_when_told() -> None:
    clock = FakeClock(start_ns=1_000)
    assert (clock.time_ns(), clock.monotonic()) == (1_000, 0.0)
    clock.advance(1.5)
    assert (clock.time_ns(), clock.monotonic()) == (1_500_001_000, 1.5)
    clock.set(7)
    assert (clock.time_ns(), clock.monotonic()) == (7, 1.5)
    with pytest.raises(AssertionError):
        clock.advance(-1)
