"""Executes redumps of published tables while the pipeline streams.

A command stays in the inbox until its last part is committed. So the next runner restarts a redump that a killed runner
left unfinished: redumping a part twice is as right as once (`capture.chunk.redump_part`).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from engine.base.errors import DestinationError, SpecError, TidemarkError
from engine.base.wording import shell_word
from engine.capture.landing import MirrorReader
from engine.capture.redump_requests import Redump
from engine.capture.reports import RedumpReport
from engine.decode.schema import Table
from engine.journal import Journal
from engine.journal.events import ChunkRedumped
from engine.ledger.records import NOTHING, Description, EpochRecord
from engine.ledger.state import TableState
from engine.plan.chunks import WHOLE, Plan, text
from engine.plan.coverage import Chunk, Coverage, Unsplit, unsplit_table
from engine.plan.keys import Bound
from engine.run.commands.accepted_commands import AcceptedCommands
from engine.run.commands.resnapshots_begun import resnapshots_begun
from engine.run.redump.rules import REDUMPED, REFUSED, RESNAPSHOTTED, decide, defects_of
from engine.run.snapshot.scheduler import SnapshotScheduler
from engine.run.snapshot.table_copy import KEYS_A_CHUNK, Finished, TableCopy
from engine.source.positions import Position
from engine.store.folder import Folder

_REPORTED_KEYS = 1000


@dataclass
class _Work:
    """A running command."""

    redump: Redump
    to_resnapshot: set[str]
    to_read: set[str]
    """`to_resnapshot` holds tables still to resnapshot, `to_read` those with parts still to read."""
    redumped: set[str] = field(default_factory=set)
    """The tables with committed parts."""
    can_be_read: Callable[[], bool] | None = None
    """Whether the mirrors have all parts; None until all are committed."""
    rows: int = 0
    ghosts: int = 0
    missing: list[list[str]] = field(default_factory=list)
    begun: set[str] = field(default_factory=set)
    """The tables whose resnapshot has begun."""

    def result(self) -> Description:
        """The result in the journal's `command.done`."""
        named = (
            {"missing": self.missing[:_REPORTED_KEYS], "missing_keys": len(self.missing)} if self.redump.keys else {}
        )
        return {"rows": self.rows, "ghosts": self.ghosts, **named, **resnapshots_begun(self.begun)}


