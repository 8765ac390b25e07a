"""Connects coordinator and publisher.

It commits epochs, tracks what the destination has applied, and handles destination failures.

A table whose destination fails stops with the reason. It is resnapshotted instead if only data files are missing, and a
stopped one when an operator resumes it. A table that stopped because its rows in the binlog are in doubt is
resnapshotted too. The files of an epoch are checked before its commit.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from engine.base.errors import DoubtfulRowsError, ErrorRecord, TidemarkError, TransientError
from engine.capture.files import DataFile, file_errors
from engine.capture.reports import RangeReport, RedumpReport
from engine.decode.schema import Table
from engine.destination.publisher import Publisher
from engine.journal import Journal
from engine.journal.events import ErrorReported
from engine.ledger.records import Due, EpochRecord, TableChange
from engine.ledger.state import State, following
from engine.ledger.store import Ledger
from engine.run.commands.accepted_commands import AcceptedCommands
from engine.run.commands.resnapshots_begun import resnapshots_begun
from engine.run.commands.resumption import Resumption, to_resume
from engine.run.epochs.epoch import completed
from engine.run.epochs.failed_table import after_failure, due, resnapshots_itself
from engine.spec.settings import Spec
from engine.store.folder import Folder


class Delivery:
    """One coordinator's link to the destination.

    It keeps no state: whatever it decides is in the ledger until it is done.
    """

    def __init__(
        self, spec: Spec, ledger: Ledger, publisher: Publisher, commands: AcceptedCommands, journal: Journal
    ) -> None:
        self._spec = spec
        self._ledger = ledger
        self._publisher = publisher
        self._commands = commands
        self._journal = journal

    def commit(self, record: EpochRecord) -> None:
        """Commit an epoch to the ledger, together with the progress of the destination.

        Raises PipelineHeldError when another runner holds the pipeline.
        """
        self._publisher.destination.terms.check()
        through, facts = self._publisher.facts
        state = self._ledger.state
        assert state is not None
        applied = {
            n: dict(new)
            for n, new in facts.items()
            if (table_state := state.known(n)) and dict(table_state.applied) != dict(new)
        }
        sinks = {sink.name: news for sink in self._publisher.further if (news := sink.news(state))}
        self._ledger.commit(replace(record, applied=applied, sinks={**record.sinks, **sinks}))
        self._publisher.record_through(through)

    def commit_decisions(
        self, state: State, tables: Mapping[str, Table], stopped: Mapping[str, ErrorRecord]
    ) -> list[str]:
        """Commit stops and resnapshots as soon as they are decided: an epoch that reads the source may fail.

        stopped: the errors of tables whose chunks cannot be read. Returns the tables that stopped.
        """
        changes = self._decisions(state, tables)
        for name, error in stopped.items():
            changes[name] = replace(changes.get(name, TableChange()), stopped=error)
        if changes:
            record = completed(state, following(state, self._journal.run, changes))
            self.commit(record)
            self._publisher.submit(record)
        self._answer()
        return [name for name, change in changes.items() if change.stopped]

    def _decisions(self, state: State, tables: Mapping[str, Table]) -> dict[str, TableChange]:
        """What to do with tables whose destination failed or that operators resumed, as far as the ledger lacks it.

        Derived from the destination's and the inbox's current state, so that a decision whose commit fails is made
        again.
        """
        changes: dict[str, TableChange] = {}
        for name, error in self._publisher.unrepaired_tables().items():
            table_state = state.tables.get(name)
            if table_state is None or table_state.stopped or table_state.due:
                continue
            changes[name] = after_failure(error, self._spec, tables[name])
            if changes[name].due:
                attempt = len(table_state.resnapshots) + 1
                self._journal.write(ErrorReported.of(error, attempt=attempt, retry_in_s=0.0, table=name))
        for command in self._commands.accepted(Resumption):
            for name in to_resume(command.tables, state.tables):
                if not state.tables[name].due:
                    changes[name] = TableChange(due=due(None, command.identity))
        return changes

    def _answer(self) -> None:
        """Answer the resumptions whose resnapshots the ledger has."""
        state = self._ledger.state
        assert state is not None
        for command in self._commands.accepted(Resumption):
            names = to_resume(command.tables, state.tables)
            if all(state.tables[name].due for name in names):
                self._commands.carried_out(command, resnapshots_begun(names))

    def due_after(self, error: TidemarkError, table: Table) -> Due | None:
        """The resnapshot of a table that stops over doubtful rows; None for other errors."""
        return due(error) if isinstance(error, DoubtfulRowsError) and resnapshots_itself(self._spec, table) else None

    def have_files(self, chunks: Sequence[tuple[str, Folder, Sequence[DataFile]]]) -> list[bool]:
        """Of chunks, by table, folder and files: whether these exist as they were written; journals errors if not."""
        errors = file_errors([(folder, files) for _, folder, files in chunks])
        for (table, _, _), error in zip(chunks, errors, strict=True):
            if error is not None:
                detail = "The chunk was not committed; it is read again."
                event = ErrorReported.of(error, attempt=1, retry_in_s=0.0, table=table)
                self._journal.write(replace(event, detail=detail))
        return [error is None for error in errors]

    def require_files(
        self, folder: Callable[[str], Folder], reports: Sequence[RangeReport], redumped: Sequence[RedumpReport]
    ) -> None:
        """Raises TransientError when change log files that were just written are missing.

        The binlog is then read again.
        """
        written = [(name, changes) for report in reports for name, changes in report.tables.items()]
        written += [(part.table, part.changes) for part in redumped]
        for error in file_errors([(folder(name), changes.files) for name, changes in written]):
            if error is not None:
                detail = "Nothing of this epoch was committed."
                raise TransientError(error.message, detail=detail, hint="The binlog is read again.") from error
