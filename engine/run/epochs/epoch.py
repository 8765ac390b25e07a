"""Pure functions for one epoch: binlog ranges, the ledger record and the journal event.

An epoch is one commit: a binlog range, and the chunks that finished meanwhile. `run.lifecycle.coordinator` runs the
loop. It is written to the ledger (`ledger.records.EpochRecord`, `ledger.store`), journalled as `epoch.committed`, and
applied by `destination.publisher`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from engine.base.errors import ErrorRecord, TidemarkError, stop_of
from engine.capture.binlog.statements import Alteration
from engine.capture.reports import RangeReport, RedumpReport, WrittenChanges
from engine.decode.schema import KINDS
from engine.journal.events import EpochCommitted, TableNulled
from engine.ledger.records import NOTHING, ChangesRecord, ChunkRecord, Description, EpochRecord, TableChange
from engine.ledger.state import State, apply, nulled
from engine.pipeline.state_machines import START, TABLE, IllegalEventError
from engine.run.snapshot.table_copy import Finished
from engine.source.positions import FIRST_OFFSET, Position, file_number

_PART_BYTES = 64 << 20
"""Bytes of binlog that justify a separate task."""


def split_range(
    files: dict[str, int], start: Position, end: Position, slots: int, committed_position: Position | None = None
) -> list[tuple[Position, Position]]:
    """Split the binlog from `start` to `end` into at most `slots` parts that end where a file begins. Pure.

    files: oldest first, with their bytes. These decide how much a part holds, never where it ends: a file may be larger
    than its last position.

    A part holds at least `_PART_BYTES`, except the last, and may exceed that by one file. The next epoch reads the
    rest: the last part then ends before `end`, but never before `committed_position`. There are more than `slots` parts
    when that lies far behind `start`.
    """
    parts: list[tuple[Position, Position]] = []
    begin, part_bytes = start, 0
    if end.order <= start.order:
        return parts
    within = [name for name in files if file_number(start.file) <= file_number(name) <= file_number(end.file)]
    for name, after in pairwise(within):
        part_bytes += files[name] - (start.offset if name == start.file else 0)
        if part_bytes >= _PART_BYTES:
            border = Position(after, FIRST_OFFSET)
            parts.append((begin, border))
            begin, part_bytes = border, 0
            if len(parts) >= slots and (committed_position is None or begin.order >= committed_position.order):
                return parts
    return [*parts, (begin, end)]


def up_to_alteration(
    reports: Sequence[RangeReport], end: Position
) -> tuple[Sequence[RangeReport], Position, Alteration | None]:
    """The reports up to the first schema change, and the position where the epoch ends.

    Also returns the schema change if there is one.

    The columns used to read beyond it may be wrong.
    """
    for n, report in enumerate(reports):
        if report.alteration is not None:
            return reports[: n + 1], report.end, report.alteration
    return reports, end, None


def table_records(
    new_chunks: dict[str, Description],
    frozen: Sequence[Finished],
    reports: Sequence[RangeReport],
    stopped: dict[str, ErrorRecord],
    verdicts: dict[str, TableChange],
    redumped: Sequence[RedumpReport] = (),
) -> tuple[dict[str, TableChange], dict[str, TidemarkError]]:
    """The table records of an epoch, and the tables that stopped in its binlog range.

    new_chunks: chunks split off since the last epoch. frozen: the chunks to publish. stopped: errors of tables that
    stopped before the range. verdicts: on tables altered at the epoch's end (`run.tables.schema_change`). redumped:
    their changes come before those of the binlog.
    """
    newly = _stops(reports, stopped)
    written = _written(reports, redumped, stopped)
    chunks: dict[str, list[ChunkRecord]] = {}
    for f in frozen:
        chunks.setdefault(f.table, []).append(_chunk(f))
    errors = {**stopped, **{name: stop_of(error, name) for name, error in newly.items()}}
    verdicts = {name: change for name, change in verdicts.items() if name not in errors}
    tables = {}
    for name in dict.fromkeys([*stopped, *new_chunks, *chunks, *written, *newly, *verdicts]):
        verdict = verdicts.get(name, TableChange(stopped=errors.get(name)))
        # Chunks are exact only at their high watermarks, maybe after the table's stop: a moved row could appear twice.
        ends = verdict.stopped is not None or verdict.resnapshot is not None
        tables[name] = replace(
            verdict,
            split=new_chunks.get(name) if verdict.resnapshot is None else None,
            chunks=() if ends else tuple(chunks.get(name, ())),
            changes=_changes(written[name]) if name in written else None,
        )
    return tables, newly


def table_events(before: str, change: TableChange) -> list[str]:
    """The events of `state_machines.TABLE` in an epoch's record of one table, in order.

    before: the table's state; START for a newly planned table.
    """
    if before == START or change.planned:
        joins = "streaming only" if change.chunks else "planned"
        return ["refused" if change.stopped else joins]
    restarted = change.resnapshot is not None and change.resnapshot.since is not None
    events = {
        "altered": change.altered,
        "streaming restarted" if restarted else "resnapshotted": change.resnapshot,
        "copied": change.copied,
        "stopped": change.stopped,
        "removed": change.removed,
        "dropped": change.dropped,
    }
    return [event for event, happened in events.items() if happened]


def _chunk(finished: Finished) -> ChunkRecord:
    report = finished.report
    files = tuple(file.as_dict() for file in finished.files)
    return ChunkRecord(report.chunk, finished.high, files, report.rows, dict(report.nulled_dates))


def completed(state: State, record: EpochRecord) -> EpochRecord:
    """The record, with `copied` set for each table whose last chunk it contains.

    Raises IllegalEventError on a transition that `state_machines.TABLE` does not allow; the epoch must not be committed
    then.
    """
    after, tables = apply(state, record), dict(record.tables)
    for name, change in record.tables.items():
        before, now = state.known(name), after.known(name)
        was, becomes = before.state if before else START, now.state if now else START
        if before and now and change.chunks and now.copied and not before.copied:
            tables[name] = replace(change, copied=True)
        if TABLE.after_all(was, table_events(was, tables[name])) != becomes:
            raise IllegalEventError(f"{name} was {was or 'not there'} and would be {becomes} without a matching event.")
    return replace(record, tables=tables)


def _stops(reports: Sequence[RangeReport], stopped: Mapping[str, ErrorRecord]) -> dict[str, TidemarkError]:
    """The first error of each table that stopped in the range."""
    newly: dict[str, TidemarkError] = {}
    for report in reports:
        for name, error in report.stop_errors.items():
            if name not in stopped:
                newly.setdefault(name, error)
    return newly


def _written(
    reports: Sequence[RangeReport], redumped: Sequence[RedumpReport], stopped: Mapping[str, ErrorRecord]
) -> dict[str, list[WrittenChanges]]:
    """The changes to publish, by table: those of redumps, then those of the binlog up to the table's stop."""
    written: dict[str, list[WrittenChanges]] = {}
    ended = set(stopped)
    for part in redumped:
        if part.table not in ended:
            written.setdefault(part.table, []).append(part.changes)
    for report in reports:
        for name, changes in report.tables.items():
            if name not in ended:
                written.setdefault(name, []).append(changes)
        ended |= report.stop_errors.keys()
    return written


