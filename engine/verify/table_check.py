"""Verifies the rows of one table: a quick comparison, then an exact one of whatever was different.

    quick     a part of the table is read with a plain SELECT and compared with the mirror's rows. Equal rows are
              verified.
    exact     keys that differ are compared at one position (`settling`), many of them together, because each comparison
              reads the binlog from the mirror's position. If much of a range differs, the range is compared instead.
    again     what differs there is a difference. It is reported if it is still there in another exact comparison.

A part is a range of the chunk key. Ranges of keys that only the server can order cannot be found in the mirror, so such
a table is compared at once, in partitions by a digest of the key.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from engine.base import clock
from engine.base.errors import SpecError
from engine.decode.schema import Table
from engine.plan.chunks import WHOLE, Range, text
from engine.plan.conditions import condition_of, is_comparable
from engine.plan.keys import ORDERS, Bound, is_ambiguous
from engine.plan.named import check_keys
from engine.plan.row_conditions import EVERY_ROW, RowCondition
from engine.source.positions import Position
from engine.verify.comparison import RowComparison
from engine.verify.mirror_at import MirrorAt
from engine.verify.partitions import Partitions
from engine.verify.settling import Settled, Settling, only
from engine.verify.source_rows import SourceRows
from engine.verify.verdicts import MOST_LISTED, Incomparable, PartResult

_MOST_KEYS = 20_000
"""Keys that are compared exactly at the same time."""
MOST_NAMED = 100_000
"""Differing keys that are named, to repair them."""
_REFRESH_S = 5.0
"""A mirror's version is replaced by a newer one for the quick comparison when it is older than this."""


@dataclass(frozen=True)
class NumberedRange:
    """A range to compare. `chunk`: its number in the last copy; None if it is none of its chunks."""

    chunk: int | None
    limits: Range


@dataclass
class TableFindings:
    """What the comparison of a table has found."""

    rows: int = 0
    """Rows of the source that were compared."""
    differences: list[tuple[int | None, RowComparison]] = field(default_factory=list)
    """The rows of at least the first `MOST_LISTED` differences, with the number of the part that they are in."""
    keys: list[pa.Table] = field(default_factory=list)
    """The keys of all differences, while they are at most `MOST_NAMED`."""
    counts: Counter[str] = field(default_factory=Counter)
    """The number of differences by kind."""
    parts: list[PartResult] = field(default_factory=list)
    lacking: int = 0
    """Keys whose changes the mirror lacked."""
    reached: Position | None = None
    """The last position up to which such changes were replayed; None if there were none."""
    first: MirrorAt | None = None
    """The mirror as the comparison began."""

    @property
    def total(self) -> int:
        """The number of differences."""
        return self.counts.total()

    def add(self, part: int | None, compared: RowComparison, key: Sequence[str]) -> None:
        """Add differences. Rows that nobody will list are dropped: all rows of a large table may differ."""
        before = self.total
        self.counts.update(compared.counts)
        if before < MOST_LISTED:
            self.differences.append((part, compared.first(MOST_LISTED)))
        if self.total <= MOST_NAMED:
            self.keys.append(compared.keys(key))

    def replayed(self, settled: Settled) -> None:
        """Add the keys whose changes the mirror lacked in an exact comparison."""
        self.lacking += settled.lacking
        if settled.lacking and (self.reached is None or settled.position.order > self.reached.order):
            self.reached = settled.position

    def forget(self) -> None:
        """Forget the differences, because all of them are found again."""
        self.differences.clear()
        self.keys.clear()
        self.counts.clear()


