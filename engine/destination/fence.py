"""Fences a destination: the terms of the runners that write there, one file per term, in `<path>/_tidemark/<ledger>/`.

A lock (`pipeline.pipeline_lock`) keeps a second runner out only if both see the same lock. It fails when the lock file
is deleted, on a network file system without locks, and when the pipeline's folder is copied with the same `sink.path`.
So a runner takes a *term* before it writes or deletes anything:

    in the ledger        a separate epoch; a runner with an earlier term cannot commit any more (`ledger.store`)
    in the destination   a file `term-00000007.json`, which only one runner can create; and the term as a transaction
                         identifier in every Delta commit (`destination.delta.delta_destination`)

A runner checks the term before each commit, and stops when there is a later one (exit code 5). A runner that is delayed
for long after its check writes nothing either. The new runner fences every table with a commit of its own term, which
takes the version that the old one expects, and then compares again. Only a runner that ended in order leaves nothing to
fence.

A ledger that was restored from an older copy, or whose original continued, does not know the newest term. It is refused
before anything is written (`compare`).
"""

import json
import os
import re
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from engine.base.durable import link, make_folders, sync_folder, write_atomically
from engine.base.errors import MismatchError, PipelineHeldError

_TERM = re.compile(r"^term-(\d{8,})\.json$")
_KEPT_TERMS = 20
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
    """Whether the runner ended in order and writes nothing more."""


class Fence:
    """The terms of one ledger in one destination."""

    def __init__(self, root: Path, ledger: str) -> None:
        self._folder = root / "_tidemark" / ledger
        self._term: Term | None = None

    @staticmethod
    def ledgers(root: Path) -> list[str]:
        """The ledgers whose runners have written to a destination."""
        folder = root / "_tidemark"
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def newest(self) -> Term | None:
        """The newest term; None if there is none, as in destinations of an earlier version."""
        if not self._folder.is_dir():
            return None
        numbers = self._numbers()
        return self._read(max(numbers)) if numbers else None

    def _numbers(self) -> list[int]:
        with suppress(FileNotFoundError):
            return [int(match[1]) for name in os.listdir(self._folder) if (match := _TERM.match(name))]  # noqa: PTH208
        return []

    def take(self, term: Term) -> None:
        """Take the destination for this runner.

        Raises PipelineHeldError when another one has this term or a later one.
        """
        make_folders(self._folder)
        if max(self._numbers(), default=0) > term.number:
            raise _takeover_error(term, self.newest())
        temporary = self._folder / f".term-{uuid.uuid4().hex}"
        write_atomically(temporary, _text(term))
        try:
            if not link(temporary, self._path(term.number)):
                raise _takeover_error(term, self.newest())
        finally:
            with suppress(OSError):
                temporary.unlink()
        sync_folder(self._folder)
        self._term = term
        self.check()
        for path in sorted(self._folder.glob("term-*.json"))[:-_KEPT_TERMS]:
            path.unlink(missing_ok=True)

    def check(self) -> int:
        """The number of this runner's term. Raises PipelineHeldError when another runner has a later one.

        It need not be the next one: a run that could not reach the destination took none here.
        """
        assert self._term is not None
        numbers = self._numbers()
        if self._term.number not in numbers or max(numbers) > self._term.number:
            raise _takeover_error(self._term, self.newest())
        return self._term.number

    @property
    def own_term(self) -> Term:
        """This runner's term."""
        assert self._term is not None
        return self._term

    def release(self) -> None:
        """Mark this runner as ended in order."""
        if self._term is not None and self._path(self._term.number).exists():
            write_atomically(self._path(self._term.number), _text(replace(self._term, ended=True)))

    def _path(self, number: int) -> Path:
        return self._folder / f"term-{number:08d}.json"

    def _read(self, number: int) -> Term:
        path = self._path(number)
        try:
            record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return Term(**{name: value for name, value in record.items() if name != "format"})
        except (OSError, ValueError, TypeError) as error:
            raise MismatchError(
                f"{path} is not a valid term file: {error!r}.",
                detail="It says who may write to the destination; nothing was written.",
                hint="Restore it from a copy. If no runner uses this destination anywhere, delete it.",
            ) from error


def is_known_term(newest: Term | None, ledger_terms: Iterable[tuple[int, str]]) -> bool:
    """Whether the ledger knows the destination's newest term, so that no unknown runner has written there."""
    return newest is None or (newest.number, newest.run) in set(ledger_terms)


def _text(term: Term) -> str:
    return json.dumps({"format": FORMAT, **asdict(term)}, indent=1)


def _takeover_error(own: Term, newest: Term | None) -> PipelineHeldError:
    other = f"run {newest.run} on {newest.host} (pid {newest.pid})" if newest else "another runner"
    return PipelineHeldError(
        f"The pipeline was taken over by {other}; this run had term {own.number}.",
        detail="Nothing was written or deleted since. The other run continues from this run's commits.",
        hint="Run one runner per pipeline. For a runner that waits for its turn: tidemark run SPEC --standby",
    )
