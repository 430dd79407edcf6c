"""Other people's tools on a server with nothing but defaults: libnfs, showmount and rpcinfo."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = [pytest.mark.root, pytest.mark.slow]

SOURCE = Path(__file__).parents[2] / "src"
TOOLS = ("ip", "nfs-ls", "nfs-cp", "nfs-cat", "showmount", "rpcinfo")
SEARCH_PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"


@dataclass(frozen=True)
class Network:
    """A network namespace of its own, where port 111 is free."""

    name: str

    def argv(self, *argv: str) -> list[str]:
        return ["ip", "netns", "exec", self.name, *argv]

    def run(self, *argv: str) -> str:
        """The output of a command that must succeed."""
        done = self.attempt(*argv)
        assert done.returncode == 0, f"{argv}: status {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def attempt(self, *argv: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PATH": SEARCH_PATH}
        return subprocess.run(
            self.argv(*argv), capture_output=True, text=True, timeout=30, check=False, env=environment
        )


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    if os.geteuid() != 0:
        pytest.skip("a network namespace needs root")
    if missing := [tool for tool in TOOLS if not shutil.which(tool, path=SEARCH_PATH)]:
        pytest.skip(f"not installed: {', '.join(missing)} (tests/install-packages installs them)")
    name = f"dittofs-test-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no network namespaces here: {made.stderr.strip()}")
    try:
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        yield Network(name)
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False)


@pytest.fixture(scope="module")
def served(network: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    """The network with `dittofs serve` in it, on defaults but for the place of its data."""
    data = tmp_path_factory.mktemp("data")
    argv = network.argv(sys.executable, "-m", "dittofs", "serve", "--data", str(data))
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stdout is not None
        try:
            first = server.stdout.readline()
            assert first == "Serving /export on port 12049.\n", "the server did not start"
            yield network
        finally:
            server.terminate()
            assert server.wait(20) == 0


def url(path: str = "") -> str:
    return f"nfs://127.0.0.1/export{path}"


def test_showmount_lists_the_share(served: Network) -> None:
    """[NFS-2] [NFS-3]: EXPORT, found through our own port mapper."""
    heading, *exports = served.run("showmount", "-e", "127.0.0.1").splitlines()
    assert heading == "Export list for 127.0.0.1:"
    assert [line.split()[0] for line in exports] == ["/export"]


def test_rpcinfo_lists_every_program_on_both_transports(served: Network) -> None:
    """[NFS-3]: port mapper version 2."""
    listed = {tuple(line.split()[:4]) for line in served.run("rpcinfo", "-p", "127.0.0.1").splitlines()[1:]}
    expected = {("100003", "3", transport, "12049") for transport in ("tcp", "udp")}
    expected |= {("100005", version, transport, "12049") for version in "13" for transport in ("tcp", "udp")}
    expected |= {("100000", version, transport, "111") for version in "234" for transport in ("tcp", "udp")}
    assert expected <= listed


def test_rpcinfo_reads_rpcbind_version_4(served: Network) -> None:
    """[NFS-3]: universal addresses, IPv6 included."""
    out = served.run("rpcinfo", "127.0.0.1")
    assert re.search(r"100003 +3 +tcp +0\.0\.0\.0\.47\.17 ", out)
    assert re.search(r"100003 +3 +tcp6 +::\.47\.17 ", out)


@pytest.mark.parametrize("transport", ["tcp", "udp"])
@pytest.mark.parametrize(("program", "version"), [("100003", "3"), ("100005", "1"), ("100005", "3"), ("100000", "2")])
def test_the_null_procedure_answers(served: Network, transport: str, program: str, version: str) -> None:
    """[NFS-1] [NFS-2] [NFS-3]: every program over TCP and UDP."""
    assert f"program {program} version {version} ready" in served.run(
        "rpcinfo", "-T", transport, "127.0.0.1", program, version
    )


def test_an_unknown_version_is_named_with_its_bounds(served: Network) -> None:
    """[NFS-6]: PROG_MISMATCH, with the lowest and highest version."""
    answer = served.attempt("rpcinfo", "-a", "127.0.0.1.47.17", "-T", "tcp", "100003", "9")
    assert answer.returncode != 0
    assert "low version = 3, high version = 3" in answer.stdout + answer.stderr


def test_libnfs_copies_lists_and_prints_files(served: Network, tmp_path: Path) -> None:
    """[NFS-1]: a megabyte there and back, with a listing in between."""
    content = os.urandom(3_000_001)
    (tmp_path / "there").write_bytes(content)
    served.run("nfs-cp", str(tmp_path / "there"), url("/copied"))
    assert re.search(r"-rw.* +3000001 copied\n", served.run("nfs-ls", url()))
    served.run("nfs-cp", url("/copied"), str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == content

    (tmp_path / "text").write_text("a line\n")
    served.run("nfs-cp", str(tmp_path / "text"), url("/text"))
    assert served.run("nfs-cat", url("/text")) == "a line\n"


def test_libnfs_hears_of_what_is_not_there(served: Network) -> None:
    """[NFS-2]: a missing file, and a share that does not exist."""
    assert "NOENT" in served.attempt("nfs-cat", url("/missing")).stderr
    answer = served.attempt("nfs-ls", "nfs://127.0.0.1/elsewhere")
    assert answer.returncode != 0
    assert re.search(r"NOENT|ACCES", answer.stderr)


def test_libnfs_discovers_the_server_by_its_exports(served: Network) -> None:
    """[NFS-2]: without a path libnfs asks for the export list."""
    assert "nfs://127.0.0.1/export" in served.run("nfs-ls", "-D", "nfs://127.0.0.1")


def test_a_second_server_on_the_same_data_is_refused(network: Network, tmp_path: Path) -> None:
    """Exit status 1 and one clear line, while the first goes on."""
    argv = network.argv(sys.executable, "-m", "dittofs", "serve", "--data", str(tmp_path), "--port", "0")
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "DITTOFS_SERVER_PORTMAP": "off"}
    environment |= {f"DITTOFS_{part}_LISTEN": "127.0.0.1:0" for part in ("API", "METRICS")}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment) as first:
        try:
            assert first.stdout is not None
            assert first.stdout.readline().startswith("Serving /export")
            second = subprocess.run(argv, capture_output=True, text=True, timeout=30, env=environment, check=False)
            assert second.returncode == 1
            assert second.stderr.startswith("dittofs: ")
            assert second.stderr.count("\n") == 1
            assert str(tmp_path) in second.stderr
        finally:
            first.terminate()
        assert first.wait(20) == 0
