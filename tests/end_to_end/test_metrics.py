"""A scrape of a running server tells what its clients did [OPS-4]."""

import socket
from pathlib import Path

import pytest

from tests.end_to_end.endpoints import scrape, value
from tests.end_to_end.server_process import EMBEDDED, ONE_SHARE, ServerProcess

pytestmark = pytest.mark.slow


def test_calls_bytes_and_commits_are_counted(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server, server.connect() as client:
        before = scrape(server)
        file = client.create(client.root, b"file").obj
        assert file is not None
        client.write(file, 0, b"x" * 5000)
        for _ in range(7):
            client.getattr(file)
        with pytest.raises(Exception, match="NOENT"):
            client.lookup(client.root, b"nothing")
        after = scrape(server)

    def grown(name: str, **labels: str) -> float:
        return value(after, name, **labels) - value(before, name, **labels)

    assert grown("nfs_requests_total", procedure="GETATTR", status="ok") == 7
    assert grown("nfs_requests_total", procedure="LOOKUP", status="noent") == 1
    assert grown("nfs_requests_total", procedure="CREATE", status="ok") == 1
    assert grown("nfs_request_duration_seconds_count", procedure="GETATTR") == 7
    assert grown("nfs_request_duration_seconds_count", procedure="CREATE") == 1
    assert value(before, "mount_requests_total", procedure="MNT", status="ok") == 1
    assert grown("dittofs_written_bytes_total") == 5000
    assert grown("dittofs_commit_flush_seconds_count", store="meta") >= 1
    assert grown("dittofs_commit_batch_records_sum", store="meta") >= 3
    assert value(after, "dittofs_connections_active", adapter="nfs") == 1
    assert value(after, "dittofs_connections_total", adapter="nfs", event="accepted") == 1
    assert value(after, "dittofs_network_bytes_total", transport="tcp", direction="sent") > 0
    assert value(after, "process_resident_memory_bytes") > 0


def test_a_taken_port_does_not_stop_the_file_service_and_is_told(tmp_path: Path) -> None:
    """Files are more important than figures about them: they are served, and nobody can miss what is not."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = f'{EMBEDDED}{ONE_SHARE}[metrics]\nlisten = "127.0.0.1:{port}"\n'
        with ServerProcess(tmp_path, config=config) as server, server.connect() as client:
            client.getattr(client.root)
            assert f"metrics is not served: 127.0.0.1:{port}: Address already in use" in server.printed
            assert "files are served without it" in server.log()


def test_metrics_can_be_switched_off(tmp_path: Path) -> None:
    config = f'{EMBEDDED}{ONE_SHARE}[metrics]\nlisten = ""\n'
    with ServerProcess(tmp_path, config=config) as server:
        assert "metrics" not in server.log()
