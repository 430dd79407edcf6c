"""Servers that the tests of one module share."""

from collections.abc import Iterator

import pytest

from tests.end_to_end.server_process import (
    EMBEDDED,
    MEMORY,
    ONE_SHARE,
    POSTGRES,
    MountedClient,
    ServerProcess,
    over_postgres,
)
from tests.postgres.instance import PostgresInstance


@pytest.fixture(scope="module", params=[EMBEDDED, MEMORY, POSTGRES], ids=["embedded", "memory", "postgres"])
def either(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server over each kind of store, on IPv4 and IPv6."""
    directory = tmp_path_factory.mktemp("server")
    stores = request.param
    if stores == POSTGRES:
        postgres: PostgresInstance = request.getfixturevalue("postgres")
        stores = over_postgres(postgres.new_database())
    with ServerProcess(directory, stores + ONE_SHARE, server='listen = ["127.0.0.1", "::1"]') as running:
        yield running


@pytest.fixture
def client(either: ServerProcess) -> Iterator[MountedClient]:
    """Root's, in a directory of its own: `root` is that directory."""
    with either.connect() as connected:
        name = b"test-%d" % len(list(connected.list_directory(connected.root)))
        connected.root = bytes(connected.mkdir(connected.root, name).obj)
        yield connected
