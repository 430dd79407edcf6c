"""A declared metric that nothing touches is a lie [OPS-4]: after a day in the life of a server every one has moved."""

from pathlib import Path

import pytest

from dittofs.client.transports import UdpTransport
from dittofs.protocols.nsm.types import PROGRAM, VERSION
from dittofs.rpc.calling import CallFailed, Exchange
from tests.end_to_end.control import Rest, until
from tests.end_to_end.endpoints import Samples, scrape, value
from tests.end_to_end.locking import (
    ALICE,
    BLOCKED,
    BOB,
    CAROL,
    DEADLCK,
    DENIED,
    GRANTED,
    NOLOCKS,
    LockWorld,
    lock_world,
)
from tests.end_to_end.server_process import EMBEDDED, ONE_SHARE, ServerProcess
from tests.hosts.network import own_address

pytestmark = [pytest.mark.slow, pytest.mark.root, pytest.mark.timeout(300)]

OURS = ("dittofs_", "nfs_", "mount_", "nlm_", "nsm_")
ELSEWHERE = {
    "dittofs_store_lost_batches_total": "needs a disk that fails: tests/locks/test_service_faults.py",
    "dittofs_store_queries_total": "needs a store across a network: tests/stores/test_postgres_metadata.py",
    "dittofs_rpc_replayed_total": "needs a retransmission: tests/end_to_end/test_nfs_replay.py",
}
NAMES = [
    "dittofs_locks_acquire_total",
    "dittofs_locks_release_total",
    "dittofs_locks_active",
    "dittofs_locks_blocked",
    "dittofs_locks_blocking_duration_seconds",
    "dittofs_locks_hold_duration_seconds",
    "dittofs_locks_limit_hits_total",
    "dittofs_locks_deadlock_detected_total",
    "dittofs_locks_grace_period_active",
    "dittofs_locks_grace_period_remaining_seconds",
    "dittofs_locks_reclaim_total",
    "dittofs_connections_active",
    "dittofs_connections_total",
    "nlm_requests_total",
    "nlm_request_duration_seconds",
    "nlm_blocking_queue_size",
    "nlm_callbacks_total",
    "nlm_callback_duration_seconds",
    "nfs_requests_total",
    "nfs_request_duration_seconds",
    "mount_requests_total",
    "mount_request_duration_seconds",
    "nsm_requests_total",
    "nsm_request_duration_seconds",
]


def family(sample: str) -> str:
    for ending in ("_bucket", "_sum", "_count", "_created"):
        sample = sample.removesuffix(ending)
    return sample


def contend(world: LockWorld) -> None:
    one, two, three = (world.nlm(world.host(name)) for name in (b"one", b"two", b"three"))
    left, right = world.file(), world.file()
    assert one.lock(ALICE, left) is GRANTED
    assert two.lock(BOB, left, exclusive=False) is DENIED
    assert two.lock(BOB, left, block=True) is BLOCKED
    assert three.lock(CAROL, right) is GRANTED
    for number in range(10):
        if three.lock(CAROL, type(right)(handle=world.file().handle, offset=number, length=1)) is NOLOCKS:
            break
    else:
        raise AssertionError("no limit was reached")
    assert one.lock(ALICE, right, block=True) is BLOCKED
    assert three.lock(CAROL, left, block=True) is DEADLCK


def ask_around(world: LockWorld) -> None:
    """One call of everything that locks do not need."""
    file = world.nfs.create(world.nfs.root, b"content").obj
    assert file is not None
    world.nfs.write(file, 0, b"some bytes")
    world.nfs.read(file, 0, 10)
    for _ in range(3):
        world.nfs.getattr(file)
    status = Exchange("SM_NULL", PROGRAM, VERSION, 0, None, None)
    datagrams = world.server.transport(over=UdpTransport)
    datagrams.call(status)
    with pytest.raises(CallFailed):
        datagrams.call(Exchange("nothing", 300_000, 1, 0, None, None))
    datagrams.close()


def test_every_declared_metric_moves(tmp_path: Path) -> None:
    """Locks held, denied, awaited, granted by callback, over a limit, in a deadlock; a crash, grace and a reclaim."""
    config = EMBEDDED + ONE_SHARE + "[locks]\nmax_per_client = 3\n"
    seen: list[Samples] = []
    with lock_world(tmp_path, config) as world:
        contend(world)
        kept = world.file()
        seen.append(scrape(world.server))
        ask_around(world)
        owner = next(one for one in Rest(world.server).get("/locks")["locks"] if one["owner"]["name"] == "one")
        Rest(world.server).post(f"/locks/{owner['id']}/release", reason="to wake the next one")
        until(lambda: value(scrape(world.server), "nlm_callbacks_total", result="success"))
        seen.append(scrape(world.server))
        world.server.kill()
        world.server.start()
        seen.append(scrape(world.server))
        assert value(seen[-1], "dittofs_locks_grace_period_active") == 1
        world.nlm(world.host(b"late")).lock(ALICE, kept, reclaim=True)
        seen.append(scrape(world.server))
    declared = {family(name) for samples in seen for name, _ in samples if name.startswith(OURS)}
    moved = {family(name) for samples in seen for (name, _), found in samples.items() if found}
    assert set(NAMES) <= moved, sorted(set(NAMES) - moved)
    still = declared - moved - set(ELSEWHERE)
    assert not still, sorted(still)


def test_the_port_mapper_is_counted_too(tmp_path: Path) -> None:
    address = own_address()
    where, mode = f'listen = ["{address}"]', {"DITTOFS_SERVER_PORTMAP": "embedded"}
    with ServerProcess(tmp_path, server=where, environment=mode) as server:
        with UdpTransport(address, 111) as mapper:
            mapper.call(Exchange("PMAPPROC_NULL", 100_000, 2, 0, None, None))
        found = scrape(server)
        assert value(found, "portmap_requests_total", procedure="NULL", status="ok") == 1
        assert value(found, "portmap_request_duration_seconds_count") == 1
        assert value(found, "dittofs_network_bytes_total", adapter="portmap", transport="udp", direction="sent") > 0
