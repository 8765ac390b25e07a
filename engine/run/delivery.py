"""Connects coordinator and publisher: commits epochs, tracks what the destination has applied, and handles destination failures.

A table whose destination fails stops with the reason. It is resnapshotted instead if only data files are missing, and a stopped one
when an operator resumes it. A table that stopped because its rows in the binlog are in doubt is resnapshotted too. The files of an
epoch are checked before its commit.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from engine.capture.files import DataFile
from engine.capture.reports import RangeReport, RedumpReport
from engine.decode.schema import Table
from engine.errors import DestinationError, DoubtfulRowsError, MissingFilesError, TidemarkError, TransientError
from engine.events import ErrorReported
from engine.journal import Journal
from engine.ledger.records import EpochRecord
from engine.ledger.state import State
from engine.ledger.store import Ledger
from engine.run.commands.control import Control
from engine.settings import Spec
from engine.sink.delta_log import check_files
from engine.sink.publisher import Publisher

_MAX_AUTO_RESNAPSHOTS = 3
"""How often one run resnapshots a table automatically, because its files are missing or rows in the binlog are in doubt."""
_REPAIRABLE = (DestinationError.__name__, MissingFilesError.__name__)


class Delivery:
    """One coordinator's link to the destination."""

    def __init__(self, spec: Spec, ledger: Ledger, publisher: Publisher, control: Control, journal: Journal) -> None:
        self._may_resnapshot = spec.source.copies and spec.source.schema_changes == "copy"
        self._ledger, self._publisher, self._control, self._journal = ledger, publisher, control, journal
        self._auto_resnapshots, self._resnapshots = Counter[str](), set[str]()

    def commit(self, record: EpochRecord) -> None:
        """Commit an epoch to the ledger, together with the progress of the destination.

        Raises PipelineHeldError when another runner holds the pipeline.
        """
        self._publisher.guard()
        through, facts = self._publisher.facts
        state = self._ledger.state
        assert state is not None
        applied = {
            n: dict(new) for n, new in facts.items() if (known := state.known(n)) and dict(known.applied) != dict(new)
        }
        self._ledger.commit({**record, "applied": applied} if applied else record)
        self._publisher.recorded(through)

    def failed(self, state: State, tables: Mapping[str, Table]) -> dict[str, TidemarkError]:
        """The tables that must stop because their destination failed, with the errors; schedules resnapshots for the others."""
        stopped = {}
        for name, error in self._publisher.failures().items():
            known = state.tables.get(name)
            if known is None or known.stopped:
                continue
            may_resnapshot = (
                self._may_resnapshot and tables[name].key and self._auto_resnapshots[name] < _MAX_AUTO_RESNAPSHOTS
            )
            if isinstance(error, MissingFilesError) and may_resnapshot:
                self._auto_resnapshots[name] += 1
                self._journal.write(ErrorReported.of(error, attempt=self._auto_resnapshots[name], retry_in_s=0.0))
                self._resnapshots.add(name)
            else:
                stopped[name] = error
        return stopped

    def table_stopped(self, name: str, error: TidemarkError, table: Table) -> None:
        """Schedule a resnapshot of a table that stopped over doubtful rows, up to `_MAX_AUTO_RESNAPSHOTS` times a run."""
        if (
            isinstance(error, DoubtfulRowsError)
            and self._may_resnapshot
            and table.key
            and self._auto_resnapshots[name] < _MAX_AUTO_RESNAPSHOTS
        ):
            self._auto_resnapshots[name] += 1
            self._resnapshots.add(name)

    @property
    def resnapshot_pending(self) -> bool:
        """Whether a resnapshot is scheduled."""
        return bool(self._resnapshots)

    def take_resnapshots(self, state: State) -> set[str]:
        """The scheduled resnapshots, with the failed tables that operators resumed; clears the schedule."""
        for name in self._control.resumed():
            known = state.tables.get(name)
            if known is not None and known.stopped and known.stopped["error"] in _REPAIRABLE:
                self._resnapshots.add(name)
        found, self._resnapshots = self._resnapshots & state.tables.keys(), set()
        return found

    def has_files(self, folder: Path, files: Sequence[DataFile]) -> bool:
        """Whether a chunk's files exist as they were written; journals the error if not."""
        try:
            check_files(folder, files)
        except MissingFilesError as error:
            detail = "The chunk was not committed; it is read again."
            self._journal.write(replace(ErrorReported.of(error, attempt=1, retry_in_s=0.0), detail=detail))
            return False
        return True

    def require_files(
        self, folder: Callable[[str], Path], reports: Sequence[RangeReport], redumped: Sequence[RedumpReport]
    ) -> None:
        """Raises TransientError when change log files that were just written are missing; the binlog is then read again."""
        written = [(name, changes) for report in reports for name, changes in report.tables.items()]
        written += [(part.table, part.changes) for part in redumped]
        try:
            for name, changes in written:
                check_files(folder(name), changes.files)
        except MissingFilesError as error:
            detail = "Nothing of this epoch was committed."
            raise TransientError(error.message, detail=detail, hint="The binlog is read again.") from error
