"""Asking the kernel what is in memory."""

import os
import platform
from pathlib import Path

from dittofs.stores.content.page_cache import is_cached

RELEASE = tuple(int(number) for number in platform.release().split("-")[0].split(".")[:2])


def test_what_was_just_written_is_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(100_000))
    with path.open("rb") as file:
        can_be_asked = RELEASE >= (6, 5)
        assert is_cached(file.fileno(), 0, 100_000) is can_be_asked
        assert is_cached(file.fileno(), 4_095, 2) is can_be_asked
        assert is_cached(file.fileno(), 99_999, 1) is can_be_asked


def test_what_was_never_read_is_not(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(4_096))
    os.truncate(path, 1 << 20)
    with path.open("rb") as file:
        assert not is_cached(file.fileno(), 0, 4_097)
        assert not is_cached(file.fileno(), 1 << 19, 4_096)
    assert not is_cached(-1, 0, 1)
