"""The end of a command's process, with the exit code that was decided.

When the interpreter ends, native libraries are taken down under daemon threads that may still use them. Arrow then
aborts: a run that had ended well was seen to end with signal 6. So the process ends itself before that, after
everything else that runs then.
"""

import atexit
import os
import sys
from contextlib import suppress

_decided: list[int] = []


def decide(code: int) -> None:
    """Set the exit code. The process ends with it, whatever its threads do."""
    _decided[:] = [code]


@atexit.register  # the first one is the last to be called
def _end() -> None:
    if _decided:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):  # the reader of a pipe may be gone
                stream.flush()
        os._exit(_decided[0])
