"""Coming by the first handle."""

from dittofs.client.transports import Transport
from dittofs.protocols.mount import types as t
from dittofs.rpc.calling import Exchange

PROGRAM = 100005
VERSION = 3

NULL = Exchange("MOUNTPROC3_NULL", PROGRAM, VERSION, 0)
MNT = Exchange("MOUNTPROC3_MNT", PROGRAM, VERSION, 1, t.dirpath, t.mountres3)
DUMP = Exchange("MOUNTPROC3_DUMP", PROGRAM, VERSION, 2, None, t.mountlist)
UMNT = Exchange("MOUNTPROC3_UMNT", PROGRAM, VERSION, 3, t.dirpath, None)
UMNTALL = Exchange("MOUNTPROC3_UMNTALL", PROGRAM, VERSION, 4)
EXPORT = Exchange("MOUNTPROC3_EXPORT", PROGRAM, VERSION, 5, None, t.exports)


class MountRefused(Exception):
    """The server does not give the handle."""

    def __init__(self, status: t.mountstat3):
        super().__init__(status.name)
        self.status = status


def mount(transport: Transport, path: str) -> t.mountres3_ok:
    """The handle of an exported directory, and the flavours it asks for.  Raises MountRefused."""
    result: t.mountres3 = transport.call(MNT, _wire(path))
    if result.discriminant != t.mountstat3.MNT3_OK:
        raise MountRefused(t.mountstat3(result.discriminant))
    granted: t.mountres3_ok = result.value
    return granted


def unmount(transport: Transport, path: str) -> None:
    transport.call(UMNT, _wire(path))


def mounts(transport: Transport) -> list[tuple[str, str]]:
    """Who mounted what, as the server remembers it."""
    return [(_text(body.ml_hostname), _text(body.ml_directory)) for body in transport.call(DUMP)]


def exports(transport: Transport) -> dict[str, list[str]]:
    """What can be mounted, and by whom; nobody named means everybody."""
    return {_text(node.ex_dir): [_text(group.gr_name) for group in node.ex_groups] for node in transport.call(EXPORT)}


def _wire(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def _text(wire: bytes) -> str:
    return wire.decode("utf-8", "surrogateescape")
