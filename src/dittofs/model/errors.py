"""What can go wrong with files, as exceptions; each protocol maps this tree to its own codes."""


class FileError(Exception):
    """Something about a file that the client is told of."""


class NotFound(FileError):
    """No such name or file."""


class NotPermitted(FileError):
    """Only the owner or a privileged user may do this (EPERM)."""


class AccessDenied(FileError):
    """The mode bits do not allow this (EACCES)."""


class AlreadyExists(FileError):
    """The name is taken."""


class NotADirectory(FileError):
    """A directory was needed."""


class IsADirectory(FileError):
    """Anything but a directory was needed."""


class InvalidArgument(FileError):
    """The request makes no sense for this file."""


class WrongType(FileError):
    """A file of this type cannot be made, or cannot do this (NFS3ERR_BADTYPE)."""


class FileTooBig(FileError):
    """Past the largest size a file can have."""


class NoSpace(FileError):
    """The store is full."""


class QuotaExceeded(FileError):
    """The user's or the share's quota is used up."""


class ReadOnlyShare(FileError):
    """The share is exported read-only."""


class TooManyLinks(FileError):
    """The file has as many links as it can have."""


class NameTooLong(FileError):
    """A name of more than 255 bytes, or a path of more than 1,024."""


class DirectoryNotEmpty(FileError):
    """Only an empty directory can be removed or replaced."""


class CrossShare(FileError):
    """Two files of different shares (EXDEV)."""


class StaleHandle(FileError):
    """The handle is well formed, but its file is gone, or the handle was never ours."""


class BadHandle(FileError):
    """The handle has the wrong length or version."""


class BadCookie(FileError):
    """A directory position that cannot be continued from."""


class GuardFailed(FileError):
    """SETATTR's ctime guard did not match (NFS3ERR_NOT_SYNC)."""


class NotSupported(FileError):
    """The server does not do this."""


class TooSmall(FileError):
    """The client's buffer does not hold a single entry."""


class StoreFailure(FileError):
    """A store failed in a way that trying again will not mend (EIO)."""


class TryLater(FileError):
    """The store is busy or away: the client should send the request again (NFS3ERR_JUKEBOX)."""


class LockedByOther(FileError):
    """A mandatory lock of somebody else covers the range [LOCK-8]."""
