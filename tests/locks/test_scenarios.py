"""The rules of SPEC section 1 and the traps of its section 8, as scenarios in plain text."""

import re
from pathlib import Path

import pytest

from tests.locks.scenario import Play, Scenario, scenarios

FOLDER = Path(__file__).parent / "scenarios"
FILES = sorted(FOLDER.glob("*.txt"))
ALL = [(path, scenario) for path in FILES for scenario in scenarios(path)]


@pytest.mark.parametrize(("path", "scenario"), [pytest.param(*one, id=one[1].name) for one in ALL])
def test_scenario(path: Path, scenario: Scenario) -> None:
    """[LOCK-1] to [LOCK-8], [LOCK-10], [GRACE-1] to [GRACE-3]: each scenario names its own."""
    play = Play()
    for line in scenario.lines:
        found = play.step(line.event)
        assert found == line.expected, f"{path.name}:{line.number}: {line.event}"


def test_there_are_enough_scenarios_and_they_name_every_rule() -> None:
    """At least 60, with names of their own, for every rule that is the table's business."""
    names = [scenario.name for _, scenario in ALL]
    assert len(set(names)) == len(names) >= 60
    rules = {rule for name in names for rule in re.findall(r"\[([A-Z]+-\d+)\]", name)}
    # [LOCK-9] is about cost: test_growth.py, and [LOCK-10]'s permissions are asked before the table is.
    wanted = {f"LOCK-{number}" for number in range(1, 11)} - {"LOCK-9"} | {"GRACE-1", "GRACE-2", "GRACE-3"}
    assert wanted <= rules
