"""Deliberate faults: each of faults.txt is made in a copy of the source, and the tests must notice every one of them.

python tests/locks/mutations.py [part of a name]

The scenarios are asked first, then all quick tests; the long courses against the model only if those saw nothing.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests" / "locks"
LOCKS = Path("dittofs", "locks")
QUICK = ("spans", "spantree", "combining", "records", "limits_and_remembering", "walk", "table_against_model")
# The cheapest first: most faults never get beyond the scenarios.
ROUNDS = (
    [str(TESTS / "test_scenarios.py")],
    ["-m", "not slow", *(str(TESTS / f"test_{subject}.py") for subject in QUICK)],
    [str(TESTS / "test_table_against_model.py")],
)


@dataclass(frozen=True)
class Fault:
    name: str
    module: str
    right: str
    wrong: str


def faults() -> Iterator[Fault]:
    for block in (TESTS / "faults.txt").read_text(encoding="utf-8").split("\n== ")[1:]:
        name, module, *lines = block.rstrip("\n").split("\n")
        right = [line[1:] for line in lines if line.startswith("-")]
        wrong = [line[1:] for line in lines if line.startswith("+")]
        yield Fault(name, module.removeprefix("in "), "\n".join(right), "\n".join(wrong))


def make(fault: Fault, source: Path) -> None:
    """A copy of the source with this fault in it."""
    shutil.copytree(ROOT / "src" / "dittofs", source / "dittofs", ignore=shutil.ignore_patterns("__pycache__"))
    module = source / LOCKS / fault.module
    text = module.read_text(encoding="utf-8")
    if text.count(fault.right) != 1:
        raise ValueError(f"{fault.name}: its text stands in {fault.module} {text.count(fault.right)} times, not once")
    module.write_text(text.replace(fault.right, fault.wrong), encoding="utf-8")


def run_tests(source: Path, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """Without the plugins that other tests need: loading them takes longer than the tests."""
    options = ["-q", "-x", "--no-header", "-p", "no:cacheprovider", "-p", "pytest_timeout"]
    options += ["-o", f"pythonpath={source} {ROOT}"]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(source)}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    command = [sys.executable, "-m", "pytest", *options, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True, check=False, timeout=300)


def is_caught(fault: Fault) -> bool:
    """Did a test fail?  Anything else than a failed or passed run is an error of this script."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder)
        make(fault, source)
        for arguments in ROUNDS:
            result = run_tests(source, arguments)
            if result.returncode == 1:
                return True
            if result.returncode != 0:
                raise RuntimeError(f"{fault.name}: the tests did not run\n{result.stdout}\n{result.stderr}")
    return False


def survivors(chosen: list[Fault]) -> list[Fault]:
    """The faults that no test noticed."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return [fault for fault, caught in zip(chosen, pool.map(is_caught, chosen), strict=True) if not caught]


def main() -> int:
    chosen = [fault for fault in faults() if "".join(sys.argv[1:]) in fault.name]
    missed = survivors(chosen)
    for fault in missed:
        print(f"not noticed: {fault.name}")
    print(f"{len(chosen) - len(missed)} of {len(chosen)} faults were noticed")
    return 1 if missed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
