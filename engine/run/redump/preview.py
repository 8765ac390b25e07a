"""The preview of a redump: tables, rows, bytes, and how each table would be redumped."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
from rich.table import Table as Grid

from engine.base.errors import DestinationError
from engine.base.text_grid import text_grid
from engine.capture.chunk.backfill import among
from engine.capture.landing import Landing, TableVersion, reader_of
from engine.capture.projection.table_projection import published_as
from engine.capture.redump_requests import Redump, redump_from
from engine.decode.arrow_schema import conformed, image_schema
from engine.decode.schema import Table, table_from_dict
from engine.destination.registry import destination_of
from engine.ledger.state import TableState
from engine.ledger.store import Ledger
from engine.pipeline.directory import Directory
from engine.plan.chunks import Plan, plan_from_dict, text
from engine.plan.conditions import condition_of
from engine.plan.named import identities
from engine.plan.row_conditions import AnyOf
from engine.run.redump.rules import RedumpWay, decide, defects_of
from engine.spec.sink_settings import Sink


@dataclass(frozen=True)
class AffectedTable:
    """How a redump affects one table."""

    table: str
    way: RedumpWay
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


def preview(directory: Directory, sink: Sink, arguments: Mapping[str, Any]) -> list[AffectedTable]:
    """What a command with these arguments would read now, by table. Raises SpecError if it would be refused at once."""
    state = Ledger(directory.ledger).state
    tables = state.tables if state else {}
    redump = redump_from("", directory.inbox, arguments, tables, directory.journals)
    landing = destination_of(sink).landing
    return [_affected(name, redump, tables[name], landing) for name in redump.tables or tables]


def _affected(name: str, redump: Redump, table_state: TableState, landing: Landing) -> AffectedTable:
    table, plan = table_from_dict(table_state.table), plan_from_dict(table_state.plan)
    reader = reader_of(landing, table)
    # A mirror that no epoch was applied to may not be there yet.
    defect, log_defect = (
        defects_of([reader], redump)
        if table.key and table_state.copied and (table_state.applied or landing.chunks(table).is_there)
        else ("", "")
    )
    decision = decide(redump, table_state, table, plan, defect, log_defect)
    way, why = decision.way, decision.why
    ranges = tuple((text(limits.lower), text(limits.upper)) for limits in redump.ranges)
    failures: tuple[type[Exception], ...] = (*reader.unreadable, DestinationError)
    try:
        mirror = reader.mirror()
        of_rows, of_bytes = mirror.size() if mirror else (0, 0)
    except failures:
        return AffectedTable(name, way, why, 0, 0, None, ranges, len(redump.keys))
    if mirror is None:
        return AffectedTable(name, way, why, 0, 0, None if defect else 0, ranges, len(redump.keys))
    rows: int | None = of_rows if redump.is_whole_table else 0
    if not redump.is_whole_table and not defect:
        rows = _rows(redump, mirror, published_as(table, table_state.projection), plan)
    mirror.release()
    return AffectedTable(name, way, why, of_rows, of_bytes, rows, ranges, len(redump.keys))


def _rows(redump: Redump, mirror: TableVersion, table: Table, plan: Plan) -> int | None:
    if redump.keys:
        wanted = identities(table, redump.keys)
        schema = pa.schema([image_schema(table).field(name) for name in table.key])
        batches = mirror.batches(table.key, None)
        return sum(int(among(conformed(batch, schema), wanted).sum()) for batch in batches)
    key = plan.key(table)
    assert key is not None
    conditions = [condition_of(key, limits) for limits in redump.ranges]
    predicates = [condition for condition in conditions if condition is not None]
    return mirror.count(AnyOf(predicates)) if len(predicates) == len(conditions) else None


def as_grid(affected: Sequence[AffectedTable]) -> Grid:
    """One line per table."""
    grid = text_grid("table", "rows", "of rows", "of bytes", "how", right=("rows", "of rows", "of bytes"))
    for one in affected:
        rows = "?" if one.rows is None else f"{one.rows:,}"
        grid.add_row(
            one.table, rows, f"{one.of_rows:,}", f"{one.of_bytes:,}", ": ".join(filter(None, (one.way, one.why)))
        )
    return grid
