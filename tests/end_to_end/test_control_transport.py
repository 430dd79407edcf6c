"""The control plane's HTTP itself: TLS, live events, and stopping with somebody connected."""

import json
import shutil
import socket
import subprocess
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dittofs.cli.main import run
from tests.end_to_end.control import Rest
from tests.end_to_end.endpoints import endpoints
from tests.end_to_end.server_process import EMBEDDED, MEMORY, ONE_SHARE, ServerProcess

pytestmark = pytest.mark.slow


def test_with_a_certificate_only_https_is_spoken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here to make a certificate with")
    certificate, private = tmp_path / "certificate.pem", tmp_path / "private.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    where = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(private), "-out", str(certificate)]
    subprocess.run([*make, *where], check=True, capture_output=True, timeout=60)
    api = f'[api]\nlisten = "127.0.0.1:0"\ntls_certificate = "{certificate}"\ntls_private = "{private}"\n'
    with ServerProcess(tmp_path / "server", config=MEMORY + ONE_SHARE + api) as server:
        url = endpoints(server)["api"]
        assert url.startswith("https://")
        assert run(["status", "--config", str(server.config_file)]) == 0
        assert url in capsys.readouterr().out
        with pytest.raises(OSError, match=r"."):
            urllib.request.urlopen(url.replace("https:", "http:") + "/api/v1/live", timeout=10)


def test_a_bad_certificate_is_told_and_files_are_served(tmp_path: Path) -> None:
    (tmp_path / "bad.pem").write_text("this is no certificate")
    api = f'[api]\nlisten = "127.0.0.1:0"\ntls_certificate = "{tmp_path / "bad.pem"}"\n'
    with ServerProcess(tmp_path / "server", config=MEMORY + ONE_SHARE + api) as server, server.connect() as client:
        client.getattr(client.root)
        assert "api is not served" in server.printed
        assert "cannot be used as a certificate" in server.printed


def test_events_tell_the_status_and_do_not_keep_the_server_from_stopping(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, config=EMBEDDED + ONE_SHARE) as server:
        rest = Rest(server)
        place = urlsplit(endpoints(server)["api"])
        assert place.hostname is not None
        with socket.create_connection((place.hostname, place.port or 0), timeout=30) as stream:
            token = rest.tokens()["read"]
            ask = f"GET /api/v1/events HTTP/1.1\r\nhost: {place.netloc}\r\nauthorization: Bearer {token}\r\n\r\n"
            stream.sendall(ask.encode())
            reader = stream.makefile("rb")
            line = next(line for line in reader if line.startswith(b"data: "))
            assert json.loads(line.removeprefix(b"data: "))["version"]
            assert server.terminate() == 0
        assert "Traceback" not in server.log()
        assert not (server.data / "endpoints.json").exists()
