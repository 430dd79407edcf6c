"""From what can go wrong with files to what MOUNT can say of it."""

from dittofs.model import errors
from dittofs.protocols.mount.types import mountstat3

STATUS: dict[type[errors.FileError], mountstat3] = {
    errors.NotPermitted: mountstat3.MNT3ERR_PERM,
    errors.NotFound: mountstat3.MNT3ERR_NOENT,
    errors.AccessDenied: mountstat3.MNT3ERR_ACCES,
    errors.NotADirectory: mountstat3.MNT3ERR_NOTDIR,
    errors.InvalidArgument: mountstat3.MNT3ERR_INVAL,
    errors.NameTooLong: mountstat3.MNT3ERR_NAMETOOLONG,
    errors.NotSupported: mountstat3.MNT3ERR_NOTSUPP,
    errors.StoreFailure: mountstat3.MNT3ERR_IO,
    errors.TryLater: mountstat3.MNT3ERR_IO,
    errors.FileError: mountstat3.MNT3ERR_SERVERFAULT,
}


def status_of(error: errors.FileError) -> mountstat3:
    """The nearest class that the table knows decides."""
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
