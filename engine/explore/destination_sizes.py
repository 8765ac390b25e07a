"""What a pipeline's tables have in the destination, and what maintenance is due."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.table import Table as Grid

from engine.base.errors import DestinationError, unknown_tables
from engine.base.text_grid import text_grid
from engine.capture.landing import reader_of
from engine.capture.projection.table_projection import published_as
from engine.decode.schema import table_from_dict
from engine.destination.capabilities import (
    Maintainable,
    MaintenanceStep,
    PublishedFormat,
    Sizes,
    TableMaintenance,
)
from engine.destination.maintenance_schedule import due_steps
from engine.destination.registry import destination_of
from engine.ledger.state import State
from engine.ledger.store import Ledger
from engine.pipeline.directory import Directory
from engine.spec.settings import Spec


@dataclass(frozen=True)
class TableSizes:
    """One table in the destination, and what there is to do."""

    table: str
    sizes: Sizes | None
    """None if the destination cannot be read."""
    due: tuple[MaintenanceStep, ...]
    error: str = ""
    mirror: str | None = None
    """Where the mirror is; None without one."""
    maintenance: TableMaintenance | None = None
    formats: Sequence[PublishedFormat] = ()
    """What readers of other formats see of it."""
    versions: Mapping[str, int] = field(default_factory=dict)
    """Its newest versions (`TableMaintenance.newest_versions`), before it was read."""

    @property
    def current(self) -> bool:
        """Whether the destination has no newer version. Costs a listing or two."""
        return self.maintenance is not None and self.maintenance.newest_versions() == self.versions

    def as_dict(self) -> dict[str, Any]:
        """The fields for JSON."""
        sizes = None if self.sizes is None else asdict(self.sizes)
        formats = {"formats": [asdict(one) for one in self.formats]} if self.formats else {}
        return {"table": self.table, "sizes": sizes, "due": list(self.due), "error": self.error or None, **formats}


def conditions(spec: Spec, directory: Directory, tables: Collection[str] = ()) -> list[TableSizes]:
    """The condition of some tables, or of all.

    Writes nothing. Empty for a destination without mirrors. Raises SpecError for tables that the pipeline has not.
    """
    if not spec.sink.has_mirrors:
        return []
    state = Ledger(directory.ledger).state
    table_states = state.tables if state else {}
    if unknown := [name for name in tables if name not in table_states]:
        raise unknown_tables(unknown, table_states)
    if state is None:
        return []
    wanted = tables or sorted(table_states)
    return [_condition(spec, directory, state, name) for name in wanted if state.tables[name].begun]


def _condition(spec: Spec, directory: Directory, state: State, name: str) -> TableSizes:
    table_state = state.tables[name]
    table = published_as(table_from_dict(table_state.table), table_state.projection)
    destination = destination_of(spec.sink, directory.maintenance)
    stored = destination.table(state.owner, table)
    assert isinstance(stored, Maintainable), "those that have mirrors are"
    maintenance = stored.maintenance()
    versions = maintenance.newest_versions()
    try:
        sizes = maintenance.sizes()
        mirror = reader_of(destination.landing, table).place if stored.mirror else None
        due = tuple(due_steps(spec.sink, [maintenance])[name])
        formats = maintenance.formats()
        return TableSizes(name, sizes, due, mirror=mirror, maintenance=maintenance, formats=formats, versions=versions)
    except DestinationError as error:
        return TableSizes(name, None, (), error.message)


def as_grid(sizes: list[TableSizes]) -> Grid:
    """One line per table."""
    right = ("files", "bytes", "deleted rows", "log files", "bytes", "old files", "bytes")
    grid = text_grid("table", "mirror", *right, "due", right=right)
    for one in sizes:
        if one.sizes is None:
            grid.add_row(one.table, one.error)
            continue
        numbers = asdict(one.sizes)
        on_read = numbers.pop("on_read")
        mode = "merge on read" if on_read else "copy on write"
        grid.add_row(one.table, mode, *(f"{value:,}" for value in numbers.values()), ", ".join(one.due) or "nothing")
    return grid
