"""What a new configuration changes (pure)."""

from pathlib import Path

from dittofs.config import Settings
from dittofs.loading import load
from dittofs.reloading import difference

BASE = """
[stores.meta]
kind = "memory"
[stores.other]
kind = "memory"
[stores.files]
kind = "memory"
[[shares]]
name = "/a"
[[shares]]
name = "/b"
"""


def settings(tmp_path: Path, text: str) -> Settings:
    file = tmp_path / "dittofs.toml"
    file.write_text(text)
    return load(file, environment={"DITTOFS_SERVER_DATA": str(tmp_path)})


def test_the_same_configuration_changes_nothing(tmp_path: Path) -> None:
    found = difference(settings(tmp_path, BASE), settings(tmp_path, BASE))
    assert not any(found)


def test_shares_come_change_move_and_go(tmp_path: Path) -> None:
    old = settings(tmp_path, BASE)
    new = BASE.replace('"/b"', '"/c"').replace('"/a"', '"/a"\nread_only = true')
    found = difference(old, settings(tmp_path, new))
    assert [share.name for share in found.added] == ["/c"]
    assert [share.name for share in found.changed] == ["/a"]
    assert found.removed == ["/b"]
    moved = difference(old, settings(tmp_path, BASE.replace('"/b"', '"/b"\nmetadata = "other"')))
    assert [share.name for share in moved.moved] == ["/b"]


def test_what_needs_a_restart_is_named(tmp_path: Path) -> None:
    old = settings(tmp_path, BASE)
    new = BASE + '[locks]\ngrace_seconds = 5\n[stores.files2]\nkind = "memory"\n'
    new = new.replace('[stores.files]\nkind = "memory"', '[stores.files]\nkind = "memory"\ncapacity_bytes = 4096')
    assert difference(old, settings(tmp_path, new)).ignored == ["locks", "stores.files"]
