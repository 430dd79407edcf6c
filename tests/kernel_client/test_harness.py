"""The tools of the kernel's client can themselves fail."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernel_client.harness import GUEST

FSX = [sys.executable, str(GUEST / "fsx.py")]


@pytest.mark.slow
def test_fsx_passes_on_a_good_file_system(tmp_path: Path) -> None:
    done = subprocess.run([*FSX, str(tmp_path / "f"), "--operations", "500", "--seed", "7"], check=False)
    assert done.returncode == 0


@pytest.mark.slow
def test_fsx_finds_a_difference_and_names_it(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"not the same file")
    argv = [*FSX, str(tmp_path / "f"), "--other", str(tmp_path / "other"), "--seed", "7"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "fsx: FAIL" in done.stdout
    assert "at 0: " in done.stdout
