"""SETATTR's rules: who may set what, and what else that changes."""

import pytest
from msgspec.structs import replace

from dittofs.files import namespace
from dittofs.files.attributes import set_attributes
from dittofs.files.namespace import CreateMode
from dittofs.files.records import UNSTABLE
from dittofs.files.values import NOTHING, Change, File, ServerTime, SetAttributes
from dittofs.model.errors import AccessDenied, FileError, GuardFailed, NotPermitted
from dittofs.model.identity import Identity
from tests.files.world import ALICE, BOB, ROOT, At, World

NOW = ServerTime.NOW


@pytest.fixture
def world() -> World:
    return World()


def make(world: World, mode: int = 0o644, who: Identity = ALICE) -> File:
    file: File = world.call(
        namespace.create, who, At(world.root), b"f", SetAttributes(mode=mode), CreateMode.GUARDED
    ).file
    return file


def change(world: World, file: File, who: Identity = ALICE, guard: int | None = None, **wanted: object) -> Change:
    world.transactions.now += 1_000
    result: Change = world.transactions.run(
        set_attributes,
        who,
        world.load(file.id),
        SetAttributes(**wanted),
        guard,  # type: ignore[arg-type]
    )
    return result


def test_mode(world: World) -> None:
    file = make(world)
    done = change(world, file, mode=0o104755)
    assert done.before == file
    assert done.after == done.file == world.load(file.id)
    assert done.after.inode.mode == 0o4755
    assert done.after.ctime > file.ctime
    assert done.after.mtime == file.mtime


@pytest.mark.parametrize(
    ("who", "wanted", "error"),
    [
        (BOB, {"mode": 0o777}, NotPermitted),
        (BOB, {"uid": 1000}, NotPermitted),  # not even to whom it belongs already
        (BOB, {"gid": 1001}, NotPermitted),
        (ALICE, {"uid": 1001}, NotPermitted),
        (ALICE, {"uid": 1000}, None),
        (ALICE, {"gid": 2000}, None),
        (ALICE, {"gid": 1000}, None),
        (ALICE, {"gid": 3000}, NotPermitted),
        (ROOT, {"uid": 7, "gid": 3000}, None),
        (ROOT, {"mode": 0o600}, None),
        (BOB, {"atime": 5}, NotPermitted),
        (BOB, {"mtime": 5}, NotPermitted),
        (BOB, {"mtime": NOW}, AccessDenied),
        (BOB, {"mtime": NOW, "atime": 5}, (AccessDenied, NotPermitted)),
        (ALICE, {"mtime": 5, "atime": 6}, None),
        (ROOT, {"mtime": 5}, None),
        (BOB, {}, None),
    ],
)
def test_who_may(
    world: World, who: Identity, wanted: dict[str, object], error: type[FileError] | tuple[type[FileError]] | None
) -> None:
    file = make(world)
    if error is None:
        change(world, file, who, **wanted)
        return
    with pytest.raises(error):
        change(world, file, who, **wanted)
    assert world.load(file.id) == file


def test_whoever_may_write_may_touch(world: World) -> None:
    file = make(world, 0o666)
    after = change(world, file, BOB, mtime=NOW, atime=NOW).after
    assert after.mtime == after.inode.atime == world.transactions.now
    with pytest.raises(NotPermitted):
        change(world, file, BOB, mtime=NOW, atime=5)


def test_the_owner_touches_what_nobody_may_write(world: World) -> None:
    assert change(world, make(world, 0o000), mtime=NOW).after.mtime == world.transactions.now


def test_times_are_kept_to_the_nanosecond_and_ctime_is_the_servers(world: World) -> None:
    file = make(world)
    after = change(world, file, atime=1_000_000_000_123_456_789, mtime=2**32 * 10**9 - 1).after
    assert after.inode.atime == 1_000_000_000_123_456_789
    assert after.mtime == 2**32 * 10**9 - 1
    assert after.ctime == world.transactions.now


