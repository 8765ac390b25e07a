"""Lets the process return the memory of large arrays to the system as soon as it is free.

Arrow's own allocator (mimalloc) keeps what its threads have freed. So does the C library, for arrays up to the size of
the largest one freed so far (`M_MMAP_THRESHOLD`, mallopt(3)). In a merge beside a verification, about 180 MiB of 425
were kept this way. Readers keep both: they allocate the same sizes again and again.
"""

import ctypes
from contextlib import suppress

import pyarrow as pa

_M_MMAP_THRESHOLD = -3
_LARGE_BYTES = 1 << 20


def return_freed_memory() -> None:
    """Apply this to the whole process, from now on.

    C libraries without `mallopt` (macOS, musl) have rules of their own.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
