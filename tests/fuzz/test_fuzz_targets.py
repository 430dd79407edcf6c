"""[NFS-6]: the targets of the fuzzer, fed for a moment: no exception reaches the wire, and nobody waits for ever."""

import random
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import Dispatching, decoding, reassembling

briefly = settings(
    max_examples=200,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
pytestmark = pytest.mark.slow

WORDS = [0, 1, 2, 3, 64, 65, 255, 256, 2**31 - 1, 2**31, 2**32 - 1]


@pytest.fixture(scope="module")
def dispatching() -> Iterator[Dispatching]:
    made = Dispatching()
    yield made
    made.close()


@briefly
@given(data=st.binary(max_size=400))
def test_decoding(data: bytes) -> None:
    decoding(data)


@briefly
@given(data=st.binary(max_size=400))
def test_reassembling(data: bytes) -> None:
    reassembling(data)


@given(data=st.binary(max_size=200))
@briefly
def test_dispatching_noise(dispatching: Dispatching, data: bytes) -> None:
    dispatching(data)


def test_dispatching_calls_of_every_procedure(dispatching: Dispatching) -> None:
    """Whole, and cut short at every word."""
    calls = list(dispatching.calls())
    assert len(calls) > 120
    for call in calls:
        dispatching(call)
        for end in range(1, len(call), 4):
            dispatching(call[:end])


@pytest.mark.parametrize("seed", range(4))
def test_dispatching_damaged_calls(dispatching: Dispatching, seed: int) -> None:
    """Well-formed calls of every procedure with words replaced, bytes flipped, and pieces of other calls in them."""
    chooser = random.Random(seed)
    calls = list(dispatching.calls())
    for _ in range(4000):
        call = bytearray(chooser.choice(calls))
        for _ in range(chooser.randint(1, 4)):
            place = 1 + 4 * chooser.randrange(len(call) // 4)
            match chooser.randrange(4):
                case 0:
                    call[place : place + 4] = chooser.choice(WORDS).to_bytes(4)
                case 1:
                    call[chooser.randrange(len(call))] ^= 1 << chooser.randrange(8)
                case 2:
                    other = chooser.choice(calls)
                    call[place:] = other[1 + 4 * chooser.randrange(len(other) // 4) :]
                case 3:
                    call[place:place] = chooser.randbytes(4 * chooser.randint(1, 8))
        dispatching(bytes(call))
