"""What is compiled is chosen by name; some things must not be in there."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
HOOK = ("tool", "hatch", "build", "targets", "wheel", "hooks", "custom")
DECLARATION = re.compile(r"^class \w+\((msgspec\.)?Struct\b|^@(struct|union)\b", re.MULTILINE)


def compiled_modules() -> list[str]:
    found: Any = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for part in HOOK:
        found = found[part]
    modules: list[str] = found["modules"]
    return modules


@pytest.mark.parametrize("module", compiled_modules())
def test_no_compiled_module_declares_a_record(module: str) -> None:
    """mypyc drops the options of such a class: its records would be other bytes than those of pure Python, and neither
    could read a store that the other has written."""
    source = (ROOT / "src" / Path(*module.split("."))).with_suffix(".py").read_text(encoding="utf-8")
    assert not DECLARATION.search(source)
