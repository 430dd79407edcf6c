"""The stores that a configuration names: a user's own, data of a newer format, data that somebody else has."""

import subprocess
from pathlib import Path

import pytest

from dittofs.protocols.nfs3.types import stable_how
from tests.end_to_end.server_process import ONE_SHARE, SOURCE, ServerProcess

pytestmark = pytest.mark.slow

EXAMPLES = SOURCE.parent / "examples"

# As examples/README.md shows it.
OWN_STORES = """
[stores.meta]
kind = "sqlite_metadata:SqliteMetadataStore"
path = "meta"
[stores.files]
kind = "sqlite_content:SqliteContentStore"
path = "files"
"""


def serve_and_fail(server: ServerProcess) -> str:
    """What a server says that refuses to start: one line, no traceback."""
    ended = subprocess.run(
        server.command("serve"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PYTHONPATH": str(SOURCE)},
    )
    assert ended.returncode != 0
    assert "Traceback" not in ended.stderr
    return ended.stderr


@pytest.mark.parametrize("metadata", ["memory", "embedded"])
@pytest.mark.parametrize("content", ["memory", "directory"])
def test_each_metadata_store_goes_with_each_content_store(tmp_path: Path, metadata: str, content: str) -> None:
    """[STORE-1]: and the log says so where a restart would leave only half of a share."""
    config = f'[stores.meta]\nkind = "{metadata}"\n[stores.files]\nkind = "{content}"\n{ONE_SHARE}'
    with ServerProcess(tmp_path, config) as server:
        with server.connect() as client:
            file = client.create(client.root, b"file").obj
            client.write(file, 0, b"abc" * 50_000)
            assert client.read(file, 0, 200_000).data == b"abc" * 50_000
            assert [entry.name for entry in client.list_directory(client.root) if entry.name == b"file"]
        is_half = (metadata == "memory") != (content == "memory")
        assert ("keeps one and forgets the other" in server.log()) == is_half
        assert server.terminate() == 0


def test_a_store_of_the_users_own_is_served(tmp_path: Path) -> None:
    """[STORE-4] [STORE-3]: named in the configuration, it serves files, and they survive a kill."""
    own = {"PYTHONPATH": f"{SOURCE}:{EXAMPLES}"}
    with ServerProcess(tmp_path, OWN_STORES + ONE_SHARE, environment=own) as server:
        with server.connect() as client:
            directory = client.mkdir(client.root, b"directory").obj
            file = client.create(directory, b"file").obj
            client.write(file, 0, b"s" * 100_000)
            unstable = client.write(file, 100_000, b"u" * 100_000, stable_how.UNSTABLE)
            assert client.commit(file).verf == unstable.verf
            client.create(directory, b"gone")
            client.remove(directory, b"gone")
        server.kill()
        server.start()
        with server.connect() as client:
            assert client.lookup(directory, b"file").object == file
            assert client.read(file, 0, 300_000).data == b"s" * 100_000 + b"u" * 100_000
            assert {entry.name for entry in client.list_directory(directory)} == {b".", b"..", b"file"}
        assert server.terminate() == 0
        assert (server.data / "meta" / "records.sqlite").exists()
        assert (server.data / "files" / "content.sqlite").exists()
        checked = server.check()
        assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize(
    ("place", "kind"), [("meta", "embedded-metadata"), ("files", "content-directory"), (".", "server")]
)
def test_data_of_a_newer_format_is_refused_by_name(tmp_path: Path, place: str, kind: str) -> None:
    """[STORE-3]: and left as it is."""
    with ServerProcess(tmp_path) as server:
        with server.connect() as client:
            client.create(client.root, b"file")
        assert server.terminate() == 0
        path = server.data / place / "format"
        text = path.read_text()
        assert f"dittofs {kind} format 1 " in text
        path.write_text(text.replace("format 1 ", "format 7 "))
        said = serve_and_fail(server)
        assert f"{kind} format 7, written by a newer DittoFS" in said
        assert str(path.parent.resolve()) in said
        if place != ".":
            checked = server.check()
            assert checked.returncode == 1
            assert "written by a newer DittoFS" in checked.stdout
        path.write_text(text)
        server.start()
        with server.connect() as client:
            client.lookup(client.root, b"file")


def test_a_second_server_on_the_same_data_is_refused(tmp_path: Path) -> None:
    """[STORE-3]: with the number of the process that has it, which goes on."""
    with ServerProcess(tmp_path) as server:
        said = serve_and_fail(server)
        assert f"{server.data} is in use by another process (pid {server.pid}); stop that one first" in said
        with server.connect() as client:
            client.create(client.root, b"file")
            pid = server.pid
        checked = subprocess.run(
            server.command("check"),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={"PYTHONPATH": str(SOURCE)},
        )
        assert checked.returncode == 1
        assert f"(pid {pid})" in checked.stdout
        server.kill()
        server.start()
        with server.connect() as client:
            client.lookup(client.root, b"file")
