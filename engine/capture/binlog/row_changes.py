"""Changes: row images and their facts, as two Arrow tables of the same length.

`rows` has the table's own columns. `facts` has, for each image: `kind` (an index into `decode.images.KINDS`), `file`
(the number of its binlog file), `offset` (after its event), `ts` (commit, seconds since 1970), and the GTID of its
transaction as `tx_source` (an index into `sources`, see `capture.binlog.transactions`) and `tx_n` (0: no GTID).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.decode.schema import KINDS, TM_KIND, TM_POSITION, TM_REDUMP, TM_SEQ, TM_TS, TM_TX

FACTS = pa.schema(
    [
        ("kind", pa.int8()),
        ("file", pa.int64()),
        ("offset", pa.int64()),
        ("ts", pa.int64()),
        ("tx_source", pa.int64()),
        ("tx_n", pa.int64()),
    ]
)
LOG_COLUMNS = (
    pa.field(TM_KIND, pa.string(), nullable=False),
    pa.field(TM_TS, pa.timestamp("us", "UTC")),
    pa.field(TM_POSITION, pa.string()),
    pa.field(TM_SEQ, pa.int64(), nullable=False),
    pa.field(TM_TX, pa.string()),
    pa.field(TM_REDUMP, pa.string()),
)
"""The columns that a change log has in addition to the source's (docs/destinations.md)."""


SNAPSHOT_SEQ = -(1 << 62)
"""`_tm_seq` of the first row of a snapshot in a change log: such rows come before all changes."""


@dataclass(frozen=True)
class RowChanges:
    """Images of one binlog range, in binlog order."""

    rows: pa.Table
    facts: pa.Table
    sources: Sequence[str] = ("",)
    """For each GTID source that occurs, the text before the number."""

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def take(self, indexes: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> "RowChanges":
        """Select changes by index or by mask."""
        if indexes.dtype == bool:
            indexes = np.flatnonzero(indexes)
        if len(indexes) == len(self) and (indexes == np.arange(len(indexes))).all():
            return self
        slots = pa.array(indexes)
        return RowChanges(self.rows.take(slots), self.facts.take(slots), self.sources)

    def fact(self, name: str) -> npt.NDArray[np.int64]:
        """One column of `facts`."""
        return np.asarray(self.facts[name].to_numpy())


def empty(schema: pa.Schema) -> RowChanges:
    """Return no changes, for a table with these columns."""
    return RowChanges(schema.empty_table(), FACTS.empty_table())


def concatenate(parts: Iterable[RowChanges], schema: pa.Schema) -> RowChanges:
    """Concatenate parts of one binlog range."""
    parts = list(parts)
    if not parts:
        return empty(schema)
    rows, facts = pa.concat_tables(p.rows for p in parts), pa.concat_tables(p.facts for p in parts)
    return RowChanges(rows, facts, parts[-1].sources)


def log_schema(rows: pa.Schema) -> pa.Schema:
    """The schema of a change log: the source's columns, all nullable, and `LOG_COLUMNS`."""
    return pa.schema([*(field.with_nullable(True) for field in rows), *LOG_COLUMNS])


def log_table(changes: RowChanges, kinds: npt.NDArray[np.int8], file: str, first_seq: int) -> pa.Table:
    """Convert changes from one binlog file to rows of the change log.

    kinds: as published; emission may have changed them. file: the binlog file's name. first_seq: `_tm_seq` of the first
    change; it increases by one per change.
    """
    count = len(changes)
    schema = log_schema(changes.rows.schema)
    sources = pa.array(changes.sources, pa.string())

    def position(offset: pa.Array) -> pa.Array:
        return pc.binary_join_element_wise(pa.scalar(file), offset.cast(pa.string()), ":")

    def gtid(source: pa.Array, number: pa.Array) -> pa.Array:
        text = pc.binary_join_element_wise(sources.take(source), number.cast(pa.string()), "")
        return pc.if_else(pc.greater(number, 0), text, None)

    columns = [
        pa.array(KINDS, pa.string()).take(pa.array(kinds)),
        pc.multiply(changes.facts["ts"], 1_000_000).cast(pa.timestamp("us", "UTC")),
        _once_per_run(position, changes.fact("offset")),
        pa.array(np.arange(first_seq, first_seq + count, dtype=np.int64)),
        _once_per_run(gtid, changes.fact("tx_source"), changes.fact("tx_n")),
        pa.nulls(count, pa.string()),
    ]
    return pa.table([*changes.rows.columns, *columns], schema=schema)


def redump_changes(
    rows: pa.Table, kind: str, position: str | None, first_seq: int, command: str | None = None
) -> pa.Table:
    """Convert rows that were read from the table at a position, not from the log, to rows of the change log.

    They have no commit time and no transaction. command: the id of the redump that requested them; None for a snapshot.
    """
    count = rows.num_rows
    facts = [
        pa.repeat(kind, count),
        pa.nulls(count, pa.timestamp("us", "UTC")),
        pa.repeat(pa.scalar(position, pa.string()), count),
        pa.array(np.arange(first_seq, first_seq + count, dtype=np.int64)),
        pa.nulls(count, pa.string()),
        pa.repeat(pa.scalar(command, pa.string()), count),
    ]
    return pa.table([*rows.columns, *facts], schema=log_schema(rows.schema))


def _once_per_run(text: Callable[..., pa.Array], *numbers: npt.NDArray[np.int64]) -> pa.Array:
    """Format numbers, once per run of equal ones. A bulk transaction has long runs, other transactions short ones."""
    count = len(numbers[0])
    new = np.ones(count, bool)
    new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in numbers])
    first = np.flatnonzero(new)
    if 2 * len(first) > count:
        return text(*(pa.array(column) for column in numbers))
    return text(*(pa.array(column[first]) for column in numbers)).take(pa.array(np.cumsum(new) - 1))
