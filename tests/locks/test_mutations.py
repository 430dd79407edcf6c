"""The tests of the lock table are worth something: each deliberate fault in it makes one of them fail."""

import pytest

from tests.locks.mutations import faults, survivors


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_deliberate_fault_is_noticed() -> None:
    """[LOCK-1] to [LOCK-8]: see faults.txt."""
    chosen = list(faults())
    assert len(chosen) >= 10
    assert [fault.name for fault in survivors(chosen)] == []
