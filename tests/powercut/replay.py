"""What a disk may hold after a power cut, made of a folder and of the record that `shim.c` has of it.

POSIX promises little. Bytes are on the disk once their file was synced; an entry of a folder (a new file, a hard link,
a rename, a removal) once that folder was synced, and the file's own sync does nothing for it. So a strict disk has lost

    bytes     what was written to a file after its last sync: it ends where the first such write began
    entries   every change of a folder after the folder's last sync: a new entry is gone, a removed one is back, and a
              rename within a folder is undone as a whole, with what it replaced

Real disks keep some of that. By a seed, each loss happens or not: of bytes all, a part, or zeros in their place are
kept; of entries either those up to an instant (a journalling file system) or any (others).

What the record does not know, such as files of processes without the shim, counts as synced.
"""

import os
import random
import shutil
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote_to_bytes

Name = tuple[int, bytes]
"""An entry: the inode of its folder, and its name."""


@dataclass
class _Change:
    """A change of one folder. at: its time, in records. entries: the new entries: inodes, 0 for none."""

    at: int
    folder: int
    entries: dict[bytes, int]
    durable: bool = False


@dataclass
class Record:
    """The recorded operations.

    Changes of folders in order and, by inode, the writes (time, offset) since the last sync.
    """

    changes: list[_Change] = field(default_factory=list)
    before: dict[Name, int] = field(default_factory=dict)
    """What entries were before their first change."""
    writes: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    sizes: dict[int, int] = field(default_factory=dict)
    """Of files that did not exist before: how many of their first bytes have been synced."""
    folders: set[int] = field(default_factory=set)
    """Inodes of folders that were removed."""


@dataclass(frozen=True)
class Lost:
    """What the power cut took.

    entries: paths below the root that are gone, back, or another file. shortened: by path, bytes left of those there
    were.
    """

    entries: list[str]
    shortened: dict[str, tuple[int, int]]


def read_record(lines: Iterable[str], present: dict[Name, int]) -> Record:
    """The record as operations.

    present: the entries that the root has now, which say what became of announced operations.
    """
    record, begun, announced = Record(), dict[str, int](), dict[str, list[str]]()
    for at, line in enumerate(lines):
        kind, *words = line.split()
        if kind == "w":
            record.writes[int(words[0])].append((at, int(words[1])))
        elif kind == "s":
            begun[words[0]] = at
        elif kind == "S":
            _sync(record, begun.pop(words[0]), int(words[1]), int(words[2]))
        elif kind in "+->":
            announced[words[0]] = [kind, *words[1:]]
        elif kind == "=":
            _done(record, at, announced.pop(words[0]), int(words[1]), fresh=words[2] == "1")
        elif kind == "!":
            del announced[words[0]]
    for operation in announced.values():
        _broken_off(record, operation, present)
    return record


def _sync(record: Record, begun: int, inode: int, size: int) -> None:
    """A sync that covers everything recorded before it began; inode 0: of all files and folders."""
    for change in record.changes:
        change.durable = change.durable or (change.at < begun and inode in (0, change.folder))
    for known in [inode] if inode else list(record.writes):
        record.writes[known] = [write for write in record.writes[known] if write[0] > begun]
        if known in record.sizes:
            record.sizes[known] = size if inode else 1 << 62


def _done(record: Record, at: int, operation: list[str], inode: int, *, fresh: bool) -> None:
    kind, *words = operation
    if kind == "+":
        record.folders.discard(inode)  # of a folder that was removed, whose inode is another's now
        _change(record, at, int(words[0]), {_name(words[1]): (0, inode)})
        if fresh:
            record.sizes[inode] = 0
    elif kind == "-":
        _change(record, at, int(words[0]), {_name(words[1]): (int(words[2]), 0)})
        record.folders |= {int(words[2])} if words[3] == "1" else set()
    else:
        folder, name, known, other, target, replaced = words
        source = {_name(name): (int(known), 0)}
        aim = {_name(target): (int(replaced), inode)}
        if folder == other:
            _change(record, at, int(folder), source | aim)
        else:
            _change(record, at, int(folder), source)
            _change(record, at, int(other), aim)


def _change(record: Record, at: int, folder: int, entries: dict[bytes, tuple[int, int]]) -> None:
    if folder:  # else it is not ours
        for name, (was, _) in entries.items():
            record.before.setdefault((folder, name), was)
        record.changes.append(_Change(at, folder, {name: becomes for name, (_, becomes) in entries.items()}))


def _broken_off(record: Record, operation: list[str], present: dict[Name, int]) -> None:
    """Whether an operation whose process was killed during it was done."""
    kind, *words = operation
    last = 1 << 62
    here = present.get((int(words[0]), _name(words[1])), 0)
    if kind == "+" and here:
        # A file that was just made is empty; a link to a file that was there before keeps its bytes.
        _done(record, last, operation, here, fresh=False)
    elif kind == "-" and here != int(words[2]):
        _done(record, last, operation, 0, fresh=False)
    elif kind == ">":
        there = present.get((int(words[3]), _name(words[4])), 0)
        if not here and (there == int(words[2]) or not int(words[3])):
            _done(record, last, operation, there, fresh=False)