def _changes(written: Sequence[WrittenChanges]) -> ChangesRecord:
    files = tuple(file.as_dict() for one in written for file in one.files)
    kinds = tuple(map(sum, zip(*(one.kinds for one in written), strict=True)))
    return ChangesRecord(files, kinds, _summed(one.nulled_dates for one in written))


def _summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sum of the counts, by name."""
    return dict(sum(map(Counter, counts), Counter[str]()))


def with_facts(record: EpochRecord, reports: Sequence[RangeReport], before: Description | None) -> EpochRecord:
    """The record with its unknown events, and the largest transaction if it exceeds `before`."""
    most = largest(reports)
    if most is not None and before is not None and most["bytes"] <= before["bytes"]:
        most = None
    return replace(record, unknown=_summed(report.unknown_events for report in reports), largest=most)


def largest(reports: Sequence[RangeReport]) -> Description | None:
    """The largest transaction of an epoch, by bytes; None without transactions."""
    return max((r.largest for r in reports if r.largest), key=lambda t: int(t["bytes"]), default=None)


def _redumped(record: EpochRecord, parts: Sequence[RedumpReport]) -> dict[str, list[int]]:
    """The changes of redumps that the record has, by table."""
    counts: dict[str, list[int]] = {}
    for part in parts:
        if record.tables.get(part.table, NOTHING).changes is not None:
            before = counts.get(part.table, [0, 0, 0, 0])
            counts[part.table] = [a + b for a, b in zip(before, part.changes.kinds, strict=True)]
    return counts


def dates_nulled(record: EpochRecord) -> list[TableNulled]:
    """The tables of an epoch that have dates which became NULL, for the journal."""
    columns_by_table = ((name, nulled(change)) for name, change in record.tables.items())
    return [TableNulled(table=name, columns=columns) for name, columns in columns_by_table if columns]


def commit_event(
    record: EpochRecord,
    chunks: int,
    reports: Sequence[RangeReport],
    read_s: float,
    total_s: float,
    redumped: Sequence[RedumpReport] = (),
) -> EpochCommitted:
    """The epoch, for the journal.

    chunks: published with it. read_s, total_s: seconds of reading, and of reading and commit.

    redumped: the parts that it redumps.
    """
    table_kinds = {name: list(change.changes.kinds) for name, change in record.tables.items() if change.changes}
    changes = {name: sum(kinds) for name, kinds in table_kinds.items()}
    kinds = [sum(column) for column in zip(*table_kinds.values(), strict=True)]
    start, end = record.from_position, record.to_position
    return EpochCommitted(
        epoch=record.epoch,
        from_position=str(start),
        to_position=str(end),
        changes=sum(changes.values()),
        kinds=dict(zip(KINDS, kinds or [0, 0, 0, 0], strict=True)),
        tables=changes,
        redumped=_redumped(record, redumped),
        table_kinds=table_kinds,
        transactions=sum(r.transactions for r in reports),
        bytes=sum(r.bytes for r in reports),
        chunks=chunks,
        timings={"read": round(read_s, 6), "commit": round(total_s - read_s, 6)},
        reader=str(reports[0].reader) if reports else None,
        events=_summed(r.events for r in reports),
        unknown=_summed(r.unknown_events for r in reports),
        damaged=sum(r.damaged_events for r in reports),
        largest=largest(reports),
        next_seq=record.next_seq,
    )
