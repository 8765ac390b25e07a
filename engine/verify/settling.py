"""Settles what a quick comparison found different: the exact comparison of a part at one position.

    S    the source's rows of the part, read like a chunk: exact at its high watermark H
    M    the rows of the part in a version of the mirror that was loaded before, which equals the source at a position P
         <= H
    C    the binlog's changes of the part in (P, H], reduced to the last image per key
    M'   M without the keys of C, plus the rows in C: the mirror's rows, brought to H

S and M' are both the source at H, so any difference between them is real: nothing that changes meanwhile can look like
one. A change without an image in the binlog is in S and not in M'. A change of the mirror alone is in M' and not in S.
The rows in C hide damage of the mirror's rows that they replace. That is right: the next merge repairs it.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from engine.capture.chunk.backfill import Within, among, without
from engine.decode.arrow_schema import conformed
from engine.plan.chunks import Range
from engine.plan.conditions import condition_of
from engine.plan.keys import Bound
from engine.plan.named import identities
from engine.plan.row_conditions import OneOf, RowCondition
from engine.source.positions import Position
from engine.verify.comparison import RowComparison, compare, with_plain_json
from engine.verify.mirror_at import MirrorAt
from engine.verify.source_rows import ExactPart, SourceRows
from engine.verify.verdicts import Incomparable


@dataclass(frozen=True)
class Settled:
    """An exact comparison."""

    compared: RowComparison
    position: Position
    """Where both sides were compared."""
    limits: Range
    version: int
    rows: int
    """Rows of the source."""
    lacking: int
    """The number of keys whose changes the mirror lacked."""


class Settling:
    """Settles parts of one table. mirror: loads the mirror's newest version."""

    def __init__(
        self, source: SourceRows, mirror: Callable[[], MirrorAt], rewritten_json: Collection[str] = ()
    ) -> None:
        """rewritten_json: as of `MirrorReader`."""
        self._source = source
        self._rewritten_json = rewritten_json
        self.mirror = mirror
        self._names = source.schema.names
        self._key = source.request.table.key

    def range(self, limits: Range) -> Iterator[Settled]:
        """Settle a range, in parts."""
        while True:
            at = self.mirror()
            try:
                part = next(self._source.exact(limits))
                with self._source.order() as order:
                    within = part.request.within(order)
                    rows = self.mirror_rows(at, part.limits, within)
                    at.mirror.release()
                    yield self._settled(at, part, rows, within)
            finally:
                at.mirror.release()
            if part.limits.upper == limits.upper:
                return
            limits = Range(part.limits.upper, limits.upper)

    def keys(self, keys: tuple[Bound, ...]) -> Settled:
        """Settle rows named by their keys."""
        at = self.mirror()
        try:
            part = self._source.named(keys)
            wanted = identities(part.request.table, keys)
            wanted = pa.concat_tables(
                [wanted, part.rows.select(self._key).cast(wanted.schema)]
            )  # a collation may match more
            within: Within = partial(among, keys=wanted)
            batches = (batch.filter(pa.array(within(batch))) for batch in self.batches(at, one_of(wanted)))
            rows = pa.concat_tables([self._source.schema.empty_table(), *batches])
        finally:
            at.mirror.release()
        return self._settled(at, part, rows, within)

    def mirror_rows(self, at: MirrorAt, limits: Range, within: Within | None = None) -> pa.Table:
        """The mirror's rows of a range. within: needed only for a range that Arrow cannot test."""
        key = self._source.request.key
        condition = condition_of(key, limits) if key else None
        batches = list(self.batches(at, condition))
        if condition is None and within is not None:
            batches = [batch.filter(pa.array(within(batch))) for batch in batches]
        return pa.concat_tables([self._source.schema.empty_table(), *batches])

    def batches(self, at: MirrorAt, condition: RowCondition | None = None) -> Iterator[pa.Table]:
        if missing := [name for name in self._names if name not in at.mirror.schema.names]:
            raise Incomparable("lagging", f"its mirror does not have the column {missing[0]} yet")
        for batch in at.mirror.batches(self._names, condition):
            yield conformed(batch, self._source.schema)

    def compare(self, source: pa.Table, mirror: pa.Table) -> RowComparison:
        """Compare rows of both sides. JSON is parsed only if something differs: its text usually is the same."""
        compared = compare(source, mirror, self._key)
        if not (compared.total and self._rewritten_json):
            return compared
        source, mirror = (with_plain_json(rows, self._rewritten_json) for rows in (source, mirror))
        return compare(source, mirror, self._key)

    def _settled(self, at: MirrorAt, part: ExactPart, rows: pa.Table, within: Within | None) -> Settled:
        lacking = 0
        if part.position.order < at.position.order:
            raise Incomparable(
                "lagging", f"the source is at {part.position}, before the mirror's position {at.position}"
            )
        if part.position.order > at.position.order:
            reduced = self._source.changes(at.position, part.position, part.request, within)
            lacking = reduced.touched_keys.num_rows
            rows = pa.concat_tables([without(rows, reduced.touched_keys), *reduced.upserts])
        compared = self.compare(part.rows, rows)
        return Settled(compared, part.position, part.limits, at.version, part.rows.num_rows, lacking)


def one_of(keys: pa.Table) -> RowCondition:
    """A condition with which a scan skips most rows without these keys."""
    name = keys.column_names[0]
    return OneOf(name, keys[name].unique())


def only(compared: RowComparison, keys: pa.Table) -> RowComparison:
    """The differences of these keys."""

    def kept(rows: pa.Table) -> pa.Table:
        return rows.filter(pa.array(among(rows, keys)))

    chosen = pa.array(among(compared.source, keys))
    return RowComparison(
        kept(compared.missing),
        kept(compared.extra),
        compared.source.filter(chosen),
        compared.mirror.filter(chosen),
        kept(compared.duplicate),
        compared.equal,
    )
