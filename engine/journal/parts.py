"""The parts of journals: the only owner of their names.

A run's journal begins in `<run>.jsonl`. When a part is large or old enough, the run continues in `<run>.<seq>.jsonl`,
named after its first line's `seq`, in 12 digits. Parts are never renamed, and only a run's last part grows, so a reader
may list them, open them later, and miss nothing. A closed part may be compressed: `.gz` is appended to its name, then
the plain file is deleted.
"""

import gzip
import re
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import BinaryIO, cast

from engine.base.tail import tail

_NAME = re.compile(r"(?P<run>.+?)(?:\.(?P<first>\d{12}))?\.jsonl(?P<packed>\.gz)?")


@dataclass(frozen=True, order=True)
class Part:
    """One file of a run's journal. Parts sort by run, then by their order in the run.

    first: the `seq` of its first line; 0 for the run's first part. closed: whether the run has a later part, so this
    one does not grow.
    """

    run: str
    first: int
    path: Path
    closed: bool = False

    @property
    def compressed(self) -> bool:
        """Whether the file is compressed."""
        return self.path.suffix == ".gz"

    def open(self) -> BinaryIO:
        """The part's lines. Raises OSError. A part that was compressed since it was listed is found."""
        if not self.compressed:
            with suppress(FileNotFoundError):
                return self.path.open("rb")
        return cast("BinaryIO", gzip.open(compressed(self.path), "rb"))


def path_of(first_part: Path, seq: int) -> Path:
    """The file of the part that begins with the line `seq`. first_part: the run's first file."""
    return first_part.with_name(f"{first_part.stem}.{seq:012d}.jsonl")


def compressed(path: Path) -> Path:
    """The compressed file of a part."""
    return path if path.suffix == ".gz" else path.with_name(f"{path.name}.gz")


def plain(path: Path) -> Path:
    """The file of a part before it was compressed."""
    return path.with_suffix("") if path.suffix == ".gz" else path


def parts_in(folder: Path, run: str | None = None) -> list[Part]:
    """The parts of all journals in a folder, or of one run, in order. Empty if the folder does not exist."""
    paths: dict[tuple[str, int], Path] = {}
    for path in folder.glob("*.jsonl*"):
        match = _NAME.fullmatch(path.name)
        if match is None or run not in (None, match["run"]):
            continue
        key = match["run"], int(match["first"] or 0)
        if key not in paths or match["packed"]:  # both: it has just been compressed, and the plain file will be deleted
            paths[key] = path
    ordered = sorted(paths)
    following = [*ordered[1:], ("", 0)]
    return [Part(*key, paths[key], key[0] == after[0]) for key, after in zip(ordered, following, strict=False)]


def runs_in(folder: Path) -> list[str]:
    """The runs that have a journal, oldest first."""
    return [run for run, _ in groupby(parts_in(folder), key=lambda part: part.run)]


def newest_lines(folder: Path, most_bytes: int, run: str | None = None) -> list[str]:
    """The last lines of a run's journal, at most about `most_bytes`; by default, of the newest run.

    The last line may be incomplete. The lines may be fewer after many parts in a short time: only the newest two are
    read. Raises OSError.
    """
    parts = parts_in(folder, run)
    mine = [part for part in parts if part.run == parts[-1].run][-2:]
    lines: list[str] = []
    size = 0
    for part in reversed(mine):
        if part.closed and part.compressed:
            break
        text = _tail(part, most_bytes - size)
        lines, size = text.splitlines() + lines, size + len(text)
        if size >= most_bytes // 2:
            break
    return lines


def _tail(part: Part, most_bytes: int) -> str:
    if not part.compressed:
        with suppress(FileNotFoundError):
            return tail(part.path, most_bytes)
    with part.open() as file:
        text = file.read()[-most_bytes:].decode("utf-8", "replace")
    return text if len(text) < most_bytes else text.partition("\n")[2]
