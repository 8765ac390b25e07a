"""The end of a file of lines, as of a journal or a log."""

import os
from pathlib import Path


def tail(path: Path, most_bytes: int) -> str:
    """The last bytes of a file as text, from the beginning of a line on. Raises OSError when it cannot be read.

    What is no UTF-8 is replaced. The last line may still be being written.
    """
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - most_bytes, 0))
        text = file.read().decode("utf-8", "replace")
    return text if size <= most_bytes else text.partition("\n")[2]