def test_a_touch_brings_a_time_back_from_the_future(world: World) -> None:
    file = make(world)
    change(world, file, mtime=2**32 * 10**9 - 1)
    assert change(world, file, mtime=NOW).after.mtime == world.transactions.now


@pytest.mark.parametrize("wanted", [{"uid": 5}, {"gid": 2000}, {"uid": 5, "gid": 6, "mode": 0o6755}])
def test_a_new_owner_gets_no_privileges(world: World, wanted: dict[str, object]) -> None:
    file = make(world, 0o6755)
    assert change(world, file, ROOT, **wanted).after.inode.mode == 0o755


def test_a_directory_keeps_setgid_when_it_is_given_away(world: World) -> None:
    directory = world.call(namespace.make_directory, ALICE, At(world.root), b"d", SetAttributes(mode=0o2755)).file
    assert change(world, directory, ROOT, uid=5).after.inode.mode == 0o2755


def test_setgid_is_for_members(world: World) -> None:
    """chmod(2): the bit is dropped in silence for a group that one is not in."""
    file = make(world)
    change(world, file, ROOT, gid=3000)
    assert change(world, file, mode=0o2755).after.inode.mode == 0o755
    assert change(world, file, ROOT, mode=0o2755).after.inode.mode == 0o2755
    change(world, file, ROOT, gid=2000)
    assert change(world, file, mode=0o2755).after.inode.mode == 0o2755


def test_the_guard(world: World) -> None:
    """RFC 1813 3.3.2."""
    file = make(world)
    after = change(world, file, guard=file.ctime, mode=0o600).after
    with pytest.raises(GuardFailed):
        change(world, file, guard=file.ctime, mode=0o644)
    with pytest.raises(GuardFailed):
        change(world, file, guard=after.ctime + 1)
    assert change(world, file, guard=after.ctime, mode=0o644).after.inode.mode == 0o644


def test_nothing_wanted_changes_nothing(world: World) -> None:
    file = make(world)
    assert change(world, file) == Change(file, file, file)
    assert SetAttributes() == NOTHING


def test_a_symlinks_mode_is_left_alone(world: World) -> None:
    link = world.call(namespace.make_symlink, ALICE, At(world.root), b"s", b"t", NOTHING).file
    assert change(world, link, mode=0o600).after == link
    assert change(world, link, mode=0o600, mtime=5).after.inode.mode == 0o777
    assert world.load(link.id).mtime == 5


def test_directories_have_their_times_apart(world: World) -> None:
    directory = world.call(namespace.make_directory, ALICE, At(world.root), b"d", SetAttributes(mode=0o777)).file
    after = change(world, directory, mode=0o755).after
    assert after == world.load(directory.id)
    assert (after.inode.mode, after.mtime) == (0o755, directory.mtime)
    assert after.ctime == world.transactions.now
    after = change(world, directory, mtime=5, atime=6).after
    assert after == world.load(directory.id)
    assert (after.mtime, after.inode.atime, after.ctime) == (5, 6, world.transactions.now)
    assert after.links == 2
    world.call(namespace.create, ALICE, At(directory.id), b"x", NOTHING, CreateMode.GUARDED)
    assert world.load(directory.id).mtime == world.transactions.now


def test_a_file_that_is_being_written_to_keeps_its_durable_size(world: World) -> None:
    """The size becomes durable with the content, the mode at once [STORE-3]."""
    file = make(world)
    shadow = replace(file.inode, size=100, ctime=file.ctime + 1)
    world.transactions.run(lambda view: view.put(UNSTABLE, file.id, shadow))
    after = change(world, file, mode=0o600, mtime=5).after
    assert (after.inode.size, after.inode.mode, after.mtime) == (100, 0o600, 5)
    assert world.load(file.id) == after
    world.transactions.flush()
    world.lose_power()
    stable = world.load(file.id).inode
    assert (stable.size, stable.mode, stable.mtime) == (0, 0o600, 5)
