"""The destination of a writer: a function of yours, or one of Spark's.

Which epochs were written is noted in the sink's folder. What the writer makes of the rows, Tidemark does not see.
"""

from collections.abc import Collection, Iterable
from functools import partial
from pathlib import Path

from engine.capture.landing import Landing
from engine.decode.schema import Table
from engine.destination.destination_protocol import DestinationTable, EpochEnd
from engine.destination.fence import FolderTerms, Term
from engine.destination.staged_landing import StagedLanding
from engine.destination.writer.table import SharedWriter, WriterTable
from engine.destination.writer.writes import Writes, function_of, spark_writer
from engine.ledger.state import Owner
from engine.plan.chunks import Plan
from engine.spec.sink_settings import Sink


class WriterDestination:
    """landing: where the readers' files are; by default they are staged in the sink's folder."""

    def __init__(self, sink: Sink, landing: Landing | None = None) -> None:
        assert sink.writer is not None, "the spec requires it"
        self._sink = sink
        self._staged_landing = StagedLanding(sink.folder)
        self._landing = landing or self._staged_landing
        self._terms = FolderTerms(sink.folder)
        self._writes = Writes(partial(function_of if sink.type == "python" else spark_writer, sink.writer))

    @property
    def root(self) -> Path | str:
        """The folder."""
        return self._sink.path

    @property
    def landing(self) -> Landing:
        """Where readers put files."""
        return self._landing

    @property
    def terms(self) -> FolderTerms:
        """In files of its folder."""
        return self._terms

    def recall(self, newest: Term | None) -> None:
        """Nothing is remembered."""

    def table(self, owner: Owner, table: Table, plan: Plan | None = None) -> WriterTable:
        """Its note."""
        return WriterTable(self._shared(owner), table)

    def _shared(self, owner: Owner) -> SharedWriter:
        root = self._sink.folder
        return SharedWriter(self._sink.type, root, owner, self._landing, self._writes, self._terms.check)

    def publish(self, end: EpochEnd) -> None:
        """All is written and noted."""

    def fence_earlier_runners(self, owner: Owner, tables: Iterable[Table], epochs: Collection[int]) -> None:
        """`terms.take` has done it: a writer is not called without the term."""

    def largest_seq(self, owner: Owner, tables: Iterable[Table]) -> int:
        """By the notes."""
        return max((self.table(owner, table).largest_seq for table in tables), default=0)

    def delete_orphans(
        self, opened_tables: Iterable[DestinationTable], committed_names: Collection[str], after_ns: int
    ) -> int:
        """Delete staged files that no epoch names."""
        return self._staged_landing.delete_orphans(committed_names)
