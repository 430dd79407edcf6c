"""Who may do what: the tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dittofs.files import access
from dittofs.files.access import (
    ACCESS_DELETE,
    ACCESS_EXECUTE,
    ACCESS_EXTEND,
    ACCESS_LOOKUP,
    ACCESS_MODIFY,
    ACCESS_READ,
    EXECUTE,
    READ,
    WRITE,
)
from dittofs.files.records import FileType, Inode
from dittofs.model.identity import Identity

OWNER = Identity(1000, 1000)
IN_GROUP = Identity(1001, 2000)
IN_GROUPS = Identity(1001, 1001, frozenset({5, 2000}))
OTHER = Identity(1002, 1002)
ROOT = Identity(0, 0)
EVERY_ACCESS = 0x3F


def inode(mode: int, kind: FileType = FileType.REGULAR) -> Inode:
    return Inode(kind, mode, 1000, 2000, 1, 0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("who", "mode", "allowed"),
    [
        (OWNER, 0o700, READ | WRITE | EXECUTE),
        (OWNER, 0o077, 0),
        (OWNER, 0o400, READ),
        (IN_GROUP, 0o070, READ | WRITE | EXECUTE),
        (IN_GROUP, 0o707, 0),
        (IN_GROUPS, 0o020, WRITE),
        (OTHER, 0o007, READ | WRITE | EXECUTE),
        (OTHER, 0o770, 0),
        (OTHER, 0o001, EXECUTE),
        (ROOT, 0o000, READ | WRITE),
        (ROOT, 0o001, READ | WRITE | EXECUTE),
    ],
)
def test_the_first_class_that_fits_decides(who: Identity, mode: int, allowed: int) -> None:
    for wanted in range(1, 8):
        assert access.permits(who, inode(mode), wanted) == (wanted & allowed == wanted)


def test_root_searches_every_directory() -> None:
    assert access.permits(ROOT, inode(0, FileType.DIRECTORY), READ | WRITE | EXECUTE)


@pytest.mark.parametrize(
    ("who", "mode", "reads", "writes"),
    [
        (OWNER, 0o000, True, True),  # git and tar write to files that they made with mode 0444
        (OWNER, 0o444, True, True),
        (IN_GROUP, 0o010, True, False),  # a program that may only be run must be read for that
        (IN_GROUP, 0o020, False, True),
        (OTHER, 0o770, False, False),
        (OTHER, 0o001, True, False),
        (ROOT, 0o000, True, True),
    ],
)
def test_content_is_more_open_than_the_mode(who: Identity, mode: int, reads: bool, writes: bool) -> None:
    """[NFS-4]."""
    assert access.may_read_content(who, inode(mode)) == reads
    assert access.may_write_content(who, inode(mode)) == writes


@pytest.mark.parametrize(
    ("who", "mode", "kind", "allowed"),
    [
        (OWNER, 0o444, FileType.REGULAR, ACCESS_READ),  # open(2) for writing is to fail, whatever WRITE would do
        (OWNER, 0o600, FileType.REGULAR, ACCESS_READ | ACCESS_MODIFY | ACCESS_EXTEND),
        (OTHER, 0o001, FileType.REGULAR, ACCESS_EXECUTE),
        (OTHER, 0o005, FileType.DIRECTORY, ACCESS_READ | ACCESS_LOOKUP),
        (OTHER, 0o004, FileType.DIRECTORY, ACCESS_READ),
        (OTHER, 0o002, FileType.DIRECTORY, 0),  # write without search is worth nothing
        (OTHER, 0o003, FileType.DIRECTORY, ACCESS_LOOKUP | ACCESS_MODIFY | ACCESS_EXTEND | ACCESS_DELETE),
        (OTHER, 0o007, FileType.SYMLINK, ACCESS_READ | ACCESS_MODIFY | ACCESS_EXTEND | ACCESS_EXECUTE),
        (ROOT, 0o000, FileType.REGULAR, ACCESS_READ | ACCESS_MODIFY | ACCESS_EXTEND),
        (ROOT, 0o000, FileType.DIRECTORY, EVERY_ACCESS & ~ACCESS_EXECUTE),
    ],
)
def test_access_bits(who: Identity, mode: int, kind: FileType, allowed: int) -> None:
    """RFC 1813 3.3.4."""
    assert access.granted(who, inode(mode, kind), EVERY_ACCESS) == allowed
    for wanted in range(64):
        assert access.granted(who, inode(mode, kind), wanted) == allowed & wanted


@given(st.integers(0, 0o7777), st.sampled_from(list(FileType)), st.sampled_from([OWNER, IN_GROUP, OTHER, ROOT]))
def test_a_read_only_share_grants_no_change(mode: int, kind: FileType, who: Identity) -> None:
    """[NFS-4]."""
    changes = ACCESS_MODIFY | ACCESS_EXTEND | ACCESS_DELETE
    plain = access.granted(who, inode(mode, kind), EVERY_ACCESS)
    assert access.granted(who, inode(mode, kind), EVERY_ACCESS, is_read_only=True) == plain & ~changes


@pytest.mark.parametrize(
    ("who", "directory_mode", "allowed"),
    [(OTHER, 0o777, True), (OTHER, 0o1777, False), (OWNER, 0o1777, True), (ROOT, 0o1777, True)],
)
def test_sticky(who: Identity, directory_mode: int, allowed: bool) -> None:
    somebodys = Inode(FileType.REGULAR, 0o666, 4242, 0, 1, 0, 0, 0, 0, 0)
    assert access.may_take_away(who, inode(directory_mode, FileType.DIRECTORY), somebodys) == allowed
    own = Inode(FileType.REGULAR, 0o666, who.uid, 0, 1, 0, 0, 0, 0, 0)
    assert access.may_take_away(who, inode(directory_mode, FileType.DIRECTORY), own)


@pytest.mark.parametrize(
    ("mode", "after"), [(0o6755, 0o755), (0o4755, 0o755), (0o2745, 0o2745), (0o2755, 0o755), (0o1777, 0o1777)]
)
def test_what_remains_of_privileges(mode: int, after: int) -> None:
    """Setgid without group execute is no privilege, and stays, as on Linux."""
    assert access.without_privileges(mode) == after


@pytest.mark.parametrize(
    ("directory_mode", "mode", "is_directory", "who", "expected_mode", "expected_group"),
    [
        (0o755, 0o2755, False, OTHER, 0o2755, 1002),
        (0o2755, 0o644, False, OTHER, 0o644, 2000),
        (0o2755, 0o755, True, OTHER, 0o2755, 2000),
        (0o2755, 0o2755, False, OTHER, 0o755, 2000),  # would run with a group that its maker is not in
        (0o2755, 0o2755, False, IN_GROUP, 0o2755, 2000),
        (0o2755, 0o2755, False, ROOT, 0o2755, 2000),
        (0o2755, 0o2745, False, OTHER, 0o2745, 2000),
    ],
)
def test_setgid_directories(
    directory_mode: int, mode: int, is_directory: bool, who: Identity, expected_mode: int, expected_group: int
) -> None:
    """[NFS-1]."""
    directory = inode(directory_mode, FileType.DIRECTORY)
    assert access.new_mode(who, directory, mode, is_directory=is_directory) == expected_mode
    assert access.new_group(who, directory) == expected_group
