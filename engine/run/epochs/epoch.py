"""Pure functions for one epoch: binlog ranges, the ledger record and the journal event.

An epoch is one commit: a binlog range, and the chunks that finished meanwhile. `run.lifecycle.coordinator` runs the
loop. It is written to the ledger (`ledger.records.EpochRecord`, `ledger.store`), journalled as `epoch.committed`, and
applied by `destination.publisher`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from engine.base.errors import TidemarkError, stop_of
from engine.capture.binlog.statements import Alteration
from engine.capture.reports import RangeReport, RedumpReport, WrittenChanges
from engine.decode.images import KINDS
from engine.journal.events import EpochCommitted, TableNulled
from engine.ledger.records import ChunkRecord, Description, EpochRecord, ErrorRecord, TableChange
from engine.ledger.state import State, apply, nulled
from engine.pipeline.state_machines import START, TABLE, IllegalEventError, table_events
from engine.run.snapshot.table_copy import Finished
from engine.source.positions import FIRST_OFFSET, Position, file_number, position_from_dict

_PART_BYTES = 64 << 20
"""Bytes of binlog that justify a separate task."""


def split_range(
    files: dict[str, int], start: Position, end: Position, slots: int, known: Position | None = None
) -> list[tuple[Position, Position]]:
    """Split the binlog from `start` to `end` into at most `slots` parts that end where a file begins. Pure.

    files: oldest first, with their bytes. These decide how much a part holds, never where it ends: a file may be larger
    than its last position.

    A part holds at least `_PART_BYTES`, except the last, and may exceed that by one file. The next epoch reads the
    rest: the last part then ends before `end`, but never before the committed position `known`. There are more than
    `slots` parts when `known` lies far behind `start`.
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
            if len(parts) >= slots and (known is None or begin.order >= known.order):
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
    tables: dict[str, TableChange] = {name: {"stopped": error} for name, error in stopped.items()}
    for name, since in new_chunks.items():
        tables.setdefault(name, {})["split"] = since
    for f in frozen:
        chunk: ChunkRecord = {
            "chunk": f.report.chunk,
            "exact": f.high.as_dict(),
            "files": [file.as_dict() for file in f.files],
            "rows": f.report.rows,
            "nulled": dict(f.report.nulled_dates),
        }
        tables.setdefault(f.table, {}).setdefault("chunks", []).append(chunk)
    for part in redumped:
        if part.table not in stopped:
            _add_changes(tables.setdefault(part.table, {}), part.changes)
    newly = _add_reports(tables, reports, stopped)
    for name, change in verdicts.items():
        if name not in stopped and name not in newly:
            tables.setdefault(name, {}).update(change)
    for change in tables.values():
        if "stopped" in change or "resnapshot" in change:
            # Chunks are exact only at their high watermarks, maybe after the table's stop: a moved row could appear
            # twice.
            change.pop("chunks", None)
        if "resnapshot" in change:
            change.pop("split", None)
    return tables, newly


def completed(state: State, record: EpochRecord) -> EpochRecord:
    """The record, with `copied` set for each table whose last chunk it contains.

    Raises IllegalEventError on a transition that `state_machines.TABLE` does not allow; the epoch must not be committed
    then.
    """
    after = apply(state, record)
    for name, change in record["tables"].items():
        before, now = state.known(name), after.known(name)
        was, becomes = before.state if before else START, now.state if now else START
        if before and now and "chunks" in change and now.copied and not before.copied:
            change["copied"] = True
        if TABLE.after_all(was, table_events(was, change)) != becomes:
            raise IllegalEventError(f"{name} was {was or 'not there'} and would be {becomes} without a matching event.")
    return record


def _add_reports(
    tables: dict[str, TableChange], reports: Sequence[RangeReport], stopped: dict[str, ErrorRecord]
) -> dict[str, TidemarkError]:
    newly: dict[str, TidemarkError] = {}
    for report in reports:
        for name, changes in report.tables.items():
            if name not in stopped and name not in newly:  # a table that stopped in an earlier part has ended
                _add_changes(tables.setdefault(name, {}), changes)
        for name, error in report.stop_errors.items():
            if name not in stopped and name not in newly:
                newly[name] = error
                tables.setdefault(name, {})["stopped"] = stop_of(error, name)
    return newly


def _add_changes(change: TableChange, written: WrittenChanges) -> None:
    changes = change.setdefault("changes", {"files": [], "kinds": [0, 0, 0, 0], "nulled": {}})
    changes["files"] += [file.as_dict() for file in written.files]
    changes["nulled"] = dict(Counter(changes["nulled"]) + Counter(written.nulled_dates))
    changes["kinds"] = [a + b for a, b in zip(changes["kinds"], written.kinds, strict=True)]


def _summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sum of the counts, by name."""
    return dict(sum(map(Counter, counts), Counter[str]()))


def epoch_facts(reports: Sequence[RangeReport], before: Description | None) -> Description:
    """Epoch-wide facts for the record: unknown events, and the largest transaction if it exceeds `before`."""
    unknown, most = _summed(report.unknown_events for report in reports), largest(reports)
    facts: Description = {"unknown": unknown} if unknown else {}
    if most is not None and (before is None or most["bytes"] > before["bytes"]):
        facts["largest"] = most
    return facts


def largest(reports: Sequence[RangeReport]) -> Description | None:
    """The largest transaction of an epoch, by bytes; None without transactions."""
    return max((r.largest for r in reports if r.largest), key=lambda t: int(t["bytes"]), default=None)


def _redumped(record: EpochRecord, parts: Sequence[RedumpReport]) -> dict[str, list[int]]:
    """The changes of redumps that the record has, by table."""
    found: dict[str, list[int]] = {}
    for part in parts:
        if "changes" in record["tables"].get(part.table, {}):
            before = found.get(part.table, [0, 0, 0, 0])
            found[part.table] = [a + b for a, b in zip(before, part.changes.kinds, strict=True)]
    return found


def dates_nulled(record: EpochRecord) -> list[TableNulled]:
    """The tables of an epoch that have dates which became NULL, for the journal."""
    found = ((name, nulled(change)) for name, change in record["tables"].items())
    return [TableNulled(table=name, columns=columns) for name, columns in found if columns]


def committed(
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
    changes = {name: sum(t["changes"]["kinds"]) for name, t in record["tables"].items() if "changes" in t}
    kinds = [
        sum(column)
        for column in zip(*(t["changes"]["kinds"] for t in record["tables"].values() if "changes" in t), strict=True)
    ]
    start, end = position_from_dict(record["from"]), position_from_dict(record["to"])
    return EpochCommitted(
        epoch=record["epoch"],
        from_position=str(start),
        to_position=str(end),
        changes=sum(changes.values()),
        kinds=dict(zip(KINDS, kinds or [0, 0, 0, 0], strict=True)),
        tables=changes,
        redumped=_redumped(record, redumped),
        table_kinds={name: t["changes"]["kinds"] for name, t in record["tables"].items() if "changes" in t},
        transactions=sum(r.transactions for r in reports),
        bytes=sum(r.bytes for r in reports),
        chunks=chunks,
        timings={"read": round(read_s, 6), "commit": round(total_s - read_s, 6)},
        reader=str(reports[0].reader) if reports else None,
        events=_summed(r.events for r in reports),
        unknown=_summed(r.unknown_events for r in reports),
        damaged=sum(r.damaged_events for r in reports),
        largest=largest(reports),
        next_seq=record["next_seq"],
    )
