"""What is verified instead of the first destination's tables: a further sink's, or another format of them."""

from engine.base.errors import SpecError
from engine.capture.captured_tables import CapturedTables
from engine.capture.landing import Landing, MirrorReader, ReadsFormats, reader_of
from engine.destination.registry import tables_of
from engine.spec.sink_settings import Sink, TableFormat, require_format


class TablesOfSink:
    """Reads the tables of a further sink back."""

    def __init__(self, sink: Sink, captured: CapturedTables) -> None:
        tables = tables_of(sink)
        if tables is None:
            raise SpecError(
                f'Sink {sink.name} cannot be compared: Tidemark does not read type = "{sink.type}" back.',
                detail="Nothing was compared.",
                hint="Its messages or files come from the changes that `tidemark audit SPEC` compares with the binlog.",
            )
        self._tables = tables
        self._captured = captured

    def reader(self, name: str) -> MirrorReader:
        """As `CapturedTables.reader`."""
        return self._tables.reader(self._captured.tables[name])

    def read_failures(self, name: str) -> tuple[type[Exception], ...]:
        """As `CapturedTables.read_failures`."""
        return self.reader(name).unreadable if name in self._captured.tables else ()


class TablesOfFormat:
    """Reads the tables in another format, once it has what the tables have."""

    def __init__(self, sink: Sink, landing: Landing, table_format: TableFormat, captured: CapturedTables) -> None:
        sink.require_mirrors(f"--format {table_format}")
        assert isinstance(landing, ReadsFormats)
        self._sink = sink
        self._format = table_format
        self._landing = landing.in_format(table_format, in_step=True)
        self._captured = captured

    def reader(self, name: str) -> MirrorReader:
        """As `CapturedTables.reader`. Raises SpecError for a table that is not published in the format."""
        table = self._captured.tables[name]
        require_format(self._sink, self._format, table.database, table.name)
        return reader_of(self._landing, table)

    def read_failures(self, name: str) -> tuple[type[Exception], ...]:
        """As `CapturedTables.read_failures`."""
        return self.reader(name).unreadable if name in self._captured.tables else ()
