"""Where a run begins.

It begins at the first epoch, at the committed position, at another server after a failover, or with resnapshots.

Tables are resnapshotted here, before the run reads, where nothing else can help and a command has asked for it: after a
lost position, under a ledger that is older than the destination, for a destination that is not what the ledger has
published, and for other columns or rows in the spec. Without the command, the run ends with the error.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

from engine.base import clock
from engine.base.errors import MissingFilesError, SourceLostError, stop_of
from engine.capture.binlog.one_phase_commits import settled_in_s
from engine.capture.projection.projection_rules import as_read, check_asked, check_rules, with_other_projection
from engine.capture.redump_requests import Redump
from engine.decode.schema import Table, table_from_dict
from engine.decode.types import has_wrong_images
from engine.destination.destination_protocol import Destination
from engine.journal import Journal
from engine.journal.events import ErrorReported, TableChanged
from engine.ledger.records import EpochRecord, Removal, TableChange
from engine.ledger.state import State, following
from engine.ledger.store import Ledger
from engine.plan.chunks import plan_from_dict
from engine.run.commands.accepted_commands import AcceptedCommands
from engine.run.commands.command_intake import CommandIntake
from engine.run.commands.resnapshots_begun import resnapshots_begun
from engine.run.epochs.failed_table import after_failure
from engine.run.lifecycle.takeover import Takeover
from engine.run.snapshot.table_copy import planned
from engine.run.source_loss import failover
from engine.run.tables.cures import cured, left_out
from engine.run.tables.first_epoch import SourceAccess, check_source, check_tables, first_epoch
from engine.run.tables.membership_commands import removed_tables
from engine.run.tables.resnapshot import giving_up, resnapshot_all, resnapshot_tables
from engine.run.tables.table_commands import everything, resumed, to_add, to_replace
from engine.source.connect import Connection, Endpoint, Server, open_connection
from engine.source.preflight import Preflight, refused
from engine.source.turns import Turns
from engine.source.watermarks import watermark_class
from engine.spec.settings import Spec


class RunStart:
    """Starts a run, and resumes reading after an outage of the source."""

    def __init__(
        self,
        spec: Spec,
        intake: CommandIntake,
        commands: AcceptedCommands,
        journal: Journal,
        takeover: Takeover,
        destination: Destination,
    ) -> None:
        self._spec = spec
        self._intake = intake
        self._commands = commands
        self._journal = journal
        self._takeover = takeover
        self._destination = destination

    def begin(self, ledger: Ledger, endpoint: Endpoint, preflight: Preflight) -> SourceAccess:
        """Prepare the source for the coordinator; commits epoch 0 if the pipeline has no ledger.

        Raises TidemarkError if the run cannot begin, SourceLostError among them.
        """
        connection = open_connection(endpoint)
        try:
            kind = watermark_class(connection, preflight.server)
            turns = Turns(preflight.few_connections)
            endpoint = replace(endpoint, few_connections=turns.few)
            source = SourceAccess(endpoint, preflight.server, kind, turns)
            if ledger.state is not None:
                self._continue(ledger, connection, source, preflight)
                return self.settled(source, connection)
            begun = first_epoch(self._spec, connection, endpoint, preflight.server, self._journal.run)
            self._takeover.require_places(begun.record)
            ledger.commit(replace(begun.record, term=self._takeover.first_term(begun.ledger)))
            self._takeover.take_first(ledger)
            self._commands.begin(partial(committed_state, ledger))
            source = self.settled(source, connection)
        finally:
            connection.close()
        for plan in begun.plans:
            self._journal.write(planned(plan))
        return source

    def settled(self, source: SourceAccess, connection: Connection) -> SourceAccess:
        """The source, whose committed position is in the binlog. The run sees one-phase commits after it only."""
        if source.watermarks != "snapshot":
            return source
        settle_s, first = self._spec.source.settle_s, self._spec.first_server_id()
        in_s = settled_in_s(connection, source.endpoint, source.server, settle_s, first)
        return replace(source, settled_s=clock.monotonic_s() + in_s)

    def _continue(self, ledger: Ledger, connection: Connection, source: SourceAccess, preflight: Preflight) -> None:
        endpoint, server = source.endpoint, source.server
        check_tables(self._spec, committed_state(ledger), preflight.tables, to_add(self._intake.waiting()))
        waiting = self._intake.waiting()  # before any of them is answered
        self._commands.begin(partial(committed_state, ledger))
        if not self._takeover.taken:
            next_seq = self._takeover.take(ledger, to_replace(waiting), everything=everything(waiting))
            if next_seq is not None:
                self._begin_lineage(ledger, connection, endpoint, server, next_seq)
                self._resnapshot_projections(ledger, connection, preflight.tables)
                return
        try:
            self._identify(ledger, connection, endpoint, server)
        except SourceLostError as error:
            self.resnapshot_everything(ledger, connection, endpoint, server, error)
        self._resnapshot_projections(ledger, connection, preflight.tables)
        self._resnapshot_faulty(ledger, connection, self._takeover.at_fault, resumed(waiting))
        self._repair(ledger, set(committed_state(ledger).tables) if everything(waiting) else to_replace(waiting))
        self._follow_spec(ledger, connection)
        self._stop_unfit(ledger, preflight.tables)

    def _follow_spec(self, ledger: Ledger, connection: Connection) -> None:
        """Resnapshot the stopped tables that the spec now lets continue.

        Removes those that it does not select any more.
        """
        state, run = committed_state(ledger), self._journal.run
        if gone := left_out(self._spec, state):
            state = self._remove(ledger, state, gone)
        record = resnapshot_tables(self._spec, self._destination, state, connection, cured(self._spec, state), run)
        tables = {name: change for name, change in record.tables.items() if change.resnapshot}
        if tables:
            self._commit(ledger, following(state, run, tables), "the spec no longer has what stopped it")

    def _remove(self, ledger: Ledger, state: State, names: Sequence[str]) -> State:
        changes = {name: TableChange(removed=Removal(None, drop=False)) for name in names}
        ledger.commit(following(state, self._journal.run, changes))
        return committed_state(ledger)

    def _stop_unfit(self, ledger: Ledger, tables: Sequence[Table]) -> None:
        """Stop the tables that got another engine, or became parts of a MERGE table, while no run saw it.

        Also those with columns that an earlier version of Tidemark copied from wrong row images.
        """
        state = committed_state(ledger)
        names = {name for name, table in state.tables.items() if not table.stopped}
        catalog = [as_read(self._spec, table) for table in tables if table.full_name in names and not table.remedy]
        unfit = refused([table for table in catalog if table.unfit or has_wrong_images(table)])
        if unfit:
            stopped = {name: TableChange(stopped=stop_of(error, name)) for name, error in unfit.items()}
            self._commit(ledger, following(state, self._journal.run, stopped), "")

    def resnapshot_everything(
        self, ledger: Ledger, connection: Connection, endpoint: Endpoint, server: Server, error: SourceLostError
    ) -> None:
        """Resnapshot everything after a lost position, if a command asked for that; else raises `error`."""
        state = ledger.state
        assert state is not None
        self._intake.poll()
        redumps = [
            redump
            for redump in self._commands.accepted(Redump)
            if redump.is_whole_table and not set(state.tables) - set(redump.tables or state.tables)
        ]
        if not redumps:
            raise error
        record = resnapshot_all(self._spec, self._destination, state, connection, endpoint, server, self._journal.run)
        self._commit(ledger, record, f"requested, because the position was lost: {error.message}")
        for redump in redumps:
            self._commands.carried_out(redump, resnapshots_begun(state.tables))

    def _begin_lineage(
        self, ledger: Ledger, connection: Connection, endpoint: Endpoint, server: Server, next_seq: int
    ) -> None:
        """Resnapshot everything into a new lineage, as asked, because the ledger is older than the destination.

        next_seq: greater than every sequence number in the change logs.
        """
        assert ledger.state is not None
        record = resnapshot_all(
            self._spec, self._destination, ledger.state, connection, endpoint, server, self._journal.run
        )
        record = replace(record, lineage=self._journal.run, next_seq=max(next_seq, ledger.state.next_seq))
        self._commit(ledger, record, "requested, because the ledger was older than the destination")
        self._intake.poll()
        for redump in self._commands.accepted(Redump):
            if redump.is_whole_table and not redump.tables:
                self._commands.carried_out(redump, resnapshots_begun(ledger.state.tables))

    def _resnapshot_faulty(
        self, ledger: Ledger, connection: Connection, names: Collection[str], resume: Collection[str]
    ) -> None:
        """Resnapshot the tables with a faulty destination that a command asked for.

        resume: those that a resume names.
        """
        assert ledger.state is not None
        self._intake.poll()
        redumps = [redump for redump in self._commands.accepted(Redump) if redump.is_whole_table]
        wanted = {name for redump in redumps for name in (redump.tables or ledger.state.tables)}.union(resume)
        to_resnapshot = sorted(wanted.intersection(names, ledger.state.tables))
        if not to_resnapshot:
            return
        record = resnapshot_tables(
            self._spec, self._destination, ledger.state, connection, to_resnapshot, self._journal.run
        )
        self._commit(
            ledger, giving_up(record), "requested, because the destination was not what the ledger has published"
        )
        for redump in redumps:
            if redump.tables and set(to_resnapshot).issuperset(redump.tables):
                self._commands.carried_out(redump, resnapshots_begun(redump.tables))

    def _repair(self, ledger: Ledger, named_tables: Collection[str]) -> None:
        """Decide what becomes of tables whose data files are gone, as a run does that notices it.

        named_tables: tables that commands resnapshot or remove.
        """
        state, changes = committed_state(ledger), dict[str, TableChange]()
        for name, why in self._takeover.missing_files.items():
            if (
                name in named_tables
                or (table_state := state.known(name)) is None
                or table_state.stopped
                or table_state.due
            ):
                continue
            error = MissingFilesError(
                f"{why}.",
                detail="They were published; a VACUUM, a cleaner or a restore may have removed them. Readers of the "
                "table fail until they are back.",
                hint="Do not let cleaners delete files of the destination.",
            )
            changes[name] = after_failure(error, self._spec, table_from_dict(table_state.table))
            self._journal.write(
                ErrorReported.of(error, attempt=len(table_state.resnapshots) + 1, retry_in_s=0.0, table=name)
            )
        if changes:
            ledger.commit(following(state, self._journal.run, changes))
        self._takeover.missing_files.clear()  # a run begins again when its source is back

    def _resnapshot_projections(self, ledger: Ledger, connection: Connection, tables: list[Table]) -> None:
        """Resnapshot the tables whose projection changed in the spec, if a command asked for that.

        Raises SpecError if not.
        """
        assert ledger.state is not None
        names = set(with_other_projection(self._spec, ledger.state))
        if not names:
            return
        check_rules(self._spec, [*tables, *removed_tables(ledger.state)])
        self._intake.poll()
        redumps = [redump for redump in self._commands.accepted(Redump) if redump.is_whole_table]
        check_asked(names.difference(*(redump.tables or names for redump in redumps)))
        record = resnapshot_tables(
            self._spec, self._destination, ledger.state, connection, sorted(names), self._journal.run
        )
        self._commit(ledger, record, "requested, because the spec publishes other columns or rows of it")
        for redump in redumps:
            if redump.tables and names.issuperset(redump.tables):
                self._commands.carried_out(redump, resnapshots_begun(redump.tables))

    def _commit(self, ledger: Ledger, record: EpochRecord, reason: str) -> None:
        """Commit an epoch that resnapshots tables, and journal it."""
        ledger.commit(record)
        for name, change in record.tables.items():
            why = change.stopped.message if change.stopped else reason
            outcome = "stopped" if change.stopped else "resnapshotted"
            self._journal.write(TableChanged(kind=outcome, table=name, reason=why))
            if change.resnapshot:
                plan = plan_from_dict(change.resnapshot.plan)
                self._journal.write(planned(plan))

    def _identify(self, ledger: Ledger, connection: Connection, endpoint: Endpoint, server: Server) -> None:
        """Check that the server has the ledger's history; commit a failover when it is another server.

        Raises SourceLostError.
        """
        state, first = ledger.state, self._spec.first_server_id()
        assert state is not None
        if server.identity == state.identity:
            check_source(state, connection, endpoint, server, first)
            return
        record = failover.failed_over(state, connection, endpoint, server, first, self._journal.run)
        ledger.commit(record)
        self._journal.write(failover.describe(state, record))


def committed_state(ledger: Ledger) -> State:
    """The state of a ledger that has an epoch."""
    assert ledger.state is not None
    return ledger.state
