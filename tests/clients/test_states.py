"""NSM state numbers [NSM-1] [NSM-3]."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dittofs.clients.states import is_newer, next_state

STATES = st.integers(min_value=-(2**31), max_value=2**31 - 1)


@given(STATES)
def test_no_state_is_newer_than_itself(state: int) -> None:
    assert not is_newer(state, state)


@given(STATES, st.integers(min_value=1, max_value=2**31 - 1))
def test_one_of_two_states_is_the_newer_one(state: int, distance: int) -> None:
    """Also over the wrap of a signed number."""
    later = (state + distance + 2**31) % 2**32 - 2**31
    assert is_newer(later, state)
    assert not is_newer(state, later)


@given(st.integers(min_value=0, max_value=2**31 - 4))
def test_the_next_state_is_odd_and_newer(state: int) -> None:
    assert next_state(state) % 2 == 1
    assert is_newer(next_state(state), state)


@pytest.mark.parametrize(("state", "following"), [(0, 1), (1, 3), (4, 5), (2**31 - 3, 2**31 - 1), (2**31 - 1, 1)])
def test_states_stay_positive(state: int, following: int) -> None:
    """Some hosts read them as signed numbers, and take 0 for unknown."""
    assert next_state(state) == following
