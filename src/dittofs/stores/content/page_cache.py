"""What of a file is in memory, asked of the kernel: cachestat(2), in Linux since 6.5, and not in Python."""

import ctypes
import mmap

_CACHESTAT = 451
_PAGE = mmap.PAGESIZE


class _Range(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


class _Found(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("cached", "dirty", "writeback", "evicted", "recently"))


_range, _found = _Range(), _Found()
_range_pointer, _found_pointer = ctypes.byref(_range), ctypes.byref(_found)
_system_call = ctypes.CDLL(None).syscall


def is_cached(descriptor: int, offset: int, count: int) -> bool:
    """Whether every page of a range is in memory; False too where the kernel cannot be asked."""
    _range.offset, _range.length = offset, count
    if _system_call(_CACHESTAT, descriptor, _range_pointer, _found_pointer, 0):
        return False
    pages = (offset + count - 1) // _PAGE - offset // _PAGE + 1
    return bool(_found.cached >= pages)
