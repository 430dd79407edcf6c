"""The rules of names, one by one; `test_namespace_model` tries them in combination."""

import pytest
from msgspec.structs import replace

from dittofs.files import namespace
from dittofs.files.namespace import CreateMode
from dittofs.files.records import (
    DIRECTORIES,
    INODES,
    MAX_FILE_SIZE,
    MAX_LINKS,
    PATH_MAX,
    RECLAIMS,
    FileType,
)
from dittofs.files.renaming import rename
from dittofs.files.values import NOTHING, Change, File, Removed, Renamed, ServerTime, SetAttributes
from dittofs.model.errors import (
    AccessDenied,
    AlreadyExists,
    BadCookie,
    DirectoryNotEmpty,
    FileError,
    FileTooBig,
    InvalidArgument,
    IsADirectory,
    NameTooLong,
    NotADirectory,
    NotFound,
    NotPermitted,
    StaleHandle,
    TooManyLinks,
    WrongType,
)
from dittofs.model.identity import Identity
from dittofs.model.ids import FileId
from tests.files.world import ALICE, BOB, CAROL, ROOT, SHARE, At, World

ILLEGAL_NAMES = [
    (b"", AccessDenied),
    (b"a/b", AccessDenied),
    (b"a\0b", AccessDenied),
    (b"n" * 256, NameTooLong),
]


@pytest.fixture
def world() -> World:
    return World()


def create(
    world: World,
    name: bytes,
    *,
    who: Identity = ALICE,
    within: FileId | None = None,
    wanted: SetAttributes = SetAttributes(mode=0o644),  # noqa: B008
    mode: CreateMode = CreateMode.UNCHECKED,
    verifier: bytes = b"",
) -> Change:
    directory = At(world.root if within is None else within)
    created: Change = world.call(namespace.create, who, directory, name, wanted, mode, verifier)
    return created


def mkdir(
    world: World, name: bytes, *, who: Identity = ALICE, within: FileId | None = None, mode: int = 0o755
) -> FileId:
    directory = At(world.root if within is None else within)
    made = world.call(namespace.make_directory, who, directory, name, SetAttributes(mode=mode)).file
    assert isinstance(made, File)
    return made.id


def lookup(world: World, name: bytes, *, who: Identity = ALICE, within: FileId | None = None) -> File:
    file: File = world.call(namespace.lookup, who, At(world.root if within is None else within), name)
    return file


def move(
    world: World,
    source: bytes,
    target: bytes,
    *,
    who: Identity = ALICE,
    src: FileId | None = None,
    dst: FileId | None = None,
) -> Renamed:
    renamed: Renamed = world.call(rename, who, At(src or world.root), source, At(dst or world.root), target)
    return renamed


# Looking up.


def test_lookup_finds_what_was_created(world: World) -> None:
    created = create(world, b"f")
    assert lookup(world, b"f") == created.file
    assert lookup(world, b"f").inode.mode == 0o644


def test_lookup_of_dots(world: World) -> None:
    """RFC 1813 3.2: above the root there is the root."""
    below = mkdir(world, b"d")
    assert lookup(world, b".", within=below).id == below
    assert lookup(world, b"..", within=below).id == world.root
    assert lookup(world, b"..").id == world.root


@pytest.mark.parametrize(("name", "error"), ILLEGAL_NAMES)
def test_lookup_of_what_cannot_be_a_name(world: World, name: bytes, error: type[FileError]) -> None:
    with pytest.raises(error):
        lookup(world, name)


def test_lookup_of_nothing_and_in_no_directory(world: World) -> None:
    with pytest.raises(NotFound):
        lookup(world, b"f")
    file = create(world, b"f").file
    with pytest.raises(NotADirectory):
        lookup(world, b"x", within=file.id)


def test_lookup_takes_search_permission(world: World) -> None:
    private = mkdir(world, b"d", mode=0o700)
    create(world, b"f", within=private)
    assert lookup(world, b"f", within=private)
    for name in (b"f", b"nothing", b".", b".."):
        with pytest.raises(AccessDenied):
            lookup(world, name, within=private, who=BOB)


# Creating.


