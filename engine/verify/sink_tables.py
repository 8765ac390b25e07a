"""The tables of a further sink as mirrors of a verification."""

from engine.base.errors import SpecError
from engine.capture.captured_tables import CapturedTables
from engine.capture.landing import MirrorReader
from engine.destination.registry import tables_of
from engine.spec.sink_settings import Sink


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
