"""The preview of a redump: tables, rows, bytes, and how each table would be redumped."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from operator import and_, or_
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from rich.table import Table as Grid

from engine.capture.chunk.backfill import among
from engine.capture.projection.table_projection import published_as
from engine.decode.arrow_schema import conformed, image_schema
from engine.decode.schema import Table, table_from_dict
from engine.destination.mirror import Mirror
from engine.directory import Directory
from engine.layout import mirror_folder
from engine.ledger.state import TableState
from engine.ledger.store import Ledger
from engine.plan.chunks import Plan, Range, plan_from_dict, text
from engine.plan.keys import Bound, ChunkKey, scalar
from engine.plan.named import identities
from engine.run.redump.requests import Redump, redump_from
from engine.run.redump.rules import Way, decide


@dataclass(frozen=True)
class AffectedTable:
    """How a redump affects one table."""

    table: str
    way: Way
    why: str
    of_rows: int
    """Rows in the table's mirror now."""
    of_bytes: int
    rows: int | None
    """How many of them it would read; None when only the server knows."""
    ranges: tuple[tuple[str | None, str | None], ...] = ()
    """Bounds as text."""
    keys: int = 0
    """The number of requested keys."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def preview(directory: Directory, sink: Path, arguments: Mapping[str, Any]) -> list[AffectedTable]:
    """What a command with these arguments would read now, by table. Raises SpecError if it would be refused at once."""
    state = Ledger(directory.ledger).state
    tables = state.tables if state else {}
    redump = redump_from("", directory.inbox, arguments, tables, directory.journals)
    return [_affected(name, redump, tables[name], sink) for name in redump.tables or tables]


def _affected(name: str, redump: Redump, known: TableState, sink: Path) -> AffectedTable:
    table, plan = table_from_dict(known.table), plan_from_dict(known.plan)
    decision = decide(redump, known, table, plan)
    way, why = decision.way, decision.why
    ranges = tuple((text(limits.lower), text(limits.upper)) for limits in redump.ranges)
    mirror = Mirror.if_there(mirror_folder(sink, table.database, table.name))
    if mirror is None:
        return AffectedTable(name, way, why, 0, 0, 0, ranges, len(redump.keys))
    of_rows, of_bytes = mirror.size()
    rows = of_rows if redump.whole else _rows(redump, mirror, published_as(table, known.projection), plan)
    return AffectedTable(name, way, why, of_rows, of_bytes, rows, ranges, len(redump.keys))


def _rows(redump: Redump, mirror: Mirror, table: Table, plan: Plan) -> int | None:
    if redump.keys:
        wanted = identities(table, redump.keys)
        schema = pa.schema([image_schema(table).field(name) for name in table.key])
        batches = mirror.batches(table.key, None)
        return sum(int(among(conformed(batch, schema), wanted).sum()) for batch in batches)
    key = plan.key(table)
    assert key is not None
    conditions = [_inside(key, limits) for limits in redump.ranges]
    known = [condition for condition in conditions if condition is not None]
    return mirror.count(reduce(or_, known)) if len(known) == len(conditions) else None


def _inside(key: ChunkKey, limits: Range) -> pc.Expression | None:
    """The rows of a range; NULL belongs to the lowest. None if Arrow compares its columns differently from the server."""
    parts = []
    first = pc.field(key.names[0])
    if limits.lower is not None:
        lower = _at_least(key, limits.lower)
        parts.append(lower)
    if limits.upper is not None:
        upper = _at_least(key, limits.upper)
        parts.append(None if upper is None else ~upper if limits.lower is not None else ~upper | first.is_null())
    if any(part is None for part in parts):
        return None
    return reduce(and_, parts) if parts else pc.scalar(True)


def _at_least(key: ChunkKey, bound: Bound) -> pc.Expression | None:
    """The rows whose key is at or after a bound, in Arrow: (a, b) >= (x, y)."""
    values = [scalar(column, value) for column, value in zip(key.columns, bound, strict=False)]
    if None in values:
        return None
    fields: Sequence[pc.Expression] = [pc.field(name) for name in key.names]
    *above, last = range(len(values))
    found = fields[last] >= values[last]
    for n in reversed(above):
        found = (fields[n] > values[n]) | ((fields[n] == values[n]) & found)
    return found


def as_grid(affected: Sequence[AffectedTable]) -> Grid:
    """One line per table."""
    grid = Grid("table", "rows", "of rows", "of bytes", "how", box=None, pad_edge=False)
    for one in affected:
        rows = "?" if one.rows is None else f"{one.rows:,}"
        grid.add_row(
            one.table, rows, f"{one.of_rows:,}", f"{one.of_bytes:,}", ": ".join(filter(None, (one.way, one.why)))
        )
    return grid
