"""Every reachable state of small worlds and every move in each of them, judged by the model.

The number of states is known: if it changes, a rule has changed.
"""

import pytest

import dittofs.locks.table
from tests.locks.judging import Shape
from tests.locks.walk import World, walk

pytestmark = pytest.mark.skipif(
    not str(dittofs.locks.table.__file__).endswith(".py"),
    reason="the walk copies tables by pickling them, which compiled classes do not allow",
)


def shape(*, files: int, cells: int, owners: int) -> Shape:
    """Every owner on a client of his own, all files in one share."""
    return Shape(files, owners, cells, client_of=tuple(range(owners)), share_of=(0,) * files)


def check(world: World, expected: int) -> None:
    found, judged = walk(world)
    print(f"{found:,} states, {judged:,} moves judged")
    assert found == expected


def test_one_byte_two_owners_one_waiter() -> None:
    """[LOCK-1] to [LOCK-7]: the smallest world in which somebody waits."""
    check(World(shape(files=1, cells=1, owners=2), max_tickets=1), 24)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_one_file_three_bytes_two_owners() -> None:
    """[LOCK-3]: every way to split, merge and replace."""
    check(World(shape(files=1, cells=3, owners=2), max_tickets=0), 216)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_files_of_one_byte_three_owners_two_waiters() -> None:
    """[LOCK-5], [LOCK-7]: every queue and every cycle of three."""
    check(World(shape(files=2, cells=1, owners=3), max_tickets=2), 12_649)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_everything_that_can_happen_to_one_byte_and_to_two() -> None:
    """[LOCK-5], [LOCK-7], [KEEP-1], [GRACE-1] to [GRACE-3]: crashes, silence, restarts, reclaims and lost commits."""
    everything = {"with_crashes": True, "with_silence": True, "with_restarts": True, "with_losses": True}
    check(World(shape(files=1, cells=1, owners=2), max_tickets=1, **everything), 175)
    check(World(shape(files=2, cells=1, owners=2), max_tickets=1, **everything), 2_509)