@pytest.mark.parametrize(("name", "error"), [*ILLEGAL_NAMES, (b".", AlreadyExists), (b"..", AlreadyExists)])
def test_nothing_is_made_under_an_illegal_name(world: World, name: bytes, error: type[FileError]) -> None:
    """RFC 1813 3.2 and 3.3.9."""
    target = create(world, b"t").file
    attempts = [
        (namespace.create, (At(world.root), name, NOTHING, CreateMode.UNCHECKED)),
        (namespace.make_directory, (At(world.root), name, NOTHING)),
        (namespace.make_symlink, (At(world.root), name, b"t", NOTHING)),
        (namespace.make_special, (At(world.root), name, FileType.FIFO, NOTHING)),
        (namespace.link, (At(target.id), At(world.root), name)),
    ]
    for function, args in attempts:
        with pytest.raises(error):
            world.call(function, ROOT, *args)


def test_a_name_may_have_255_of_any_other_bytes(world: World) -> None:
    names = [bytes([value]) for value in range(1, 256) if value not in b"/."] + [b"\xff" * 255, b"...", b" "]
    for name in names:
        create(world, name)
    assert all(lookup(world, name) for name in names)


def test_a_new_file_belongs_to_its_maker(world: World) -> None:
    inode = create(world, b"f", wanted=SetAttributes(mode=0o100640, uid=5, gid=6)).file.inode
    assert (inode.uid, inode.gid, inode.mode, inode.links, inode.size) == (1000, 1000, 0o640, 1, 0)
    inode = create(world, b"g", who=ROOT, wanted=SetAttributes(mode=0o640, uid=5, gid=6)).file.inode
    assert (inode.uid, inode.gid) == (5, 6)


def test_without_a_mode_only_the_owner_may_use_it(world: World) -> None:
    assert create(world, b"f", wanted=NOTHING).file.inode.mode == 0o600
    made = world.call(namespace.make_directory, ALICE, At(world.root), b"d", NOTHING)
    assert made.file.inode.mode == 0o700


def test_creation_moves_the_directorys_times_and_tells_before_and_after(world: World) -> None:
    before = world.load(world.root)
    created = create(world, b"f")
    assert created.before == before
    assert created.after == world.load(world.root)
    assert created.after.mtime == created.after.ctime > before.ctime
    assert created.after.state is not None
    assert created.after.state.entries == 1


def test_two_changes_in_one_moment_have_two_times(world: World) -> None:
    """Clients' caches go by the directory's times."""
    times = []
    for name in (b"a", b"b", b"c"):
        world.transactions.now -= 1_000
        times.append(create(world, name).after.ctime)
    assert len(set(times)) == 3
    assert times == sorted(times)


def test_unchecked_create_opens_what_is_there(world: World) -> None:
    first = create(world, b"f", wanted=SetAttributes(mode=0o644))
    again = create(world, b"f", wanted=SetAttributes(mode=0o600))
    assert (again.file, again.before, again.truncate_to) == (first.file, again.after, None)
    assert again.before == again.after == first.after
    assert create(world, b"f", wanted=SetAttributes(size=0)).truncate_to == 0


def test_unchecked_create_truncates_only_for_those_who_may_write(world: World) -> None:
    create(world, b"f", wanted=SetAttributes(mode=0o444))
    assert create(world, b"f", wanted=SetAttributes(size=0)).truncate_to == 0
    with pytest.raises(AccessDenied):
        create(world, b"f", who=BOB, wanted=SetAttributes(size=0))
    assert create(world, b"f", who=BOB, wanted=NOTHING).truncate_to is None


def test_unchecked_create_finds_a_directory_or_link(world: World) -> None:
    """As the Linux server does: the client sees what it is, and goes on."""
    below = mkdir(world, b"d")
    assert create(world, b"d", wanted=SetAttributes(size=0)).truncate_to is None
    assert create(world, b"d").file.id == below


def test_existing_names_are_found_also_where_nothing_can_be_created(world: World) -> None:
    closed = mkdir(world, b"d", mode=0o755)
    create(world, b"f", within=closed)
    found = create(world, b"f", within=closed, who=BOB)
    assert found.before == found.after
    with pytest.raises(AlreadyExists):
        mkdir(world, b"f", within=closed, who=BOB)
    with pytest.raises(AccessDenied):
        create(world, b"g", within=closed, who=BOB)


def test_guarded_create_refuses_what_is_there(world: World) -> None:
    create(world, b"f", mode=CreateMode.GUARDED)
    with pytest.raises(AlreadyExists):
        create(world, b"f", mode=CreateMode.GUARDED)


