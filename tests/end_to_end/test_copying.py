"""`dittofs import` and `export`: what goes in comes out, to the nanosecond."""

import os
import stat
from pathlib import Path

import pytest

from dittofs.cli.main import run
from tests.end_to_end.server_process import EMBEDDED, ONE_SHARE, ServerProcess

pytestmark = pytest.mark.slow

Output = pytest.CaptureFixture[str]


def described(top: Path) -> dict[str, tuple[object, ...]]:
    """Everything that a copy must keep; hard links as the first of their names."""
    found: dict[str, tuple[object, ...]] = {}
    first: dict[int, str] = {}
    for path in [top, *sorted(top.rglob("*"))]:
        name = str(path.relative_to(top))
        about = path.lstat()
        content: object = None
        if path.is_symlink():
            content = os.readlink(path)
        elif path.is_file():
            content = path.read_bytes()
        same = first.setdefault(about.st_ino, name)
        kind = stat.S_IFMT(about.st_mode), stat.S_IMODE(about.st_mode)
        found[name] = (*kind, about.st_uid, about.st_gid, about.st_mtime_ns, content, same)
    return found


def make_tree(top: Path) -> None:
    (top / "sub" / "empty").mkdir(parents=True)
    (top / "file").write_bytes(os.urandom(700_000))
    (top / "file").chmod(0o640)
    os.link(top / "file", top / "sub" / "same file")
    (top / "sub" / "link").symlink_to("../file")
    with (top / "holes").open("wb") as file:
        file.seek(3_000_000)
        file.write(b"in the middle")
        file.truncate(8_000_000)
    os.mkfifo(top / "pipe")
    (top / "naïve\nname").write_text("odd, but allowed")
    for number, path in enumerate(sorted(top.rglob("*"), reverse=True)):
        if not path.is_symlink():
            os.utime(path, ns=(1_600_000_000_000_000_000, 1_500_000_000_123_456_789 + number))
    if os.geteuid() == 0:
        os.chown(top / "sub", 1234, 5678)


def test_what_goes_in_comes_out_and_is_not_copied_twice(tmp_path: Path, capsys: Output) -> None:
    source, back = tmp_path / "source", tmp_path / "back"
    source.mkdir()
    make_tree(source)
    with ServerProcess(tmp_path / "server") as server:
        options = ["--config", str(server.config_file)]
        assert run(["import", str(source), "/export", *options]) == 0
        assert "5 files, 3 directories, 1 hard links" in capsys.readouterr().out
        assert run(["export", "/export", str(back), *options]) == 0
        assert described(back) == described(source)
        assert (back / "holes").stat().st_blocks * 512 < 1_000_000, "holes stay holes"
        capsys.readouterr()
        (back / "holes").unlink()
        (source / "file").write_bytes(b"changed")
        assert run(["export", "/export", str(back), *options]) == 0
        assert "1 files, 3 directories, 1 hard links, 7.6 MiB; 4 were there already." in capsys.readouterr().out
        assert described(back)["holes"] == described(source)["holes"]
        assert run(["import", str(source), "/export", *options]) == 0
        assert "1 files, " in capsys.readouterr().out
        assert run(["import", str(source), "/nothing", *options]) == 1
        assert "cannot be mounted" in capsys.readouterr().err


def test_a_share_that_squashes_takes_what_it_can(tmp_path: Path, capsys: Output) -> None:
    """The default share, as a newcomer meets it: content arrives, and what is not kept is said once."""
    source = tmp_path / "source"
    source.mkdir()
    make_tree(source)
    squashing = EMBEDDED + ONE_SHARE.replace('squash = "none"', 'squash = "all"')
    with ServerProcess(tmp_path / "server", config=squashing) as server:
        assert run(["import", str(source), "/export", "--config", str(server.config_file)]) == 0
        printed = capsys.readouterr().out
        assert "5 files, 3 directories, 1 hard links" in printed
        assert printed.count("are not kept") == 1


def test_without_a_server_it_says_so(tmp_path: Path, capsys: Output) -> None:
    assert run(["import", str(tmp_path), "/export", "--data", str(tmp_path)]) == 1
    assert "no server runs with the data in" in capsys.readouterr().err
