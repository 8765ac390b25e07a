"""The types that columns get in databases, before a run."""

from collections.abc import Iterable
from dataclasses import dataclass

from rich.table import Table as Grid

from engine.base.text_grid import text_grid
from engine.capture.projection.projection_rules import projection_of
from engine.decode.schema import Table
from engine.spec.settings import Spec


@dataclass(frozen=True)
class DeclaredType:
    """The type of a column in a database."""

    sink: str
    """The further sink's name; "" for the first destination."""
    place: str
    """The table there: schema and name."""
    table: str
    """The captured table's full name."""
    column: str
    source: str
    """The type on the source."""
    declared: str
    """The type there."""


def declared_types(spec: Spec, tables: Iterable[Table]) -> list[DeclaredType]:
    """Those of all columns, in each database of the spec. Raises SpecError for an invalid projection."""
    from engine.destination.registry import declared_columns  # loads the destinations

    types = list[DeclaredType]()
    for table in tables:
        published = projection_of(spec, table).published_table(table)
        source = {column.name: column.type for column in table.columns}
        for sink in (spec.sink, *spec.sinks):
            place, columns = declared_columns(sink, published)
            types += [
                DeclaredType(sink.name, place, table.full_name, name, source[name], declared)
                for name, declared in columns
            ]
    return types


def types_grid(types: Iterable[DeclaredType]) -> Grid:
    """A line per column."""
    grid = text_grid("sink", "table", "column", "on the source", "place", "there")
    for one in types:
        grid.add_row(one.sink, one.table, one.column, one.source, one.place, one.declared)
    return grid