def test_exclusive_create_is_recognised_by_its_verifier_also_after_a_restart(world: World) -> None:
    """[NFS-1]: the answer may have been lost, and the server restarted."""
    first = create(world, b"f", mode=CreateMode.EXCLUSIVE, verifier=b"12345678", wanted=NOTHING)
    world.transactions.flush()
    world.lose_power()
    again = create(world, b"f", mode=CreateMode.EXCLUSIVE, verifier=b"12345678", wanted=NOTHING)
    assert (again.file, again.before) == (first.file, again.after)
    with pytest.raises(AlreadyExists):
        create(world, b"f", mode=CreateMode.EXCLUSIVE, verifier=b"87654321", wanted=NOTHING)


def test_a_verifier_counts_only_until_the_file_is_used(world: World) -> None:
    """Linux sends clock and process number: another client's may be equal one day."""
    from dittofs.files.attributes import set_attributes

    create(world, b"f", mode=CreateMode.EXCLUSIVE, verifier=b"12345678", wanted=NOTHING)
    file = lookup(world, b"f")
    world.transactions.run(set_attributes, ALICE, file, SetAttributes(mode=0o644))
    with pytest.raises(AlreadyExists):
        create(world, b"f", mode=CreateMode.EXCLUSIVE, verifier=b"12345678", wanted=NOTHING)


def test_a_plain_file_has_no_verifier_to_match(world: World) -> None:
    create(world, b"f", verifier=b"12345678")
    for verifier in (b"", b"12345678"):
        with pytest.raises(AlreadyExists):
            create(world, b"f", mode=CreateMode.EXCLUSIVE, verifier=verifier, wanted=NOTHING)


def test_attributes_given_at_creation(world: World) -> None:
    wanted = SetAttributes(mode=0o644, size=10**12, atime=5, mtime=ServerTime.NOW)
    inode = create(world, b"f", wanted=wanted).file.inode
    assert (inode.size, inode.used, inode.atime, inode.mtime) == (10**12, 0, 5, world.transactions.now)
    with pytest.raises(FileTooBig):
        create(world, b"g", wanted=SetAttributes(size=MAX_FILE_SIZE + 1))
    with pytest.raises(NotFound):
        lookup(world, b"g")


def test_directories_count_links(world: World) -> None:
    one = mkdir(world, b"d")
    assert world.load(one).links == 2
    two = mkdir(world, b"e", within=one)
    assert world.load(one).links == 3
    assert world.load(two).inode.parent == one
    assert world.load(world.root).links == 3


def test_setgid_directories_hand_their_group_down(world: World) -> None:
    """[NFS-1]."""
    shared = mkdir(world, b"d", who=ROOT, mode=0o2777)
    world.transactions.run(_change_inode, shared, {"gid": 2000})
    assert create(world, b"f", within=shared, who=CAROL).file.inode.gid == 2000
    below = world.load(mkdir(world, b"e", within=shared, who=CAROL)).inode
    assert (below.gid, below.mode) == (2000, 0o2755)


def test_symlinks(world: World) -> None:
    target = b"some/where \xff/.."
    made = world.call(namespace.make_symlink, ALICE, At(world.root), b"s", target, SetAttributes(mode=0o600))
    assert (made.file.inode.mode, made.file.inode.size) == (0o777, len(target))
    assert namespace.read_symlink(lookup(world, b"s")) == target
    with pytest.raises(InvalidArgument):
        namespace.read_symlink(create(world, b"f").file)


@pytest.mark.parametrize(
    ("target", "error"), [(b"", InvalidArgument), (b"a\0b", InvalidArgument), (b"x" * (PATH_MAX + 1), NameTooLong)]
)
def test_targets_that_are_refused(world: World, target: bytes, error: type[FileError]) -> None:
    with pytest.raises(error):
        world.call(namespace.make_symlink, ALICE, At(world.root), b"s", target, NOTHING)


def test_special_files(world: World) -> None:
    """RFC 1813 3.3.11."""

    def make(name: bytes, kind: FileType, who: Identity = ROOT) -> File:
        file: File = world.call(namespace.make_special, who, At(world.root), name, kind, NOTHING, 8, 17).file
        return file

    for kind in (FileType.BLOCK_DEVICE, FileType.CHARACTER_DEVICE):
        inode = make(kind.name.encode(), kind).inode
        assert (inode.type, inode.device_major, inode.device_minor) == (kind, 8, 17)
        with pytest.raises(NotPermitted):
            make(b"mine", kind, ALICE)
    for kind in (FileType.FIFO, FileType.SOCKET):
        inode = make(kind.name.encode(), kind, ALICE).inode
        assert (inode.type, inode.device_major, inode.device_minor) == (kind, 0, 0)
    for kind in (FileType.REGULAR, FileType.DIRECTORY, FileType.SYMLINK):
        with pytest.raises(WrongType):
            make(b"x", kind)


