"""Which range of the binlog is audited, for each table, and why not more.

By the rule of emission, a table's change log has every change after the position at which its copy was complete. So a
range begins at the end of the epoch that completed the copy, altered the table or came from another server, whichever
is the latest. If the ledger no longer has that epoch, the journal may; if neither has it, the range begins with the
oldest epoch that is known.

It ends at the committed position. If the change log lacks a committed epoch that has changes for it, the range ends
before that epoch. The ledger is read before the change log, so a pipeline may run meanwhile.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from engine.base.errors import SpecError
from engine.base.json_records import record_from
from engine.capture.projection.table_projection import published_as
from engine.decode.schema import Column, Table, table_from_dict
from engine.destination.destination_protocol import CHANGES
from engine.destination.registry import destination_of
from engine.journal.parts import parts_in
from engine.ledger.records import NOTHING, EpochRecord, TableChange
from engine.ledger.state import State, TableState
from engine.ledger.store import Ledger
from engine.pipeline.directory import Directory
from engine.source.positions import FIRST_OFFSET, Position, file_number, position_from_text
from engine.spec.settings import Spec

BORDER_BYTES = 1 << 20
_MOST_BORDERS = 100_000
_ANY = Position("x.0", 0)
"""Before all others."""
_LINES = re.compile(rb'"event": ?"(?:epoch\.committed|table\.state|source\.event|source\.failover)"')


@dataclass(frozen=True)
class AuditedRange:
    """The part of the binlog that is audited for one table."""

    table: Table
    """As the source has it."""
    columns: tuple[Column, ...]
    """The columns that are compared."""
    start: Position
    end: Position
    seq: int = 0
    """Changes of the range have at least this `_tm_seq`; earlier ones may be those of another server. 0
    if unknown."""
    notes: tuple[str, ...] = ()
    """Why it begins or ends there, and which columns are left out."""


@dataclass(frozen=True)
class Since:
    """A position, and the least `_tm_seq` of the changes after it; 0 if that is unknown."""

    position: Position
    seq: int = 0


@dataclass(frozen=True)
class CommittedHistory:
    """What the ledger and the journal say, read at one time."""

    state: State
    records: Sequence[EpochRecord]
    """The newest epochs, without a gap, ending with the committed one."""
    journal: Mapping[str, Since] = field(default_factory=dict)
    """By table, since when it streams unaltered."""
    bounds: Sequence[Position] = ()
    """Some positions between two transactions, in order."""


def read_history(directory: Directory) -> CommittedHistory:
    """Read the ledger and the journal. Raises SpecError if the pipeline has not run yet."""
    ledger = Ledger(directory.ledger)
    if ledger.state is None:
        raise SpecError("The pipeline has not run yet.", hint="There is nothing to audit before its first run.")
    state = ledger.state
    epochs = [record for record in ledger.kept_epochs() if record.epoch <= state.epoch]
    records: list[EpochRecord] = []
    for record in reversed(epochs):
        if record.epoch != state.epoch - len(records) or record.only is not None:
            break
        records.insert(0, record)
    borders = TransactionBounds()
    since = streaming_since(borders.passing(_journal(directory.journals)))
    return CommittedHistory(state, records, since, borders.positions)


@dataclass(frozen=True)
class StreamEvent:
    """What a line of the journal says of the stream and of a table's place in it; empty where it has no such field."""

    event: str
    table: str = ""
    state: str = ""
    """Of `table.state`."""
    position: str | None = None
    """Of `source.event`: where the table was altered; None if that is unknown."""
    from_position: str = ""
    to_position: str = ""
    next_seq: int = 0
    """Of `epoch.committed`: the `_tm_seq` of the next change; 0 in older journals."""


