"""A file's attributes, and the cache of their encoding."""

from msgspec.structs import replace

from dittofs.files.records import DirectoryState, FileType, Inode
from dittofs.files.values import NOTHING, File, ServerTime, SetAttributes
from dittofs.model.ids import FileId
from dittofs.protocols.nfs3.attributes import (
    LATEST,
    WISHES_KEPT,
    AttributeCache,
    nanoseconds_of,
    remembered_attributes_of,
    set_attributes_of,
    time_of,
)
from dittofs.protocols.nfs3.types import (
    fattr3,
    ftype3,
    nfstime3,
    sattr3,
    set_atime,
    set_mtime,
    specdata3,
    time_how,
    wcc_attr,
    wcc_data,
)
from dittofs.xdr.types import decode_exactly, encoded

INODE = Inode(
    type=FileType.BLOCK_DEVICE,
    mode=0o640,
    uid=1,
    gid=2,
    links=3,
    size=2**63 - 1,
    used=4096,
    atime=1_000_000_001,
    mtime=2_000_000_002,
    ctime=3_000_000_003,
    device_major=8,
    device_minor=17,
)
FSID = 2**64 - 1


def read(cache: AttributeCache, file: File) -> fattr3:
    attributes: fattr3 = decode_exactly(fattr3, cache.encoded(file))
    return attributes


def test_every_attribute_has_its_place() -> None:
    assert read(AttributeCache(FSID), File(FileId(2**64 - 1), INODE, None)) == fattr3(
        type=ftype3.NF3BLK,
        mode=0o640,
        nlink=3,
        uid=1,
        gid=2,
        size=2**63 - 1,
        used=4096,
        rdev=specdata3(8, 17),
        fsid=FSID,
        fileid=2**64 - 1,
        atime=nfstime3(1, 1),
        mtime=nfstime3(2, 2),
        ctime=nfstime3(3, 3),
    )


def test_a_directory_takes_links_and_times_from_its_state() -> None:
    state = DirectoryState(links=7, entries=5, mtime=4_000_000_000, ctime=5_000_000_000)
    attributes = read(AttributeCache(FSID), File(FileId(1), replace(INODE, type=FileType.DIRECTORY), state))
    assert (attributes.nlink, attributes.mtime, attributes.ctime) == (7, nfstime3(4, 0), nfstime3(5, 0))


def test_what_is_kept_is_used_only_for_the_very_same_records() -> None:
    cache = AttributeCache(FSID)
    first = cache.encoded(File(FileId(1), INODE, None))
    assert cache.encoded(File(FileId(1), INODE, None)) is first
    changed = File(FileId(1), replace(INODE, mode=0o600), None)
    assert read(cache, changed).mode == 0o600
    assert read(cache, File(FileId(1), INODE, None)).mode == 0o640


def test_a_changed_state_of_a_directory_is_seen() -> None:
    cache = AttributeCache(FSID)
    inode = replace(INODE, type=FileType.DIRECTORY)
    for links in (2, 3):
        state = DirectoryState(links=links, entries=0, mtime=0, ctime=0)
        assert read(cache, File(FileId(1), inode, state)).nlink == links


def test_the_cache_is_bounded_and_stays_right() -> None:
    cache = AttributeCache(FSID, capacity=4)
    for number in range(1, 50):
        file = File(FileId(number), replace(INODE, size=number), None)
        assert read(cache, file).size == number
        assert len(cache._kept) <= 4


def test_wcc_tells_of_both_sides() -> None:
    cache = AttributeCache(FSID)
    before = File(FileId(1), INODE, None)
    after = File(FileId(1), replace(INODE, size=5, mtime=9_000_000_009, ctime=9_000_000_009), None)
    size_and_times = wcc_attr(2**63 - 1, nfstime3(2, 2), nfstime3(3, 3))
    assert cache.wcc(before, after) == encoded(wcc_data, wcc_data(size_and_times, read(cache, after)))


def test_wcc_of_a_directory_says_what_its_attributes_say() -> None:
    """Its parts are kept from change to change; states come in any order, and its mode may change as well."""
    cache = AttributeCache(FSID, capacity=2)
    inode = replace(INODE, type=FileType.DIRECTORY, atime=7_000_000_007)
    states = [DirectoryState(2 + n, n, 4_000_000_000 + n % 2, 5_000_000_000 + n * n) for n in range(5)]
    walks = [(0, 1), (1, 2), (2, 2), (0, 3), (3, 1), (4, 0)]
    for id_ in (1, 2, 3, 1):
        for mode in (0o755, 0o700):
            changed = replace(inode, mode=mode)
            for old, new in walks:
                before, after = File(FileId(id_), changed, states[old]), File(FileId(id_), changed, states[new])
                known = read(cache, before)
                expected = wcc_data(wcc_attr(known.size, known.mtime, known.ctime), read(cache, after))
                assert cache.wcc(before, after) == encoded(wcc_data, expected)
    assert len(cache._directories) <= 2


def test_wcc_of_a_directory_whose_own_attributes_changed() -> None:
    cache = AttributeCache(FSID)
    inode, state = replace(INODE, type=FileType.DIRECTORY), DirectoryState(2, 0, 1, 2)
    before = File(FileId(1), inode, state)
    after = File(FileId(1), replace(inode, mode=0o500), DirectoryState(2, 0, 1, 3))
    expected = wcc_data(wcc_attr(inode.size, nfstime3(0, 1), nfstime3(0, 2)), read(cache, after))
    assert cache.wcc(before, before)
    assert cache.wcc(before, after) == encoded(wcc_data, expected)


def test_times_outside_of_the_wire_are_brought_to_its_ends() -> None:
    assert time_of(-1) == (0, 0)
    assert time_of(LATEST + 1) == (2**32 - 1, 999_999_999)
    assert nanoseconds_of(nfstime3(*time_of(LATEST))) == LATEST


def test_what_is_not_set_stays() -> None:
    nothing = sattr3(None, None, None, None, set_atime(time_how.DONT_CHANGE), set_mtime(time_how.DONT_CHANGE))
    assert set_attributes_of(nothing) == NOTHING


def test_the_same_wish_is_understood_once() -> None:
    wish = sattr3(0o644, None, None, None, set_atime(time_how.DONT_CHANGE), set_mtime(time_how.DONT_CHANGE))
    understood = remembered_attributes_of(wish)
    assert understood == SetAttributes(mode=0o644)
    assert remembered_attributes_of(wish) is understood
    for number in range(3 * WISHES_KEPT):
        assert remembered_attributes_of(replace_mode(wish, number)).mode == number
    assert remembered_attributes_of(wish) == understood


def replace_mode(wish: sattr3, mode: int) -> sattr3:
    return sattr3(mode, wish.uid, wish.gid, wish.size, wish.atime, wish.mtime)


def test_each_attribute_is_set_by_itself() -> None:
    wanted = set_attributes_of(
        sattr3(
            1, 2, 3, 4, set_atime(time_how.SET_TO_SERVER_TIME), set_mtime(time_how.SET_TO_CLIENT_TIME, nfstime3(5, 6))
        )
    )
    assert wanted == SetAttributes(1, 2, 3, 4, ServerTime.NOW, 5_000_000_006)
