"""A file system with little room, for tests of what a full disk does."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(path: Path, mebibytes: int) -> Iterator[Path]:
    """Mounted at `path` while the block runs; skips the test where that is impossible."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small file system")
    path.mkdir(parents=True, exist_ok=True)
    size = f"size={mebibytes}m"
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", path], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"cannot mount a small file system: {mounted.stderr.decode().strip()}")
    try:
        yield path
    finally:
        # Lazily: a test that failed may have left files open, and a mount that stays is in the way of every later run.
        subprocess.run(["umount", "--lazy", path], check=True)