class TransactionBounds:
    """Positions between two transactions that a journal has: each epoch ends at one.

    About one per `BORDER_BYTES` is kept, fewer of a long journal.
    """

    def __init__(self) -> None:
        self.positions: list[Position] = []
        self._end = ""

    def passing(self, events: Iterable[StreamEvent]) -> Iterator[StreamEvent]:
        """Yield the events of a journal, after noting their positions."""
        for entry in events:
            if entry.event == "epoch.committed":
                # The server was reset, or lines were lost, perhaps of a failover.
                if entry.from_position != self._end:
                    self.positions.clear()
                self._end = entry.to_position
                self._note(position_from_text(self._end))
            elif entry.event == "source.failover":
                self.positions.clear()
            yield entry

    def _note(self, position: Position) -> None:
        newest = self.positions[-1] if self.positions else None
        if newest is None or newest.file != position.file or position.offset - newest.offset >= BORDER_BYTES:
            self.positions.append(position)
        if len(self.positions) > _MOST_BORDERS:
            del self.positions[::2]


def bound_before(borders: Sequence[Position], position: Position) -> Position | None:
    """The last of the borders at or before a position."""
    count = bisect_right(borders, position.order, key=lambda one: one.order)
    return borders[count - 1] if count else None


def _journal(folder: Path) -> Iterator[StreamEvent]:
    for part in parts_in(folder):
        with suppress(OSError), part.open() as file:  # expired meanwhile
            for line in file:
                if _LINES.search(line[:200]):
                    with suppress(ValueError):
                        if (event := record_from(StreamEvent, json.loads(line))) is not None:
                            yield event


def streaming_since(events: Iterable[StreamEvent]) -> dict[str, Since]:
    """By table, since when it has been streaming unaltered on the same server, from the events of a journal.

    It is where the first epoch begins that was committed after the table began to stream, or was altered. A table that
    began before the journal does not count, unless a run said that it streams.

    A power cut or a kill may have lost lines, among them a failover's: then an epoch does not begin where the last one
    ended, and nothing before its end counts.
    """
    since: dict[str, Since] = {}
    waiting: dict[str, Position | None] = {}  # for the next epoch; where the table was altered, None if that is unknown
    seq, last = 0, ""
    for entry in events:
        table = entry.table
        if entry.event == "epoch.committed":
            if last not in ("", entry.from_position):
                waiting, since = dict.fromkeys((*since, *waiting)), {}
            last = entry.to_position
            begin = Since(position_from_text(entry.from_position), seq)
            end = Since(position_from_text(last), seq := entry.next_seq)
            for name, altered in waiting.items():  # journaled before the epoch that ends with the statement
                since[name] = end if altered is None or begin.position.order < altered.order else begin
            waiting.clear()
        elif entry.event == "source.failover":
            waiting, since = dict.fromkeys((*since, *waiting), _ANY), {}
            last = entry.to_position if last == entry.from_position else last
        elif entry.event == "table.state" and entry.state != "streaming":
            since.pop(table, None)
            waiting.pop(table, None)
        elif entry.event == "table.state":
            if table not in since:
                waiting.setdefault(table, _ANY)
        elif table in since or table in waiting:
            since.pop(table, None)
            waiting[table] = position_from_text(entry.position) if entry.position else None
    return since


def parsed(text: str, option: str) -> Position:
    """A position from the command line, FILE:OFFSET. Raises SpecError."""
    file, _, offset = text.rpartition(":")
    if not offset.isdecimal() or not file.rpartition(".")[2].isdecimal():
        raise SpecError(f"{option} {text} is not a position.", hint=f"For example: {option} mysql-bin.000003:4")
    return Position(file, int(offset))


