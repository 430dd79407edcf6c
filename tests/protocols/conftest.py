"""Worlds for the tests of protocols."""

from collections.abc import Iterator

import pytest

from dittofs.client.nfs3 import Nfs3Client
from tests.protocols.world import World


@pytest.fixture
def world() -> Iterator[World]:
    """A server without shares."""
    made = World()
    yield made
    made.close()


@pytest.fixture
def nfs(world: World) -> Nfs3Client:
    """Root's calls to a server with the share /export."""
    world.add_share()
    return world.nfs()


@pytest.fixture
def root(world: World, nfs: Nfs3Client) -> bytes:
    """The handle of /export."""
    return world.root()
