"""`dittofs` as a user meets it: output, one line for an error, exit status."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from dittofs import __version__, server
from dittofs.cli.main import run
from dittofs.config import ServerSettings, Settings
from dittofs.loading import load
from dittofs.model.ids import FileId

Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("DITTOFS_CONFIG", raising=False)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """Settings that `serve` handed to the server, which then ended by itself."""
    found: list[Settings] = []

    def run_server(settings: Settings, say: Callable[[str], None], load: Callable[[], Settings]) -> None:
        found.append(settings)
        say("Mount it.\n")

    monkeypatch.setattr(server, "run", run_server)
    return found


def test_version(capsys: Output) -> None:
    assert run(["version"]) == 0
    assert capsys.readouterr().out.startswith(f"dittofs {__version__} ")


@pytest.mark.parametrize("arguments", [["--help"], ["serve", "--help"], ["check", "-h"], ["config", "show", "--help"]])
def test_help(capsys: Output, arguments: list[str]) -> None:
    assert run(arguments) == 0
    assert "Usage: dittofs" in capsys.readouterr().out


def test_help_names_every_command(capsys: Output) -> None:
    run(["--help"])
    out = capsys.readouterr().out
    assert all(word in out for word in ("serve", "check", "config", "version", "DITTOFS_SERVER_PORT"))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["frobnicate"], "No such command 'frobnicate'"),
        (["serve", "--prot", "1"], "No such option: --prot"),
        (["serve", "--port"], "requires an argument"),
        (["serve", "--port", "none"], 'server.port = "none" (from the command line): must be a whole number'),
        (["serve", "--portmap", "on"], "server.portmap"),
        (["serve", "--data", ""], "server.data"),
        (["serve", "--listen", "everywhere"], "server.listen"),
        (["serve", "--log-level", "loud"], "log.level"),
        (["config", "check", "--config", "/nowhere/x.toml"], "/nowhere/x.toml: cannot be read"),
    ],
)
def test_a_usage_error_is_one_line_and_status_2(capsys: Output, arguments: list[str], expected: str) -> None:
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("dittofs: ")
    assert err.count("\n") == 1
    assert expected in err


def test_serve_hands_over_flags_and_prints_what_the_server_says(
    served: list[Settings], tmp_path: Path, capsys: Output
) -> None:
    arguments = ["serve", "--data", str(tmp_path), "--listen", "127.0.0.1", "--listen", "::1", "--port", "2049"]
    arguments += ["--portmap", "off", "--log-level", "warning", "--log-format", "json"]
    assert run(arguments) == 0
    assert capsys.readouterr().out == "Mount it.\n"
    (settings,) = served
    assert settings.server.data == tmp_path
    assert settings.server.listen == ("127.0.0.1", "::1")
    assert (settings.server.port, settings.server.portmap) == (2049, "off")
    assert (settings.log.level, settings.log.format) == ("warning", "json")


def test_serve_without_any_option_uses_the_defaults(served: list[Settings], tmp_path: Path) -> None:
    """[OPS-1]."""
    run(["serve"])
    assert served[0] == load(environment={"XDG_DATA_HOME": str(tmp_path / "data")})


def test_the_config_file_can_be_named_by_a_variable(
    served: list[Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "x.toml"
    file.write_text("[server]\nport = 4\n")
    monkeypatch.setenv("DITTOFS_CONFIG", str(file))
    run(["serve"])
    assert served[0].server.port == 4


def test_config_check_names_every_problem(capsys: Output, tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text("[server]\nport = -1\nname = 'x'\n")
    assert run(["config", "check", "--config", str(file)]) == 2
    assert capsys.readouterr().err.count("\n") == 2


def test_config_check_says_that_all_is_good(capsys: Output, tmp_path: Path) -> None:
    assert run(["config", "check"]) == 0
    assert "is good" in capsys.readouterr().out
    assert not (tmp_path / "data").exists(), "checking must not make anything"


def test_config_show_prints_what_is_in_force(capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DITTOFS_SERVER_PORT", "1234")
    assert run(["config", "show"]) == 0
    assert "port = 1234  # from DITTOFS_SERVER_PORT" in capsys.readouterr().out


def test_a_server_that_cannot_start_is_one_line_and_status_1(capsys: Output, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert run(["serve", "--data", str(tmp_path / "file"), "--portmap", "off", "--port", "0"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("dittofs: ")
    assert err.count("\n") == 1


def make_data(data: Path, *, with_orphan: bool = False) -> None:
    """The default share as the server makes it; on demand with content that belongs to no file."""
    quiet = ServerSettings(data=data, listen=("127.0.0.1",), port=0, portmap="off")
    settings = load(environment={}, flags={"server.data": str(data), "api.listen": "", "metrics.listen": ""})

    async def serve_once() -> None:
        running = server.Server(msgspec.structs.replace(settings, server=quiet))
        await running.start()
        if with_orphan:
            (share,) = running.shares
            await share.volume.content.write(share.volume.content_of(FileId(999)), 0, b"whose?")
        await running.stop()

    asyncio.run(serve_once())


def test_check_of_good_data(capsys: Output, tmp_path: Path) -> None:
    make_data(tmp_path)
    assert run(["check", "--data", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "1 shares, 1 directories, 0 other files: no problems\n"


def test_check_finds_content_of_no_file_and_repair_removes_it(capsys: Output, tmp_path: Path) -> None:
    """[STORE-3]: read-only by default, exit status 1 as long as something is wrong."""
    make_data(tmp_path, with_orphan=True)
    for _ in range(2):
        assert run(["check", "--data", str(tmp_path)]) == 1
        out, err = capsys.readouterr()
        assert out.count("\n") == 1
        assert err == "dittofs: 1 shares, 1 directories, 0 other files: 1 problems\n"
    assert run(["check", "--data", str(tmp_path), "--repair"]) == 0
    assert run(["check", "--data", str(tmp_path)]) == 0


def test_check_of_data_that_is_not_there_makes_nothing(capsys: Output, tmp_path: Path) -> None:
    assert run(["check", "--data", str(tmp_path / "nowhere")]) == 1
    assert "there is no store in" in capsys.readouterr().out
    assert not (tmp_path / "nowhere").exists()
