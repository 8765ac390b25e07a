"""The end of a file of lines, such as a journal or a log."""

import os
from pathlib import Path


def tail(path: Path, most_bytes: int) -> str:
    """The last bytes of a file as text, starting at the beginning of a line. Raises OSError if it cannot be read.

    Invalid UTF-8 is replaced. The last line may be incomplete.
    """
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - most_bytes, 0))
        text = file.read().decode("utf-8", "replace")
    return text if size <= most_bytes else text.partition("\n")[2]