# Removing.


def test_removing_the_last_name_leaves_content_to_reclaim(world: World) -> None:
    file = create(world, b"f").file
    change = world.call(namespace.remove, ALICE, At(world.root), b"f")
    assert change.after.state.entries == 0
    assert change.after.mtime > change.before.mtime
    assert world.transactions.rows[RECLAIMS.number][file.id].share == SHARE
    assert world.transactions.effects == [Removed(SHARE, file.id)]
    with pytest.raises(StaleHandle):
        world.load(file.id)


def test_removing_one_of_two_names_keeps_the_file(world: World) -> None:
    file = create(world, b"f").file
    world.call(namespace.link, ALICE, At(file.id), At(world.root), b"g")
    before = world.load(file.id)
    world.call(namespace.remove, ALICE, At(world.root), b"f")
    after = world.load(file.id)
    assert (before.links, after.links) == (2, 1)
    assert after.ctime > before.ctime
    assert after.mtime == before.mtime
    assert world.transactions.effects == []


@pytest.mark.parametrize(
    ("name", "error"), [*ILLEGAL_NAMES, (b".", InvalidArgument), (b"..", InvalidArgument), (b"no", NotFound)]
)
def test_names_that_cannot_be_removed(world: World, name: bytes, error: type[FileError]) -> None:
    with pytest.raises(error):
        world.call(namespace.remove, ALICE, At(world.root), name)


@pytest.mark.parametrize(
    ("name", "error"), [*ILLEGAL_NAMES, (b".", InvalidArgument), (b"..", AlreadyExists), (b"no", NotFound)]
)
def test_directories_that_cannot_be_removed(world: World, name: bytes, error: type[FileError]) -> None:
    """RFC 1813 3.3.13."""
    with pytest.raises(error):
        world.call(namespace.remove_directory, ALICE, At(world.root), name)


def test_each_removal_is_for_its_own_kind(world: World) -> None:
    mkdir(world, b"d")
    create(world, b"f")
    with pytest.raises(IsADirectory):
        world.call(namespace.remove, ALICE, At(world.root), b"d")
    with pytest.raises(NotADirectory):
        world.call(namespace.remove_directory, ALICE, At(world.root), b"f")


def test_only_empty_directories_are_removed(world: World) -> None:
    below = mkdir(world, b"d")
    create(world, b"f", within=below)
    with pytest.raises(DirectoryNotEmpty):
        world.call(namespace.remove_directory, ALICE, At(world.root), b"d")
    world.call(namespace.remove, ALICE, At(below), b"f")
    change = world.call(namespace.remove_directory, ALICE, At(world.root), b"d")
    assert (change.before.links, change.after.links) == (3, 2)
    with pytest.raises(StaleHandle):
        world.load(below)

    assert below not in world.transactions.rows[DIRECTORIES.number]


def test_removal_takes_write_permission_and_respects_the_sticky_bit(world: World) -> None:
    closed, sticky = mkdir(world, b"d"), mkdir(world, b"t", who=ROOT, mode=0o1777)
    create(world, b"f", within=closed)
    create(world, b"f", within=sticky)
    with pytest.raises(AccessDenied):
        world.call(namespace.remove, BOB, At(closed), b"f")
    with pytest.raises(NotPermitted):
        world.call(namespace.remove, BOB, At(sticky), b"f")
    with pytest.raises(NotPermitted):
        world.call(rename, BOB, At(sticky), b"f", At(sticky), b"g")
    world.call(namespace.remove, ALICE, At(sticky), b"f")


# Linking.


def test_links(world: World) -> None:
    file = create(world, b"f").file
    change = world.call(namespace.link, ALICE, At(file.id), At(world.root), b"g")
    assert change.file.links == 2
    assert change.file.ctime > file.ctime
    assert lookup(world, b"g") == lookup(world, b"f")
    with pytest.raises(AlreadyExists):
        world.call(namespace.link, ALICE, At(file.id), At(world.root), b"f")
    with pytest.raises(NotADirectory):
        world.call(namespace.link, ALICE, At(file.id), At(file.id), b"x")


