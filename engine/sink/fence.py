"""Whose a destination is: the terms of the runners that wrote there, one file a term, below `<path>/_tidemark/<ledger>/`.

A lock keeps a second runner out only where both see the same lock: not when its file was deleted, not on a network file system
without locks, and not when the pipeline's folder was copied while `sink.path` stayed the same. So a runner takes a *term* before it
writes or deletes anything:

    in the ledger        an epoch of its own; a runner of an earlier term cannot commit any more (`ledger.store`)
    in the destination   a file `term-00000007.json`, which only one runner can create; and in every Delta commit the term as a
                         transaction identifier (`sink.delta`)

A runner looks at the term before each commit, and stops when there is a later one (exit code 5). One that looked and was then held
up for long writes nothing either: the new runner seals every table with a commit of its own term, so the version that the old one
knows is taken; then it looks again. Only a runner that ended in order leaves nothing to seal.

A ledger that was restored from an older copy, or is a copy whose original went on, does not know the newest term: it is refused
before anything is written (`compare`).
"""

import json
import os
import re
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from engine.directory import write_atomically
from engine.durable import make_folders, sync_folder
from engine.errors import MismatchError, PipelineHeldError

_TERM = re.compile(r"^term-(\d{8,})\.json$")
_KEPT = 20
FORMAT = 1


@dataclass(frozen=True)
class Term:
    """A runner's hold on a destination."""

    number: int
    run: str
    host: str
    pid: int
    since: str
    ended: bool = False
    """Whether the runner has ended in order, and writes nothing more."""


class Fence:
    """The terms of one ledger in one destination."""

    def __init__(self, root: Path, ledger: str) -> None:
        self._folder = root / "_tidemark" / ledger
        self._own: Term | None = None

    def newest(self) -> Term | None:
        """The newest term; None before the first, as in destinations that an earlier version has written."""
        if not self._folder.is_dir():
            return None
        numbers = [int(match[1]) for path in self._folder.iterdir() if (match := _TERM.match(path.name))]
        return self._read(max(numbers)) if numbers else None

    def take(self, term: Term) -> None:
        """Make the destination this runner's. Raises PipelineHeldError when another one has taken this term or a later one."""
        make_folders(self._folder)
        temporary = self._folder / f".term-{uuid.uuid4().hex}"
        write_atomically(temporary, _text(term))
        try:
            os.link(temporary, self._path(term.number))
        except FileExistsError:
            raise _overtaken(term, self.newest()) from None
        finally:
            temporary.unlink()
        sync_folder(self._folder)
        self._own = term
        self.check()
        for path in sorted(self._folder.glob("term-*.json"))[:-_KEPT]:
            path.unlink(missing_ok=True)

    def check(self) -> int:
        """The number of this runner's term. Raises PipelineHeldError when another runner has taken a later one.

        Looks for two files, not through the folder: terms count up by one, and old ones are removed in their order.
        """
        assert self._own is not None
        if self._path(self._own.number + 1).exists() or not self._path(self._own.number).exists():
            raise _overtaken(self._own, self.newest())
        return self._own.number

    def release(self) -> None:
        """This runner has ended in order."""
        if self._own is not None and self._path(self._own.number).exists():
            write_atomically(self._path(self._own.number), _text(replace(self._own, ended=True)))

    def _path(self, number: int) -> Path:
        return self._folder / f"term-{number:08d}.json"

    def _read(self, number: int) -> Term:
        path = self._path(number)
        try:
            record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return Term(**{name: value for name, value in record.items() if name != "format"})
        except (OSError, ValueError, TypeError) as error:
            raise MismatchError(
                f"{path} does not hold a runner's term: {error!r}.",
                detail="It says who may write to the destination; nothing was written.",
                hint="Restore it from a copy. If no runner is at work on this destination anywhere, remove it.",
            ) from error


def known_term(newest: Term | None, known: Iterable[tuple[int, str]]) -> bool:
    """Whether the ledger knows the newest term of the destination: nobody has written there since behind its back."""
    return newest is None or (newest.number, newest.run) in set(known)


def _text(term: Term) -> str:
    return json.dumps({"format": FORMAT, **asdict(term)}, indent=1)


def _overtaken(own: Term, newest: Term | None) -> PipelineHeldError:
    other = f"run {newest.run} on {newest.host} (pid {newest.pid})" if newest else "another runner"
    return PipelineHeldError(
        f"The pipeline was taken over by {other}; this run had term {own.number}.",
        detail="Nothing was written or deleted since; what this run had committed is part of what the other one goes on from.",
        hint="Run one runner a pipeline; to have one that waits for its turn: tidemark run SPEC --standby",
    )
