"""`dittofs backup` and `restore`: one moment of a share that is in use, and the whole of it back."""

import http.client
import itertools
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dittofs.cli.main import run
from dittofs.client.nfs3 import Nfs3Error, attributes
from dittofs.protocols.nfs3 import types as t
from tests.end_to_end.control import Rest, until
from tests.end_to_end.endpoints import endpoints
from tests.end_to_end.server_process import EMBEDDED, MEMORY, ONE_SHARE, MountedClient, ServerProcess
from tests.end_to_end.test_copying import described, make_tree

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

Output = pytest.CaptureFixture[str]
BLOCK = 64 * 1024
BLOCKS = 512
TWO_SHARES = ONE_SHARE + ONE_SHARE.replace("/export", "/copy")


def options(server: ServerProcess) -> list[str]:
    return ["--config", str(server.config_file)]


def back_up(server: ServerProcess, path: Path) -> int:
    return run(["backup", "/export", str(path), *options(server)])


def restore(server: ServerProcess, path: Path, name: str = "/export") -> int:
    return run(["restore", str(path), name, *options(server)])


class EmptyServer(ServerProcess):
    """Its stores are not made before something is restored."""

    def start(self) -> None:
        if self.data.exists():
            super().start()


def test_everything_comes_back_and_handles_stay_good(tmp_path: Path, capsys: Output) -> None:
    source, back, file = tmp_path / "source", tmp_path / "back", tmp_path / "backup"
    source.mkdir()
    make_tree(source)
    (source / os.fsdecode(b"not \xff utf-8")).write_bytes(b"x")
    with ServerProcess(tmp_path / "one") as server, server.connect() as client:
        assert run(["import", str(source), "/export", *options(server)]) == 0
        huge = client.create(client.root, b"huge").obj
        assert huge is not None
        client.setattr(huge, attributes(size=2**42))
        client.write(huge, 2**41, b"far out")
        device = t.mknoddata3(t.ftype3.NF3CHR, t.devicedata3(attributes(mode=0o600), t.specdata3(7, 9)))
        client.mknod(client.root, b"device", device)
        before = client.getattr(huge)
        client.commit(huge)
        assert back_up(server, file) == 0
        assert file.stat().st_mode & 0o777 == 0o600
        assert file.stat().st_size < 20 << 20, "holes are not in it"
        root = client.root
    with EmptyServer(tmp_path / "two") as other:
        capsys.readouterr()
        assert restore(other, file) == 0
        assert "Handles stay good" in capsys.readouterr().out
        found = other.check()
        assert found.returncode == 0, found.stdout
        other.start()
        with other.connect() as client:
            assert client.root == root
            after = client.getattr(huge)
            assert (after.size, after.mtime, after.ctime, after.fileid) == (
                before.size,
                before.mtime,
                before.ctime,
                before.fileid,
            )
            assert client.read(huge, 2**41, 10).data == b"far out\0\0\0"
            assert client.getattr(client.lookup(client.root, b"device").object).rdev == t.specdata3(7, 9)
            fresh = client.getattr(client.create(client.root, b"a new one").obj or b"")
            assert fresh.fileid > after.fileid, "no id is given out twice [NFS-7]"
            for name in (b"huge", b"device", b"a new one"):
                client.remove(client.root, name)
        assert run(["export", "/export", str(back), *options(other)]) == 0
    mine, theirs = described(back), described(source)
    mine.pop("."), theirs.pop(".")  # its time moved when more was made in it
    assert mine == theirs
    assert (back / "holes").stat().st_blocks * 512 < 1_000_000, "holes stay holes"


def test_a_copy_beside_the_share_has_ids_and_handles_of_its_own(tmp_path: Path, capsys: Output) -> None:
    file = tmp_path / "backup"
    with ServerProcess(tmp_path / "one", EMBEDDED + TWO_SHARES) as server:
        with server.connect() as client:
            made = client.create(client.root, b"f").obj
            assert made is not None
            client.write(made, 0, b"content")
            directory = client.mkdir(client.root, b"d").obj
            assert directory is not None
            client.link(made, directory, b"same")
        assert back_up(server, file) == 0
        capsys.readouterr()
        assert restore(server, file, "/copy") == 1
        assert "in use by another process" in capsys.readouterr().err
        assert server.terminate() == 0
        assert restore(server, file, "/copy") == 0
        assert "Handles are new" in capsys.readouterr().out
        found = server.check()
        assert found.returncode == 0, found.stdout
        for name, why in (("/export", "is not empty"), ("/copy", "is not empty"), ("/none", "has no share /none")):
            assert restore(server, file, name) == 1
            assert why in capsys.readouterr().err
        server.start()
        with server.connect("/copy") as copy, server.connect() as client:
            there = copy.lookup(copy.lookup(copy.root, b"d").object, b"same").object
            assert copy.read(there, 0, 100).data == b"content"
            assert copy.getattr(there).nlink == 2
            copy.write(there, 0, b"CHANGED")
            assert client.read(made, 0, 100).data == b"content"


