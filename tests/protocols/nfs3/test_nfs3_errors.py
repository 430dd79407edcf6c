"""Every error of the tree has a status, and no other."""

from collections.abc import Iterator

import pytest

from dittofs.model.errors import FileError, NotFound
from dittofs.protocols.mount import errors as mount_errors
from dittofs.protocols.mount.types import mountstat3
from dittofs.protocols.nfs3.errors import STATUS, status_of
from dittofs.protocols.nfs3.types import nfsstat3
from dittofs.shares.share import FlavorRefused


def tree(error: type[FileError] = FileError) -> Iterator[type[FileError]]:
    yield error
    for kind in error.__subclasses__():
        yield from tree(kind)


MODEL_ERRORS = [error for error in tree() if error.__module__ == "dittofs.model.errors"]


@pytest.mark.parametrize("error", MODEL_ERRORS, ids=lambda error: error.__name__)
def test_every_error_of_the_model_has_a_line_of_its_own(error: type[FileError]) -> None:
    """A new error must be thought about here: inheriting a status would hide that nobody did."""
    assert error in STATUS
    assert status_of(error("why")) is STATUS[error]


def test_no_error_is_told_as_success() -> None:
    assert nfsstat3.NFS3_OK not in STATUS.values()
    assert len(MODEL_ERRORS) > 20


def test_an_error_outside_the_model_is_told_as_the_one_it_is_a_kind_of() -> None:
    class NoSuchEntry(NotFound):
        pass

    assert status_of(NoSuchEntry()) is nfsstat3.NFS3ERR_NOENT
    assert status_of(FlavorRefused()) is nfsstat3.NFS3ERR_ACCES


@pytest.mark.parametrize("error", MODEL_ERRORS, ids=lambda error: error.__name__)
def test_mount_has_a_status_for_every_error(error: type[FileError]) -> None:
    assert mount_errors.status_of(error("why")) in set(mountstat3) - {mountstat3.MNT3_OK}