def audited_range(
    spec: Spec,
    history: CommittedHistory,
    name: str,
    files: Mapping[str, int],
    limits: tuple[Position | None, Position | None] = (None, None),
) -> AuditedRange | str:
    """The range of one table; or why there is none.

    files: of the source's binlog. limits: where the operator wants it to begin and to end.
    """
    state = history.state.tables[name]
    if why := _unfit(spec, state):
        return why
    table = table_from_dict(state.table)
    since, note = _start(history, name, state)
    start, notes = since.position, [note]
    first = Position(next(iter(files)), FIRST_OFFSET)
    if start.order < first.order:
        start, notes = first, ["the server has purged what was before"]
    if limits[0] is not None and limits[0].order >= start.order:
        start, notes = limits[0], []
    elif limits[0] is not None:
        notes = [f"--from is earlier, but {note}"]
    end, late = _end(spec, history, name, table, state)
    notes += [late] if late else []
    if limits[1] is not None and limits[1].order <= end.order:
        end = limits[1]
    elif limits[1] is not None:
        notes.append("--to is later than what is committed and in the change log")
    if end.order < start.order:  # nothing is left, such as right after a table was added again
        end = start
    columns, left_out = _columns(state, table)
    return AuditedRange(table, columns, start, end, since.seq, tuple(note for note in (*notes, *left_out) if note))


def _unfit(spec: Spec, state: TableState) -> str:
    if state.stopped:
        return "it is stopped"
    if not state.copied:
        return "it is not completely copied yet"
    table = table_from_dict(state.table)
    if spec.projection_rules(table.database, table.name).where is not None:
        return "it has a row filter, which only Tidemark's own code can apply"
    return ""


def _columns(state: TableState, table: Table) -> tuple[tuple[Column, ...], list[str]]:
    """The columns to compare, and what is said of the others."""
    published = {column.name for column in published_as(table, state.projection).columns}
    masks = state.projection["masks"] if state.projection else {}
    columns = tuple(column for column in table.columns if column.name in published and column.name not in masks)
    hidden = [name for name in masks if name in published]
    return columns, [f"masked columns are not compared: {', '.join(sorted(hidden))}"] if hidden else []


def _start(history: CommittedHistory, name: str, state: TableState) -> tuple[Since, str]:
    oldest = history.records[0] if history.records else None
    for record in reversed(history.records):
        moved = record.identity is not None
        if moved or record.lineage is not None or _is_touched(record.tables.get(name, NOTHING)):
            what = "the source was another server" if moved and record.epoch else "it was copied or altered"
            begin = record.to_position
            if state.since is not None:
                begin = max(begin, state.since, key=lambda position: position.order)
            return Since(begin, record.next_seq), f"{what} until there"
    begin = oldest.from_position if oldest else history.state.position
    earlier = history.journal.get(name)
    if earlier is not None and earlier.position.order < begin.order:
        return earlier, "the journal does not prove more"
    return Since(begin), "the ledger does not prove more"


def _is_touched(change: TableChange) -> bool:
    """Whether the table may have other columns after an epoch, or a copy that is not complete."""
    return replace(change, changes=None, due=None, not_due=False) != NOTHING


def _end(spec: Spec, history: CommittedHistory, name: str, table: Table, state: TableState) -> tuple[Position, str]:
    """The position through which the change log has everything, and why it is not the committed one."""
    stored = destination_of(spec.sink).table(history.state.owner, published_as(table, state.projection))
    applied = max(stored.last_epoch(CHANGES), history.state.owner.floor)  # a restored ledger counts from its floor
    for record in history.records:
        if record.epoch > applied and record.tables.get(name, NOTHING).changes:
            return record.from_position, "later epochs are committed, but not in the change log yet"
    return history.state.position, ""


def check_available(position: Position | None, files: Collection[str]) -> str:
    """Why the server does not have the binlog from a position on; empty if it has."""
    if position is None or position.file in files:
        return ""
    oldest = next(iter(files))
    purged = file_number(position.file) < file_number(oldest)
    return f"the server has purged {position.file}; its oldest file is {oldest}" if purged else "there is no such file"


def begin_later(audited: AuditedRange, start: Position, note: str) -> AuditedRange:
    """The range, not beginning before a position."""
    if start.order <= audited.start.order:
        return audited
    return replace(audited, start=start, notes=(*audited.notes, note))