def test_a_damaged_file_restores_nothing(tmp_path: Path, capsys: Output) -> None:
    file = tmp_path / "backup"
    with ServerProcess(tmp_path / "one") as server:
        with server.connect() as client:
            made = client.create(client.root, b"f").obj
            assert made is not None
            client.write(made, 0, b"content" * 1000)
        assert back_up(server, file) == 0
        assert back_up(server, file) == 1, "nothing is overwritten"
    whole = file.read_bytes()
    with EmptyServer(tmp_path / "two") as other:
        for damaged in (whole[:-1], whole[: len(whole) // 2], whole[:-3000] + b"!" + whole[-2999:], b"rubbish"):
            file.write_bytes(damaged)
            capsys.readouterr()
            assert restore(other, file) == 1
            assert "cannot be restored" in capsys.readouterr().err
        assert not other.data.exists(), "not even a store was made"
        file.write_bytes(whole)
        assert restore(other, file) == 0


@contextmanager
def stream(server: ServerProcess) -> Iterator[http.client.HTTPResponse]:
    """A backup that is taken as slowly as the test likes."""
    connection = http.client.HTTPConnection(urlsplit(endpoints(server)["api"]).netloc, timeout=60)
    try:
        headers = {"authorization": f"Bearer {Rest(server).tokens()['change']}", "content-type": "application/json"}
        body = json.dumps({"reason": "a test"})
        connection.request("POST", "/api/v1/backups/export", body, headers)
        answer = connection.getresponse()
        assert answer.status == 200
        with answer:
            yield answer
    finally:
        connection.close()


class Writer(threading.Thread):
    """Changes a share all the time, in an order that tells whether something was left out: in round i everything of
    round i-1 is done."""

    def __init__(self, server: ServerProcess):
        super().__init__()
        self.client = server.connect()
        self.round = 0
        self.put_off = 0
        self.is_over = threading.Event()
        self.error: BaseException | None = None
        make = self.client.create
        self.first, self.second, self.large, self.cut = (
            make(self.client.root, name).obj or b"" for name in (b"first", b"second", b"large", b"cut")
        )
        for number in range(BLOCKS):
            self.client.write(self.large, number * BLOCK, b"old".ljust(BLOCK, b"."), t.stable_how.UNSTABLE)
        self.client.commit(self.large)

    def run(self) -> None:
        try:
            for self.round in itertools.count(1):
                if self.is_over.is_set():
                    return
                self._one_round(self.round, b"%08d" % self.round)
        except BaseException as error:
            self.error = error

    def _again(self, name: str, *arguments: object) -> object:
        """As the clients of kernels do."""
        while True:
            try:
                return getattr(self.client, name)(*arguments)
            except Nfs3Error as error:
                if error.status is not t.nfsstat3.NFS3ERR_JUKEBOX:
                    raise
                self.put_off += 1

    def _one_round(self, number: int, text: bytes) -> None:
        root = self.client.root
        self._again("write", self.first, 0, text)
        self._again("write", self.cut, 0, text * 20_000)
        self._again("setattr", self.cut, attributes(size=8))
        self._again("write", self.second, 0, text)
        made = self._again("create", root, b"new" + text)
        assert isinstance(made, t.CREATE3resok)
        self._again("write", made.obj, 0, text * 100)
        # From the end, where the backup comes last.
        self._again("write", self.large, (BLOCKS - 1 - number % BLOCKS) * BLOCK, text)
        self._again("rename", root, b"new" + text, root, b"named" + text)
        if number > 5:
            self._again("remove", root, b"named%08d" % (number - 5))

    def end(self) -> None:
        self.is_over.set()
        self.join()
        self.client.transport.close()
        assert self.error is None, self.error


def judge(client: MountedClient) -> int:
    """Whether a share is as the writer left it at one moment; its round."""

    def content(name: bytes, count: int = 200_000) -> bytes:
        file = client.lookup(client.root, name).object
        return bytes(client.read(file, 0, count).data)

    first, second, cut = int(content(b"first")), int(content(b"second")), content(b"cut")
    names = {entry.name for entry in client.list_directory(client.root)} - {b".", b".."}
    assert first - 1 <= second <= first
    assert cut[:8] == b"%08d" % first or (cut[:8] == b"%08d" % (first - 1) and second < first)
    assert {cut[i : i + 8] for i in range(0, len(cut), 8)} == {cut[:8]}
    if second == first:
        assert len(cut) == 8
    news = {int(name[3:]) for name in names if name.startswith(b"new")}
    named = {int(name[5:]) for name in names if name.startswith(b"named")}
    assert news <= {second}
    assert max(named) >= second - 1
    assert named == set(range(min(named), max(named) + 1))
    assert len(named) in (4, 5, 6)
    for number in named:
        assert content(b"named%08d" % number) == b"%08d" % number * 100
    large = client.lookup(client.root, b"large").object
    seen = []
    for place in range(BLOCKS):
        found = bytes(client.read(large, place * BLOCK, 8).data)
        if not found.startswith(b"old"):
            assert int(found) % BLOCKS == BLOCKS - 1 - place
            seen.append(int(found))
    newest = max(seen)
    assert newest in (second, second - 1)
    assert sorted(seen) == list(range(max(1, newest - BLOCKS + 1), newest + 1)), (
        "every round up to the moment, no other"
    )
    return first


@pytest.mark.parametrize("stores", [EMBEDDED, MEMORY], ids=["embedded", "memory"])
def test_one_moment_of_a_share_that_is_changed_all_the_time(tmp_path: Path, stores: str) -> None:
    file = tmp_path / "backup"
    with ServerProcess(tmp_path / "one", stores + ONE_SHARE) as server:
        writer = Writer(server)
        writer.start()
        until(lambda: writer.round > 20)
        with stream(server) as answer:
            begin = answer.read(1000)
            asked_at = writer.round
            until(lambda: writer.round > asked_at + 30 or writer.error)
            assert Rest(server).ask("/api/v1/backups/export", {"reason": "a second one"}).status == 409
            file.write_bytes(begin + answer.read())
        writer.end()
        with server.connect() as client:
            assert judge(client) > asked_at + 30
        assert Rest(server).get("/audit")["entries"][0]["outcome"] == "done"
    with EmptyServer(tmp_path / "two") as other:
        assert restore(other, file) == 0
        found = other.check()
        assert found.returncode == 0, found.stdout
        other.start()
        with other.connect() as client:
            assert judge(client) <= asked_at + 1, "what came later is not in it"


def test_a_client_that_goes_away_leaves_nothing_behind(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "one") as server:
        writer = Writer(server)
        with stream(server) as answer:
            answer.read(1000)
            writer.client.remove(writer.client.root, b"large")
        until(lambda: "went away" in Rest(server).get("/audit")["entries"][0]["outcome"])
        content = server.data / "files"
        until(lambda: not any(path.stat().st_size > 1 << 20 for path in content.rglob("*") if path.is_file()))
        assert back_up(server, tmp_path / "backup") == 0
        writer.client.transport.close()
        with stream(server) as answer:
            assert answer.status == 200
            assert server.terminate() == 0


def test_who_may_and_what_can(tmp_path: Path, capsys: Output) -> None:
    with ServerProcess(tmp_path / "one") as server:
        assert Rest(server, "read").ask("/api/v1/backups/export", {"reason": "curious"}).status == 403
        assert Rest(server, None).ask("/api/v1/backups/export", {"reason": "curious"}).status == 401
        assert Rest(server).ask("/api/v1/backups/nothing", {"reason": "curious"}).status == 404
        assert run(["backup", "/nothing", str(tmp_path / "backup"), *options(server)]) == 1
        assert "there is no share /nothing" in capsys.readouterr().err
        assert server.terminate() == 0
        assert back_up(server, tmp_path / "backup") == 1
        assert "no server runs" in capsys.readouterr().err
    assert list(tmp_path.glob("backup*")) == []
