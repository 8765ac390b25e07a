"""The captured tables of a run: columns, plans, projections and folders."""

from engine.capture.landing import Landing, MirrorReader, reader_of
from engine.capture.projection.projection_rules import projection_of
from engine.capture.projection.table_projection import Projection
from engine.decode.schema import Table, table_from_dict
from engine.ledger.state import TableState
from engine.plan.chunks import Plan, plan_from_dict
from engine.spec.settings import Spec
from engine.store.folder import Folder


class CapturedTables:
    """The captured tables by full name. Used by one thread."""

    def __init__(self, spec: Spec, landing: Landing) -> None:
        self._spec = spec
        self._landing = landing
        self.tables: dict[str, Table] = {}
        self.plans: dict[str, Plan] = {}
        self._projections: dict[str, tuple[Table, Projection]] = {}

    def take(self, name: str, table: TableState) -> None:
        """Capture a table from its committed state."""
        # The current spec decides, not the spec when the table joined.
        null_dates = self._spec.source.invalid_dates == "null"
        self.publish(table_from_dict(table.table).with_null_dates(null_dates), plan_from_dict(table.plan))

    def publish(self, table: Table, plan: Plan) -> None:
        """Set a table's columns and plan."""
        self.plans[table.full_name] = plan
        self.tables[table.full_name] = table.identified_by(plan.chunk_key)

    def forget(self, name: str) -> None:
        """Stop capturing a table."""
        for mapping in (self.tables, self.plans, self._projections):
            mapping.pop(name, None)

    def projection(self, name: str) -> Projection:
        """The table's current projection."""
        table = self.tables[name]
        entry = self._projections.get(name)
        if entry is None or entry[0] != table:
            entry = table, projection_of(self._spec, table)
            self._projections[name] = entry
        return entry[1]

    def reader(self, name: str) -> MirrorReader:
        """Reads the table back from the destination."""
        return reader_of(self._landing, self.tables[name])

    def read_failures(self, name: str) -> tuple[type[Exception], ...]:
        """What `reader` raises when the table's mirror is gone or damaged; nothing if the table is not captured."""
        return self.reader(name).unreadable if name in self.tables else ()

    def changes(self, name: str) -> Folder:
        """The folder of its files of changes."""
        return self._landing.changes(self.tables[name])

    def chunks(self, name: str) -> Folder:
        """The folder of its files of chunks."""
        return self._landing.chunks(self.tables[name])