def _name(word: str) -> bytes:
    return unquote_to_bytes(word)


def kept_changes(changes: list[_Change], chance: random.Random | None) -> list[_Change]:
    """The changes that the disk has, in order; chance: None for a disk that loses everything unsynced."""
    if chance is None:
        return [change for change in changes if change.durable]
    if chance.random() < 0.5:
        least = max((n + 1 for n, change in enumerate(changes) if change.durable), default=0)
        return changes[: chance.randint(least, len(changes))]
    return [change for change in changes if change.durable or chance.random() < 0.5]


def replay(root: Path, record: Path, shadow: Path, seed: int | None = None) -> Lost:
    """Turn the folder into what the disk may hold. All processes that the record is of must have ended.

    shadow: where the shim kept files that lost a name; it is emptied. The record is emptied too, for the next start.
    seed: None for the strict disk. The root is a new folder afterwards.
    """
    tree = _scan(root)
    present = {(folder, name): inode for folder, entries in tree.items() for name, inode in entries.items()}
    lines = record.read_text(encoding="ascii").splitlines() if record.exists() else []
    events = read_record(lines, present)
    chance = None if seed is None else random.Random(seed)
    wanted = dict(events.before)
    for change in kept_changes(events.changes, chance):
        wanted |= {(change.folder, name): inode for name, inode in change.entries.items()}
    for (folder, name), inode in wanted.items():
        entries = tree.setdefault(folder, {})
        entries.pop(name, None)
        if inode:
            entries[name] = inode
    sources = dict(_sources(root)) | {int(kept.name): kept for kept in shadow.iterdir()}
    there = _files(root)
    shortened = dict(_shorten(events, sources, chance, root))
    new = root.with_name(f"{root.name}.replayed")
    _build(new, root.stat().st_ino, tree, events.folders, sources, set())
    shutil.copystat(root, new)
    shutil.rmtree(root)
    new.rename(root)
    left = _files(root)
    for kept in shadow.iterdir():
        kept.unlink()
    record.write_bytes(b"")
    changed = sorted(path for path in there.keys() | left.keys() if there.get(path) != left.get(path))
    return Lost(changed, shortened)


def _files(root: Path) -> dict[str, int]:
    """The inodes of all files by their paths; 0 for folders."""
    return {str(path.relative_to(root)): 0 if path.is_dir() else path.lstat().st_ino for path in root.rglob("*")}


def _scan(root: Path) -> dict[int, dict[bytes, int]]:
    """The entries of each folder, the root's too: their inodes by name."""
    folders = [root, *(path for path in root.rglob("*") if path.is_dir() and not path.is_symlink())]
    return {
        folder.stat().st_ino: {os.fsencode(path.name): path.lstat().st_ino for path in folder.iterdir()}
        for folder in folders
    }


def _sources(root: Path) -> Iterator[tuple[int, Path]]:
    for path in (root, *root.rglob("*")):
        yield path.lstat().st_ino, path


def _shorten(
    events: Record, sources: dict[int, Path], chance: random.Random | None, root: Path
) -> Iterator[tuple[str, tuple[int, int]]]:
    """Remove the unsynced bytes from the files; yields their paths, with the bytes left and the bytes before."""
    for inode, writes in sorted(events.writes.items()):
        path = sources.get(inode)
        if path is None or not stat.S_ISREG(path.lstat().st_mode) or not writes:
            continue
        size = path.stat().st_size
        safe = min(size, events.sizes.get(inode, size), *(offset for _, offset in writes))
        how = chance.choice(("all", "part", "zeros", "none")) if chance else "none"
        if how == "all" or (size == safe and how != "none"):
            continue
        left = chance.randint(safe, size) if chance and how == "part" else safe
        os.truncate(path, left)
        if how == "zeros":
            os.truncate(path, size)
        yield str(path.relative_to(root) if path.is_relative_to(root) else path.name), (left, size)


def _build(
    folder: Path,
    inode: int,
    tree: dict[int, dict[bytes, int]],
    removed: set[int],
    sources: dict[int, Path],
    built: set[int],
) -> None:
    """Build the folder from the entries of its tree: hard links to the files as they were."""
    folder.mkdir()
    built.add(inode)
    for name, child in tree.get(inode, {}).items():
        path, source = folder / os.fsdecode(name), sources.get(child)
        if child in removed or (source is not None and source.is_dir() and not source.is_symlink()):
            if child not in built:  # a folder that moved half-way is in one place
                _build(path, child, tree, removed, sources, built)
        elif source is not None:  # else a process without the shim has deleted it
            os.link(source, path, follow_symlinks=False)