class TableCheck:
    """Compares parts of one table, and collects what it finds in `findings`."""

    def __init__(self, source: SourceRows, settling: Settling, ended: Callable[[], bool] = lambda: False) -> None:
        """ended: whether to abandon the comparison."""
        self._ended = ended
        self._source = source
        self._settling = settling
        self._key = source.request.table.key
        self._table = source.request.table
        self.findings = TableFindings()
        self._waiting: list[tuple[int, pa.Table]] = []
        self._at: MirrorAt | None = None
        self._loaded_s = 0.0
        self._settled = False
        """Whether the whole table was compared exactly."""

    def ranges(self, ranges: Sequence[NumberedRange]) -> None:
        """Compare the rows of ranges."""
        key = self._source.request.key
        if key is not None and is_comparable(key):
            for one in ranges:
                part = self._add_part(one)
                for limits, rows in self._source.quick(one.limits):
                    mirror_rows = self._settling.mirror_rows(self._mirror(), limits)
                    self.close(only_exclusive=True)
                    self._compare(part, limits, rows, mirror_rows)
        elif [one.limits for one in ranges] == [WHOLE]:
            self._partitions(ranges[0])
        else:
            self._mirror()
            self.close()
            for one in ranges:
                self._settle_range(one.limits, self._add_part(one), counted=True)
        self._settle_waiting()

    def counts(self, ranges: Sequence[NumberedRange]) -> None:
        """Compare the numbers of rows of ranges, and the rows of those that differ."""
        others = list[NumberedRange]()
        filtered = self._source.request.projection.where is not None
        for one in () if filtered else ranges:
            condition = self._condition(one.limits)
            rows = self._source.count(one.limits) if condition is not None else 0
            mirror_count = self._mirror().mirror.count(condition) if condition is not None else -1
            self.close(only_exclusive=True)
            if rows == mirror_count:
                self._note(self._add_part(one), rows)
            else:
                others.append(one)
        self.ranges(list(ranges) if filtered else others)

    def keys(self, keys: Sequence[Bound]) -> None:
        """Compare rows named by their keys."""
        self._mirror()
        self.close()
        for compared in self._settled_keys(keys):
            self._report(None, compared)
        self.findings.rows = len(keys)

    def differing_keys(self) -> tuple[Bound, ...] | None:
        """The keys of all differences as texts; None if they cannot name rows, or are more than a redump takes."""
        if self.findings.total > MOST_NAMED:
            return None
        named = self._named(pa.concat_tables(self.findings.keys)) if self.findings.keys else []
        return None if named is None else tuple(dict.fromkeys(named))

    def _condition(self, limits: Range) -> RowCondition | None:
        key = self._source.request.key
        return condition_of(key, limits) if key else EVERY_ROW if limits == WHOLE else None

    def _mirror(self) -> MirrorAt:
        """The mirror, not older than a few seconds."""
        now_s = clock.monotonic_s()
        if self._at is None or now_s - self._loaded_s > _REFRESH_S:
            self.close()
            self._at = self._settling.mirror()
            self._loaded_s = now_s
            self.findings.first = self.findings.first or self._at
        return self._at

    def close(self, *, only_exclusive: bool = False) -> None:
        """Release the mirror. only_exclusive: if it keeps others from writing."""
        if self._at is not None and (self._at.mirror.keeps_others_out or not only_exclusive):
            self._at.mirror.release()
            self._at = None

    def _partitions(self, one: NumberedRange) -> None:
        """Compare the whole table, in partitions by a digest of the key."""
        with Partitions(Path(self._source.request.folder.url), self._source.schema, self._key) as partitions:
            for _, rows in self._source.quick(WHOLE):
                self._go_on()
                partitions.source.add(rows)
            for rows in self._settling.batches(self._mirror()):
                self._go_on()
                partitions.mirror.add(rows)
            self.close()
            part = self._add_part(one)
            for source, mirror in partitions.pairs():
                self._compare(part, None, source, mirror)

    def _go_on(self) -> None:
        """Raises Incomparable if the comparison is to be abandoned."""
        if self._ended():
            raise Incomparable("lagging", "the comparison was abandoned")

    def _add_part(self, one: NumberedRange) -> int:
        """Add a part without rows; returns its number."""
        lower, upper = text(one.limits.lower), text(one.limits.upper)
        self.findings.parts.append(PartResult(one.chunk, lower, upper, 0, 0))
        return len(self.findings.parts) - 1

    def _note(self, part: int | None, rows: int, differences: int = 0) -> None:
        """Add compared rows, and differences, to a part."""
        self.findings.rows += rows
        if part is not None:
            record = self.findings.parts[part]
            record = replace(record, rows=record.rows + rows, differences=record.differences + differences)
            self.findings.parts[part] = record

    def _compare(self, part: int, limits: Range | None, source: pa.Table, mirror: pa.Table) -> None:
        """Compare the rows of both sides. limits: the range that they are all rows of."""
        self._go_on()
        compared = self._settling.compare(source, mirror)
        self._note(part, source.num_rows)
        if not compared.total or self._settled:
            return
        suspects = compared.keys(self._key)
        much = suspects.num_rows > max(_MOST_KEYS // 20, source.num_rows // 10)
        if limits is not None and (much or self._named(suspects) is None):
            self._settle_range(limits, part)
            return
        self._waiting.append((part, suspects))
        if sum(len(keys) for _, keys in self._waiting) >= _MOST_KEYS:
            self._settle_waiting()

    def _settle_waiting(self) -> None:
        """Compare the waiting keys exactly."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        keys = self._named(pa.concat_tables([keys for _, keys in waiting]))
        if keys is None:  # of a table that is compared at once: all its differences are found again here
            part, self._settled = waiting[0][0], True
            self.findings.forget()
            self.findings.parts[part] = replace(self.findings.parts[part], differences=0)
            self._settle_range(WHOLE, part)
            return
        for compared in self._settled_keys(keys):
            for part, suspects in waiting if compared.total else ():
                self._report(part, only(compared, suspects))

    def _settled_keys(self, keys: Sequence[Bound]) -> Iterator[RowComparison]:
        """Yield the differences of rows named by their keys."""
        for chosen in self._batches(keys):
            self._go_on()
            settled = self._settling.keys(chosen)
            self.findings.replayed(settled)
            if settled.compared.total:
                differing = settled.compared.keys(self._key)
                again = self._named(differing)
                assert again is not None
                for some in self._batches(again):
                    yield only(self._settling.keys(some).compared, differing)

    def _batches(self, keys: Sequence[Bound]) -> Iterator[tuple[Bound, ...]]:
        """Keys whose rows fit into memory at once."""
        first = 0
        while first < len(keys):
            most = min(_MOST_KEYS, self._source.fit)
            yield tuple(keys[first : first + most])
            first += most

    def _settle_range(self, limits: Range, part: int, *, counted: bool = False) -> None:
        """Compare a range exactly. counted: its rows were not counted yet."""
        for settled in self._settling.range(limits):
            self._go_on()
            self.findings.replayed(settled)
            self._note(part, settled.rows if counted else 0)
            if settled.compared.total:
                differing = settled.compared.keys(self._key)
                for again in self._settling.range(settled.limits):
                    self._report(part, only(again.compared, differing))

    def _report(self, part: int | None, comparison: RowComparison) -> None:
        if comparison.total:
            self.findings.add(part, comparison, self._key)
            self._note(part, 0, comparison.total)

    def _named(self, keys: pa.Table) -> list[Bound] | None:
        """The keys as texts that name rows; None if they cannot."""
        columns = [self._table.column(name) for name in self._key]
        if any(keys[name].null_count for name in self._key):
            return None  # of a row that somebody has added to a table without a key
        named = key_texts(self._table, keys)
        try:
            check_keys(self._table, named)
        except SpecError:
            return None
        return None if any(any(map(is_ambiguous, columns, key)) for key in named) else named


def key_texts(table: Table, keys: pa.Table) -> list[Bound]:
    """Keys as texts, in the order of the primary key; written as `plan --json` writes bounds."""
    columns = []
    for name in table.key:
        order, values = ORDERS.get(table.column(name).type), keys[name]
        if pa.types.is_temporal(values.type):  # Python has no date before the year 1
            columns.append([value.removesuffix("Z") for value in values.cast(pa.string()).to_pylist()])
        else:
            text_of = order.text if order else str
            columns.append(["NULL" if value is None else text_of(value) for value in values.to_pylist()])
    return list(zip(*columns, strict=True))
