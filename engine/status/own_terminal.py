"""Keeps a terminal for the progress of a run: what native code and child processes print goes to `runner.log`.

Java and Spark write their warnings to the descriptors 1 and 2 that they inherit, whatever Python does with
`sys.stdout`. Their lines would stand inside the progress bars.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

_OUTPUTS = (1, 2)


@contextmanager
def own_terminal(log: Path) -> Iterator[IO[str]]:
    """A file that writes to what was stdout. Until the block ends, stdout and stderr of this process lead to the log.

    Raises OSError if the log cannot be written.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        terminal = stack.enter_context(os.fdopen(os.dup(1), "w", encoding=sys.stdout.encoding or "utf-8"))
        for number in _OUTPUTS:
            duplicate = os.dup(number)
            stack.callback(os.close, duplicate)
            stack.callback(os.dup2, duplicate, number)
        stack.callback(_flush)
        _flush()
        with log.open("ab") as file:
            for number in _OUTPUTS:
                os.dup2(file.fileno(), number)
        yield terminal


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