def test_a_directory_has_one_name(world: World) -> None:
    below = mkdir(world, b"d")
    with pytest.raises(NotPermitted):
        world.call(namespace.link, ROOT, At(below), At(world.root), b"e")


def test_links_are_limited(world: World) -> None:
    file, below = create(world, b"f").file, mkdir(world, b"d")
    world.transactions.run(_change_inode, file.id, {"links": MAX_LINKS})
    with pytest.raises(TooManyLinks):
        world.call(namespace.link, ALICE, At(file.id), At(world.root), b"g")
    full = mkdir(world, b"full")
    world.transactions.run(_set_directory_links, full, MAX_LINKS)
    with pytest.raises(TooManyLinks):
        mkdir(world, b"x", within=full)
    with pytest.raises(TooManyLinks):
        move(world, b"d", b"x", dst=full)
    assert lookup(world, b"d").id == below


# Renaming.


def test_rename_keeps_the_file_and_moves_times(world: World) -> None:
    file = create(world, b"f").file
    below = mkdir(world, b"d")
    renamed = move(world, b"f", b"g", dst=below)
    assert renamed.file.id == file.id
    assert renamed.file.ctime > file.ctime
    assert renamed.file.mtime == file.mtime
    assert renamed.from_after == world.load(world.root)
    assert renamed.to_after == world.load(below)
    assert renamed.from_after.mtime > renamed.from_before.mtime
    assert renamed.to_after.mtime > renamed.to_before.mtime
    assert lookup(world, b"g", within=below).id == file.id
    with pytest.raises(NotFound):
        lookup(world, b"f")


def test_rename_within_one_directory_tells_of_it_twice(world: World) -> None:
    create(world, b"f")
    renamed = move(world, b"f", b"g")
    assert renamed.from_before == renamed.to_before
    assert renamed.from_after == renamed.to_after == world.load(world.root)


def test_rename_onto_itself_and_onto_another_name_of_the_same_file_changes_nothing(world: World) -> None:
    """rename(2), RFC 1813 3.3.14."""
    file = create(world, b"f").file
    world.call(namespace.link, ALICE, At(file.id), At(world.root), b"g")
    for target in (b"f", b"g"):
        renamed = move(world, b"f", target)
        assert renamed.from_before == renamed.from_after
        assert renamed.file == world.load(file.id)
    assert world.load(file.id).links == 2


def test_a_replaced_file_is_gone(world: World) -> None:
    create(world, b"f")
    replaced = create(world, b"g").file
    file = lookup(world, b"f")
    move(world, b"f", b"g")
    assert lookup(world, b"g").id == file.id
    assert world.transactions.effects == [Removed(SHARE, replaced.id)]
    assert replaced.id in world.transactions.rows[RECLAIMS.number]
    assert world.problems() == []


def test_a_replaced_name_keeps_its_cookie(world: World) -> None:
    create(world, b"f")
    create(world, b"g")

    def cookies() -> dict[bytes, int]:
        listing = world.call(namespace.read_directory, ALICE, At(world.root), 2, 10)
        return {entry.name: entry.cookie for entry in listing.entries}

    before = cookies()
    move(world, b"f", b"g")
    assert cookies() == {b"g": before[b"g"]}


def test_what_may_replace_what(world: World) -> None:
    create(world, b"f")
    mkdir(world, b"empty")
    full = mkdir(world, b"full")
    moved = mkdir(world, b"d")
    create(world, b"x", within=full)
    with pytest.raises(IsADirectory):
        move(world, b"f", b"empty")
    with pytest.raises(NotADirectory):
        move(world, b"d", b"f")
    with pytest.raises(DirectoryNotEmpty):
        move(world, b"d", b"full")
    move(world, b"d", b"empty")
    assert lookup(world, b"empty").id == moved
    assert world.load(world.root).links == 4
    assert world.problems() == []


def test_a_directory_does_not_go_into_itself(world: World) -> None:
    """rename(2): EINVAL."""
    one = mkdir(world, b"one")
    two = mkdir(world, b"two", within=one)
    three = mkdir(world, b"three", within=two)
    for target in (one, two, three):
        with pytest.raises(InvalidArgument):
            move(world, b"one", b"x", dst=target)
    with pytest.raises(DirectoryNotEmpty):
        move(world, b"three", b"one", src=two)
    move(world, b"three", b"three", src=two)
    assert world.load(three).inode.parent == world.root
    assert lookup(world, b"..", within=three).id == world.root
    assert world.problems() == []