class RedumpExecutor:
    """The redumps of one runner.

    A command is done when the mirrors have its rows: its tables are merged at once. A resnapshot takes as long as a
    copy, so the command is done when it has begun, and its answer says that.

    make_copy: creates a table copy from a table, its coverage, a command, keys and mirrors. has_copy: whether a mirror
    has all of its last snapshot. mirrors: read a table back, from the first destination and a further sink. chunks: the
    folder of its files of chunks. unmerged: the change log files that a mirror may not have yet. merge: merges tables
    at once, with all that is committed; returns whether they are merged.
    """

    def __init__(
        self,
        snapshot: SnapshotScheduler,
        commands: AcceptedCommands,
        journal: Journal,
        make_copy: Callable[[str, Coverage, str, tuple[Bound, ...], tuple[MirrorReader, ...]], TableCopy],
        check: Callable[[str, Redump], None],
        has_copy: Callable[[str], bool],
        mirrors: Callable[[str, str], tuple[MirrorReader, ...]],
        chunks: Callable[[str], Folder],
        unmerged: Callable[[str], list[str]],
        merge: Callable[[Collection[str]], Callable[[], bool]],
    ) -> None:
        self._snapshot = snapshot
        self._commands = commands
        self._journal = journal
        self._make_copy = make_copy
        self._check = check
        self._has_copy = has_copy
        self._unmerged = unmerged
        self._merge = merge
        self._mirrors = mirrors
        self._chunks = chunks
        self._works: dict[str, _Work] = {}
        self._active: dict[str, str] = {}
        self._logs: dict[str, list[str]] = {}
        self._read: list[Finished] = []

    @property
    def waiting(self) -> bool:
        """Whether redumped chunks wait for their commit."""
        return bool(self._read)

    def blocked(self, tables: Mapping[str, TableState]) -> bool:
        """Whether all commands are blocked on tables that are still being copied."""
        begun = all(redump.identity in self._works for redump in self._commands.accepted(Redump))
        works = self._works.values()
        can_continue = any(
            work.to_resnapshot or work.can_be_read or any(tables[name].copied for name in work.to_read)
            for work in works
        )
        return begun and not self._read and not can_continue

    def begin(self, tables: Mapping[str, TableState], captured: Mapping[str, tuple[Table, Plan]]) -> set[str]:
        """Start the redumps that can start. Returns the tables to resnapshot instead."""
        for redump in self._commands.accepted(Redump):
            if redump.identity not in self._works:
                self._works[redump.identity] = self._split(redump, tables, captured)
        for work in list(self._works.values()):
            try:
                self._start(work, tables, captured)
            except SpecError as error:
                self._end(work, error)
            else:
                self._end_if_done(work)
        return {name for work in self._works.values() for name in work.to_resnapshot}

    def answer(self) -> None:
        """Answer the commands whose rows the mirrors have."""
        for work in list(self._works.values()):
            if work.can_be_read is not None:
                self._end_if_done(work)

    @property
    def merging(self) -> bool:
        """Whether commands wait for the mirrors to have their rows."""
        return any(work.can_be_read is not None for work in self._works.values())

    def _split(
        self, redump: Redump, tables: Mapping[str, TableState], captured: Mapping[str, tuple[Table, Plan]]
    ) -> _Work:
        names = set(redump.tables or tables)
        if names - set(tables):
            return _Work(redump, names, set())  # `_start` raises the reason
        ways = {name: decide(redump, tables[name], *captured[name]).way for name in names}
        to_resnapshot = {name for name, way in ways.items() if way == RESNAPSHOTTED}
        return _Work(redump, to_resnapshot, {name for name, way in ways.items() if way in (REDUMPED, REFUSED)})

    def _start(self, work: _Work, tables: Mapping[str, TableState], captured: Mapping[str, tuple[Table, Plan]]) -> None:
        for name in sorted((work.to_resnapshot | work.to_read) - set(tables)):
            if work.redump.tables:
                raise _refused(name, "it was removed", f"Add it: tidemark add-table SPEC --table {shell_word(name)}")
            work.to_resnapshot.discard(name)
            work.to_read.discard(name)
        for name in sorted(work.to_resnapshot | work.to_read - set(self._active)):
            compares = captured[name][0].key and name in work.to_read and tables[name].copied and self._has_copy(name)
            defects = defects_of(self._mirrors(name, work.redump.sink), work.redump) if compares else ("", "")
            decision = decide(work.redump, tables[name], *captured[name], *defects)  # its state may have changed
            if decision.way == REFUSED:
                raise _refused(name, decision.why, decision.hint)
            if decision.way == RESNAPSHOTTED:
                work.to_read.discard(name)
                work.to_resnapshot.add(name)
        for name in sorted(work.to_read - set(self._active)):
            if not tables[name].copied or not self._has_copy(name):
                continue  # wait until it is copied, and the mirror's old rows are replaced
            self._check(name, work.redump)
            self._active[name], self._logs[name] = work.redump.identity, self._unmerged(name)
            coverage = _coverage(work.redump, captured[name][1])
            mirrors = self._mirrors(name, work.redump.sink)
            self._snapshot.add(self._make_copy(name, coverage, work.redump.identity, work.redump.keys, mirrors))

    def note_changes(self, record: EpochRecord) -> None:
        """Record a committed epoch: the mirrors that parts are compared with may lack its changes."""
        for name in self._active:
            self._logs[name] += [file["name"] for file in record.tables.get(name, NOTHING).change_files]

    def log_of(self, table: str) -> tuple[str, ...]:
        """The change log files, in order, that the table's mirror may have lacked since its redump began."""
        return tuple(self._logs[table])

    def take(self, finished: Finished) -> None:
        """Take a redumped chunk."""
        self._read.append(finished)

    def due(self, position: Position) -> list[Finished]:
        """The chunks that the epoch starting at `position` can commit."""
        return [f for f in self._read if f.high.order <= position.order]

    def note_commit(self, due: Sequence[Finished], reports: Iterable[RedumpReport]) -> None:
        """Record that an epoch committed these chunks, and delete their temporary files."""
        written = {(report.table, report.chunk): report for report in reports}
        for finished in due:
            self._read.remove(finished)
            self._chunks(finished.table).delete(file.name for file in (*finished.files, *finished.ghosts))
            assert finished.redump is not None
            work, report = self._works[finished.redump], written[finished.identity]
            self._report(work, finished, report)
            if self._snapshot.redumped(finished.table, finished.report.chunk):
                del self._active[finished.table]
                work.to_read.discard(finished.table)
                work.redumped.add(finished.table)
                self._end_if_done(work)

    def _report(self, work: _Work, finished: Finished, report: RedumpReport) -> None:
        rows, _, _, ghosts = report.changes.kinds
        work.rows = work.rows + rows
        work.ghosts = work.ghosts + ghosts
        work.missing += report.missing_keys
        limits = finished.limits
        self._journal.write(
            ChunkRedumped(
                id=work.redump.identity,
                table=finished.table,
                chunk=finished.report.chunk,
                lower=text(limits.lower),
                upper=text(limits.upper),
                rows=rows,
                ghosts=ghosts,
                reader=str(finished.report.reader),
            )
        )

    def resnapshot_begun(self, names: Iterable[str], errors: Mapping[str, TidemarkError]) -> None:
        """Record that a committed epoch resnapshots these tables. errors: of tables that stay stopped instead.

        A command that names such a table is refused; one for all tables skips it.
        """
        for work in list(self._works.values()):
            failed = sorted(work.to_resnapshot & errors.keys())
            if failed and work.redump.tables:
                self._end(work, errors[failed[0]])
                continue
            work.to_resnapshot.difference_update(failed)
            if begun := work.to_resnapshot.intersection(names):
                work.begun.update(begun)
                work.to_resnapshot.difference_update(begun)
            if begun or failed:
                self._end_if_done(work)

    def drop(self, table: str) -> None:
        """Discard the redumped chunks of a table that changed or stopped; they are read again if that is possible."""
        if self._active.pop(table, None) is not None:
            self._snapshot.drop(table)
        self._read = [f for f in self._read if f.table != table]

    def failed(self, table: str, error: TidemarkError) -> None:
        """End the command whose chunks cannot be read.

        A whole table whose mirror cannot be read is resnapshotted instead.
        """
        identity = self._active.get(table)
        self.drop(table)
        work = self._works.get(identity) if identity else None
        if work is None:
            return
        if isinstance(error, DestinationError) and work.redump.is_whole_table:
            work.to_read.discard(table)
            work.to_resnapshot.add(table)
        else:
            self._end(work, error)

    def _end_if_done(self, work: _Work) -> None:
        if work.to_resnapshot or work.to_read:
            return
        if work.can_be_read is None:
            work.can_be_read = self._merge(work.redumped) if work.redumped else lambda: True
        if work.can_be_read():
            del self._works[work.redump.identity]
            self._commands.carried_out(work.redump, work.result())

    def _end(self, work: _Work, error: TidemarkError) -> None:
        del self._works[work.redump.identity]
        for table in [name for name, identity in self._active.items() if identity == work.redump.identity]:
            self.drop(table)
        self._commands.refused(work.redump, error)


def _coverage(redump: Redump, plan: Plan) -> Coverage:
    """The redump's ranges or keys as chunks."""
    if redump.keys:
        return Coverage(unsplit=(), pending={}, next_number=0).split(_named_chunks(len(redump.keys)), (), 0)
    if redump.ranges:
        unsplit = tuple(Unsplit(n, limits, "walk") for n, limits in enumerate(redump.ranges))
        return Coverage(unsplit=unsplit, next_number=len(unsplit))
    return unsplit_table(plan)


def _named_chunks(keys: int) -> list[Chunk]:
    return [Chunk(n, WHOLE) for n in range(-(-keys // KEYS_A_CHUNK))]


def _refused(table: str, why: str, hint: str) -> SpecError:
    return SpecError(f"{table} cannot be redumped: {why}.", detail="Nothing of it was read.", hint=hint)
