"""Microseconds per encode and decode of what NFS servers do all day: `python bench/xdr.py [name]`.

Each figure is the best of several rounds, less the cost of an empty call.
"""

import sys
import timeit
from collections.abc import Callable, Iterator

from dittofs.protocols.nfs3 import types as nfs3
from dittofs.rpc.calling import Exchange, auth_sys
from dittofs.rpc.credentials import CallReader
from dittofs.rpc.messages import parse_call, rpc_msg
from dittofs.rpc.records import Reassembler, frame
from dittofs.xdr.types import Chunks, arm_encoder, codec_of, encoded

ROUNDS = 9
CALLS = 20_000

TIME = nfs3.nfstime3(1_700_000_000, 123_456_789)
ATTRIBUTES = nfs3.fattr3(
    type=nfs3.ftype3.NF3REG,
    mode=0o644,
    nlink=1,
    uid=1000,
    gid=1000,
    size=1 << 20,
    used=1 << 20,
    rdev=nfs3.specdata3(0, 0),
    fsid=7,
    fileid=42,
    atime=TIME,
    mtime=TIME,
    ctime=TIME,
)
HANDLE = bytes(range(32))
OK = nfs3.nfsstat3.NFS3_OK


def cases() -> Iterator[tuple[str, Callable[[], object]]]:
    """Name and what is measured."""
    kept = encoded(nfs3.fattr3, ATTRIBUTES)
    yield from both("fattr3", nfs3.fattr3, ATTRIBUTES)
    yield from both("GETATTR3args", nfs3.GETATTR3args, nfs3.GETATTR3args(HANDLE))
    getattr_ok = nfs3.GETATTR3resok(kept)
    yield "GETATTR3res, attributes kept: encode", encoder(nfs3.GETATTR3res, nfs3.GETATTR3res(OK, getattr_ok))
    encode_ok = arm_encoder(nfs3.GETATTR3res, OK)
    yield "GETATTR3res, the same by arm_encoder: encode", lambda: encode_ok([], getattr_ok)
    yield from both("LOOKUP3args", nfs3.LOOKUP3args, nfs3.LOOKUP3args(nfs3.diropargs3(HANDLE, b"some-name.txt")))
    lookup = nfs3.LOOKUP3res(OK, nfs3.LOOKUP3resok(HANDLE, kept, kept))
    yield "LOOKUP3res, attributes kept: encode", encoder(nfs3.LOOKUP3res, lookup)
    yield from both("READ3args", nfs3.READ3args, nfs3.READ3args(HANDLE, 1 << 33, 1 << 17))
    read = nfs3.READ3res(OK, nfs3.READ3resok(kept, 1 << 17, False, bytes(1 << 17)))
    yield "READ3res, 128 KiB: encode", encoder(nfs3.READ3res, read)
    write = nfs3.WRITE3args(HANDLE, 0, 1 << 17, nfs3.stable_how.UNSTABLE, bytes(1 << 17))
    yield from both("WRITE3args, 128 KiB", nfs3.WRITE3args, write)
    yield from calls()


def calls() -> Iterator[tuple[str, Callable[[], object]]]:
    getattr3 = Exchange("GETATTR", 100003, 3, 1, arguments=nfs3.GETATTR3args, result=nfs3.GETATTR3res)
    credential = auth_sys(uid=1000, gid=1000, groups=[4, 24, 27, 1000], machine_name=b"client")
    record = getattr3.encode(7, nfs3.GETATTR3args(HANDLE), credential=credential)
    reader = CallReader()
    yield "call, as declared (rpc_msg): decode", lambda: codec_of(rpc_msg).decode(record, 0)
    yield "call, parse_call", lambda: parse_call(record)
    yield "call, CallReader.read, caller known", lambda: reader.read(record)
    stream = frame(record) * 32
    records = Reassembler(max_record_size=1 << 21)
    yield "32 records in one read: feed", lambda: records.feed(stream)


def both(name: str, declaration: type, value: object) -> Iterator[tuple[str, Callable[[], object]]]:
    data = encoded(declaration, value)
    decode: Callable[[bytes, int], object] = codec_of(declaration).decode
    yield f"{name}: encode", encoder(declaration, value)
    yield f"{name}: decode", lambda: decode(data, 0)


def encoder(declaration: type, value: object) -> Callable[[], object]:
    encode: Callable[[Chunks, object], None] = codec_of(declaration).encode

    def run() -> None:
        out: Chunks = []
        encode(out, value)

    return run


def microseconds(action: Callable[[], object]) -> float:
    return min(timeit.repeat(action, number=CALLS, repeat=ROUNDS)) / CALLS * 1e6


def main() -> None:
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    empty = microseconds(lambda: None)
    for name, action in cases():
        if wanted in name:
            print(f"{microseconds(action) - empty:8.3f} µs  {name}")


if __name__ == "__main__":
    main()
