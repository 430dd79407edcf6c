"""The commands that talk to a running server, with real NLM hosts behind it [OPS-3]."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dittofs.cli.main import run
from tests.end_to_end.locking import ALICE, BLOCKED, BOB, GRANTED, LockWorld, lock_world
from tests.end_to_end.server_process import EMBEDDED, ONE_SHARE, ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.root]

Output = pytest.CaptureFixture[str]
Command = Callable[..., str]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LockWorld]:
    with lock_world(tmp_path_factory.mktemp("server")) as made:
        yield made


def dittofs(server: ServerProcess, capsys: Output, *arguments: str, status: int = 0) -> str:
    """What a command prints; its errors if it must fail."""
    capsys.readouterr()
    assert run([*arguments, "--config", str(server.config_file)]) == status
    captured = capsys.readouterr()
    return captured.err if status else captured.out


@pytest.fixture
def command(world: LockWorld, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.delenv("DITTOFS_TOKEN", raising=False)

    def ask(*arguments: str, status: int = 0) -> str:
        return dittofs(world.server, capsys, *arguments, status=status)

    return ask


def as_json(command: Command, *arguments: str) -> Any:
    return json.loads(command(*arguments, "--json"))


def test_from_the_question_to_the_release(world: LockWorld, command: Command) -> None:
    """ls, show, why, release: the waiter gets the lock, and the audit log says who did it and why."""
    holder, waiter = world.host(b"laptop"), world.host(b"builder")
    file = world.file()
    assert world.nlm(holder).lock(ALICE, file) is GRANTED
    assert world.nlm(waiter).lock(BOB, file, block=True) is BLOCKED
    listed = as_json(command, "lock", "ls")
    (lock,) = [one for one in listed["locks"] if one["owner"]["name"] == "laptop"]
    (waiting,) = [one for one in listed["waiters"] if one["owner"]["name"] == "builder"]
    table = command("lock", "ls", "--path", lock["path"])
    assert f"laptop/1 ({holder.address})" in table
    assert f"builder/2 ({waiter.address})" in table
    assert lock["path"] in command("lock", "show", str(lock["id"]))
    sentence = command("lock", "why", lock["path"])
    assert "process 2 of builder" in sentence
    assert "process 1 of laptop" in sentence
    assert command("lock", "why", str(waiting["ticket"])).startswith("process 2 of builder")
    assert "1 request waits for it" in command("lock", "why", str(lock["id"]))
    assert "builder" in command("top", "--count", "1", "--interval", "0.1")
    refused = command("lock", "release", str(lock["id"]), "--reason", "left for lunch", status=1)
    assert "nobody to ask" in refused
    assert "still believes" in command("lock", "release", str(lock["id"]), "--reason", "left for lunch", "--yes")
    waiter.grants.wait(1)
    assert "left for lunch" in command("audit")
    gone = command("lock", "show", str(lock["id"]), status=1)
    assert gone == f"dittofs: there is no lock {lock['id']}: it was released, or never there\n"


def test_clients(world: LockWorld, command: Command) -> None:
    host = world.host(b"visitor")
    assert world.nlm(host).lock(ALICE, world.file()) is GRANTED
    assert "visitor" in command("client", "ls")
    assert as_json(command, "client", "show", host.address)["locks"] == 1
    assert host.address in command("client", "show", "visitor")
    assert "released 1 locks" in command("client", "forget", "visitor", "--reason", "sold", "--yes")
    assert "no client visitor is known" in command("client", "show", "visitor", status=1)


def test_shares_status_and_grace(command: Command) -> None:
    assert "/export" in command("share", "ls")
    assert "read only" in command("share", "show", "/export")
    assert "directories" in command("share", "usage", "/export")
    assert "there is no share /nothing" in command("share", "show", "/nothing", status=1)
    assert "No share is in grace." in command("grace", "status")
    assert "is not in grace" in command("grace", "end", "/export", "--reason", "impatient", "--yes", status=1)
    assert "after a first start" in command("status")
    assert as_json(command, "status")["is_ready"]
    assert "Nothing has changed." in command("reload")


def test_grace_after_a_kill_is_shown_and_ended(tmp_path: Path, capsys: Output) -> None:
    """Truth in REST, command line and metrics: who has not come back, and what ending it early means."""
    with lock_world(tmp_path, EMBEDDED + ONE_SHARE) as world:
        host = world.host(b"sleeper")
        assert world.nlm(host).lock(ALICE, world.file()) is GRANTED
        world.server.kill()
        world.server.start()
        shown = dittofs(world.server, capsys, "grace", "status")
        assert "/export is in grace" in shown
        assert "sleeper" in shown
        listed = json.loads(dittofs(world.server, capsys, "lock", "ls", "--state", "pending", "--json"))
        assert [one["owner"]["name"] for one in listed["locks"]] == ["sleeper"]
        assert "after a crash" in dittofs(world.server, capsys, "status")
        over = dittofs(world.server, capsys, "grace", "end", "/export", "--reason", "it will not come", "--yes")
        assert over == "Grace of /export is over.\n"
        assert "No share is in grace." in dittofs(world.server, capsys, "grace", "status")
        assert json.loads(dittofs(world.server, capsys, "lock", "ls", "--json"))["locks"] == []


def test_what_goes_wrong_is_said_with_what_to_do(
    tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ServerProcess(tmp_path) as server:
        monkeypatch.setenv("DITTOFS_TOKEN", "wrong")
        assert "DITTOFS_TOKEN" in dittofs(server, capsys, "status", status=1)
        monkeypatch.delenv("DITTOFS_TOKEN")
        (server.data / "api-tokens").rename(server.data / "elsewhere")
        assert "cannot read the token" in dittofs(server, capsys, "status", status=1)
        (server.data / "elsewhere").rename(server.data / "api-tokens")
        assert dittofs(server, capsys, "status")
        server.terminate()
        assert "no server runs with the data in" in dittofs(server, capsys, "lock", "ls", status=1)
        server.start()
        server.kill()
        assert "is it running?" in dittofs(server, capsys, "status", status=1)
    assert run(["lock", "release", "1"]) == 2, "a reason is needed"
