"""Freed arrays go back to the system, also between others that stay."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys
import numpy as np
import pyarrow as pa
from engine.base.allocators import return_freed_memory

MIB = 1 << 20
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 // MIB

def array(size):
    made = np.ones(size, np.uint8) if sys.argv[1] == "numpy" else pa.py_buffer(b"1" * size)
    return made if sys.argv[1] == "numpy" else \
pa.concat_arrays([pa.Array.from_buffers(pa.uint8(), size, [None, made])] * 2)

if sys.argv[2] == "returned":
    return_freed_memory()
array(8 * MIB)  # the C library would keep arrays up to this size from now on
kept, before = [array(3 * MIB) for _ in range(40)], resident()
del kept[:-1]
print(before - resident())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other C libraries have rules of their own")
@pytest.mark.parametrize("made_by", ["numpy", "arrow"])
def test_freed_memory_is_returned(made_by: str) -> None:
    """Without it, the process keeps most of it."""
    command = [sys.executable, "-c", SCRIPT, made_by]
    returned, kept = (
        int(subprocess.run([*command, how], check=True, capture_output=True, text=True).stdout)
        for how in ("returned", "kept")
    )
    assert returned >= 100, "MiB of 120 at least"
    assert kept < returned
