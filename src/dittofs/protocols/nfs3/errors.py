"""From what can go wrong with files to the status of RFC 1813 2.6; a test holds the table against the whole tree."""

from dittofs.model import errors
from dittofs.protocols.nfs3.types import nfsstat3

STATUS: dict[type[errors.FileError], nfsstat3] = {
    errors.NotFound: nfsstat3.NFS3ERR_NOENT,
    errors.NotPermitted: nfsstat3.NFS3ERR_PERM,
    errors.AccessDenied: nfsstat3.NFS3ERR_ACCES,
    errors.AlreadyExists: nfsstat3.NFS3ERR_EXIST,
    errors.NotADirectory: nfsstat3.NFS3ERR_NOTDIR,
    errors.IsADirectory: nfsstat3.NFS3ERR_ISDIR,
    errors.InvalidArgument: nfsstat3.NFS3ERR_INVAL,
    errors.WrongType: nfsstat3.NFS3ERR_BADTYPE,
    errors.FileTooBig: nfsstat3.NFS3ERR_FBIG,
    errors.NoSpace: nfsstat3.NFS3ERR_NOSPC,
    errors.QuotaExceeded: nfsstat3.NFS3ERR_DQUOT,
    errors.ReadOnlyShare: nfsstat3.NFS3ERR_ROFS,
    errors.TooManyLinks: nfsstat3.NFS3ERR_MLINK,
    errors.NameTooLong: nfsstat3.NFS3ERR_NAMETOOLONG,
    errors.DirectoryNotEmpty: nfsstat3.NFS3ERR_NOTEMPTY,
    errors.CrossShare: nfsstat3.NFS3ERR_XDEV,
    errors.StaleHandle: nfsstat3.NFS3ERR_STALE,
    errors.BadHandle: nfsstat3.NFS3ERR_BADHANDLE,
    errors.BadCookie: nfsstat3.NFS3ERR_BAD_COOKIE,
    errors.GuardFailed: nfsstat3.NFS3ERR_NOT_SYNC,
    errors.NotSupported: nfsstat3.NFS3ERR_NOTSUPP,
    errors.TooSmall: nfsstat3.NFS3ERR_TOOSMALL,
    errors.StoreFailure: nfsstat3.NFS3ERR_IO,
    errors.TryLater: nfsstat3.NFS3ERR_JUKEBOX,
    # A mandatory lock is no reason to wait: Solaris answers so where `nbmand` is set, and JUKEBOX, which Linux made of
    # its EAGAIN, has clients try again for ever, with the application hung in read() or write().
    errors.LockedByOther: nfsstat3.NFS3ERR_ACCES,
    errors.FileError: nfsstat3.NFS3ERR_SERVERFAULT,
}


def status_of(error: errors.FileError) -> nfsstat3:
    """The nearest class that the table knows decides."""
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