def test_moving_a_directory_takes_permission_to_write_in_it(world: World) -> None:
    """Its '..' changes."""
    mkdir(world, b"theirs", who=BOB, mode=0o755)
    below = mkdir(world, b"d", mode=0o777)
    with pytest.raises(AccessDenied):
        move(world, b"theirs", b"x", dst=below)
    move(world, b"theirs", b"x")


@pytest.mark.parametrize(
    ("source", "target", "error"),
    [
        (b".", b"x", InvalidArgument),
        (b"..", b"x", InvalidArgument),
        (b"f", b".", InvalidArgument),
        (b"f", b"..", InvalidArgument),
        (b"f", b"", AccessDenied),
        (b"", b"x", AccessDenied),
        (b"f", b"n" * 256, NameTooLong),
        (b"f", b"a/b", AccessDenied),
        (b"no", b"x", NotFound),
    ],
)
def test_renames_that_are_refused(world: World, source: bytes, target: bytes, error: type[FileError]) -> None:
    """RFC 1813 3.3.14."""
    create(world, b"f")
    with pytest.raises(error):
        move(world, source, target)


def test_rename_takes_permission_in_both_directories(world: World) -> None:
    closed, private = mkdir(world, b"closed"), mkdir(world, b"private", mode=0o700)
    create(world, b"f", within=closed)
    create(world, b"g", who=BOB)
    for src, name, dst in ((closed, b"f", world.root), (world.root, b"g", closed), (world.root, b"g", private)):
        with pytest.raises(AccessDenied):
            move(world, name, b"x", who=BOB, src=src, dst=dst)


# Listing.


def test_a_listing_begins_with_the_dots(world: World) -> None:
    below = mkdir(world, b"d")
    file = create(world, b"f", within=below).file
    listing = world.call(namespace.read_directory, ALICE, At(below), 0, 10, with_files=True)
    assert [(entry.cookie, entry.name, entry.id) for entry in listing.entries[:2]] == [
        (1, b".", below),
        (2, b"..", world.root),
    ]
    assert listing.entries[2][1:] == (b"f", file.id, file)
    assert listing.at_end
    assert [entry.file.id for entry in listing.entries] == [below, world.root, file.id]


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_a_listing_goes_on_behind_a_cookie(world: World, limit: int) -> None:
    names = {b"f%d" % number for number in range(10)}
    for name in names:
        create(world, name)
    seen: list[bytes] = []
    cookie = 0
    while True:
        listing = world.call(namespace.read_directory, ALICE, At(world.root), cookie, limit)
        assert len(listing.entries) <= limit
        seen += [entry.name for entry in listing.entries]
        if listing.at_end:
            break
        cookie = listing.entries[-1].cookie
    assert len(seen) == 12
    assert set(seen) == names | {b".", b".."}


def test_listing_takes_read_permission_and_search_for_attributes(world: World) -> None:
    directory = mkdir(world, b"d", mode=0o744)
    create(world, b"f", within=directory)
    listing = world.call(namespace.read_directory, BOB, At(directory), 0, 10, with_files=True)
    assert [entry.file for entry in listing.entries] == [None] * 3
    blind = mkdir(world, b"e", mode=0o711)
    with pytest.raises(AccessDenied):
        world.call(namespace.read_directory, BOB, At(blind), 0, 10)
    with pytest.raises(NotADirectory):
        world.call(namespace.read_directory, BOB, At(create(world, b"f").file.id), 0, 10)


def test_cookies_that_were_never_ours(world: World) -> None:
    with pytest.raises(BadCookie):
        world.call(namespace.read_directory, ALICE, At(world.root), 2**63, 10)
    assert world.call(namespace.read_directory, ALICE, At(world.root), 2**63 - 1, 10) == ([], True)


def _change_inode(view: object, file: FileId, changes: dict[str, int]) -> None:
    view.put(INODES, file, replace(view.get(INODES, file), **changes))  # type: ignore[attr-defined]


def _set_directory_links(view: object, file: FileId, links: int) -> None:
    view.put(DIRECTORIES, file, replace(view.get(DIRECTORIES, file), links=links))  # type: ignore[attr-defined]
