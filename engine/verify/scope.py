"""Which tables, and which parts of them, a verification compares."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from engine.base.errors import SpecError
from engine.base.wording import plural
from engine.capture.redump_requests import chunk_ranges, redump_from
from engine.decode.schema import Table
from engine.journal.sentences import named_chunks
from engine.ledger.state import State, TableState
from engine.pipeline.directory import Directory
from engine.plan.chunks import WHOLE, Plan, Range
from engine.plan.conditions import is_comparable
from engine.plan.coverage import covers
from engine.plan.keys import Bound
from engine.verify.table_check import NumberedRange


@dataclass(frozen=True)
class Scope:
    """A request: all tables if it names none.

    Else chunks, a range or keys of one table; or a share of each table's chunks.
    """

    tables: tuple[str, ...] = ()
    chunks: tuple[int, ...] = ()
    limits: Range | None = None
    keys: tuple[Bound, ...] = ()
    sample: float = 1.0
    """The share of chunks, from 0 to 1."""
    ranges: tuple[NumberedRange, ...] = ()
    """The ranges of `chunks`, if they are known."""

    @property
    def whole(self) -> bool:
        """Whether it covers whole tables."""
        return not self.chunks and self.limits is None and not self.keys and self.sample >= 1

    def describe(self) -> str:
        """The part of each table, in words; empty for whole tables."""
        if self.chunks:
            return named_chunks(self.chunks).lower()
        if self.limits is not None:
            return "a range"
        if self.keys:
            return plural(len(self.keys), "key")
        return "" if self.whole else f"a sample of {self.sample:.3g} of the chunks"


def scope_of(directory: Directory, state: State, arguments: dict[str, object], sample: str = "") -> Scope:
    """The scope of command line arguments, given as those of a redump. Raises SpecError for parts that do not exist."""
    redump = redump_from("", directory.inbox, arguments, state.tables, directory.journals)
    limits = redump.ranges[0] if redump.ranges and not redump.chunks else None
    return Scope(redump.tables, redump.chunks, limits, redump.keys, share(sample))


def share(text: str) -> float:
    """A share such as `5%`; 1 if empty. Raises SpecError."""
    if not text:
        return 1.0
    try:
        fraction = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        fraction = 0.0
    if not 0 < fraction <= 1:
        raise SpecError(f"--sample {text} is not a share such as 5%.", detail="Nothing was compared.")
    return fraction


def ranges_of(
    scope: Scope, directory: Directory, table_state: TableState, table: Table, plan: Plan
) -> Sequence[NumberedRange]:
    """The ranges of one table to compare.

    They are the chunks of its last copy, so that each has its own verdict. Their bounds come from the journals, which
    are not synced to disk. So they must cover the whole table, which the ledger says is copied, whatever the journals
    say. If they do not, if the journals no longer have all of them, or if the server orders the chunk key, it is one
    range.
    """
    if scope.ranges:
        return scope.ranges
    if scope.chunks:
        ranges = chunk_ranges(directory.journals, table, plan, list(scope.chunks))
        return [
            NumberedRange(number, limits) for number, limits in zip(dict.fromkeys(scope.chunks), ranges, strict=True)
        ]
    if scope.limits is not None:
        return [NumberedRange(None, scope.limits)]
    numbers = [number for first, last in table_state.coverage.finished for number in range(first, last + 1)]
    key = plan.key(table)
    divided = len(numbers) > 1 and key is not None and (is_comparable(key) or scope.sample < 1)
    try:
        ranges = chunk_ranges(directory.journals, table, plan, numbers) if divided else ()
    except SpecError:
        ranges = ()
    if not covers((limits.lower, limits.upper) for limits in ranges):
        return [NumberedRange(numbers[0] if len(numbers) == 1 else None, WHOLE)]
    numbered = [NumberedRange(number, limits) for number, limits in zip(numbers, ranges, strict=True)]
    if scope.sample < 1:
        numbered = random.Random().sample(numbered, max(1, round(len(numbered) * scope.sample)))  # noqa: S311 - no secret
    return numbered
