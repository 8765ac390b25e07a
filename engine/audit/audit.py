"""The audit: change logs compared with the binlog, as another decoder reads it, image for image.

The decoder is the package mysql-replication. It shares no code with `engine.decode`, is used by many, and is slow: it
decodes row by row. What it decodes wrongly is not compared, and counted (`audit_limits`).

    audit_range      the range of the binlog for each table
    audit_sample     a random part of it
    audit_source     the transactions in it, as the package decodes them
    audit_values     both sides' values in one form
    audit_compare    the differences between two batches of images
    audit_table      one table: collects images, and compares them in batches
    audit_result     what comes out

One pass over the binlog serves GROUP tables, or SAMPLE_GROUP of a random part; rows of others are skipped undecoded. A
table's images are collected in batches, and compared with those of its change log up to the same position. So memory is
bounded, however long the range and however many the tables. Nothing is locked, and nothing is written to the source.
"""

from bisect import insort
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

from engine.audit.audit_range import (
    AuditedRange,
    CommittedHistory,
    audited_range,
    begin_later,
    bound_before,
    check_available,
    parsed,
    read_history,
)
from engine.audit.audit_result import MOST_LISTED, AuditResult, ImageDifference, TableAudit
from engine.audit.audit_sample import sampled
from engine.audit.audit_source import LoggedRows, ServerTexts
from engine.audit.audit_table import AuditedTable, first_change, unreadable_log
from engine.base import clock
from engine.base.errors import SourceLostError, SpecError, unknown_tables
from engine.capture.binlog.position_search import Binlog
from engine.capture.landing import MirrorReader, reader_of
from engine.capture.position_order import pack, unpack
from engine.destination.registry import destination_of
from engine.pipeline.directory import Directory
from engine.source.connect import Connection, Endpoint, check_identity, describe, open_connection
from engine.source.endpoint import endpoint_of
from engine.source.positions import Position, binlog_files, current, file_of
from engine.spec.case_folding import spec_on
from engine.spec.settings import Spec

GROUP = 32
"""Tables that are compared in one pass over the binlog: each holds a batch of images, and may hold a file open."""
SAMPLE_GROUP = 128
"""The same for a random part. Tables with images just short of a batch take the most: about 0.4 KiB an image, 200 MiB
in all."""


def audit(
    spec: Spec,
    directory: Directory,
    *,
    start: str | None = None,
    end: str | None = None,
    tables: Sequence[str] = (),
    sample: bool = False,
) -> AuditResult:
    """Compare change logs with the binlog. start, end: positions, FILE:OFFSET. tables: full names; none for all.

    sample: whether to compare only a random part (`audit_sample`).

    Raises SpecError for a table or a position that does not exist, SourceLostError if the server has purged `start`.
    """
    began_s = clock.monotonic_s()
    spec.sink.require_mirrors("An audit")
    history = read_history(directory)
    names = _names(history, tables)
    with closing(open_connection(endpoint_of(spec.source))) as connection:
        server = describe(connection)
        check_identity(history.state.identity, server)
        spec = spec_on(spec, server.names)
        endpoint = replace(endpoint_of(spec.source), identity=server.identity)
        files = binlog_files(connection)
        end_of_log = current(connection, server)
        binlog = Binlog(endpoint, spec.first_server_id(), list(files), end_of_log, server.flavor == "mariadb")
        limits = _limit(binlog, start, "--from"), _limit(binlog, end, "--to")
        outcomes = {name: _readable(spec, audited_range(spec, history, name, files, limits)) for name in names}
        excluded = [TableAudit(name, excluded=why) for name, why in outcomes.items() if isinstance(why, str)]
        ranges = [part for part in outcomes.values() if isinstance(part, AuditedRange)]
        borders = list(history.bounds)
        _require_between(binlog, limits, ranges, borders)
        next_between = partial(_next_between, binlog, borders)
        ranges = [_retained(spec, part, next_between) for part in ranges]
        if sample:
            ranges = sampled(ranges, files, next_between)
        audited, differences = _compared(spec, endpoint, connection, ranges, SAMPLE_GROUP if sample else GROUP)
    results = sorted([*audited, *excluded], key=lambda table: table.table)
    return AuditResult(results, differences, clock.monotonic_s() - began_s, server.identity)


def _limit(binlog: Binlog, text: str | None, option: str) -> Position | None:
    if text is None:
        return None
    position = parsed(text, option)
    if why := check_available(position, binlog.files):
        raise SourceLostError(
            f"{option} {text}: {why}.",
            detail="Nothing was compared. The published data is not affected.",
            hint="Choose a later position, or none: the audit then begins with what the server still has.",
        )
    return position


def _next_between(binlog: Binlog, borders: list[Position], position: Position) -> Position:
    """The first position at or after another that lies between two transactions.

    The result becomes one of the borders.
    """
    border = binlog.next_between(position, bound_before(borders, position))
    insort(borders, border, key=lambda one: one.order)
    return border


def _require_between(
    binlog: Binlog,
    limits: tuple[Position | None, Position | None],
    ranges: Sequence[AuditedRange],
    borders: Sequence[Position],
) -> None:
    """Raises SpecError for a position within a transaction; not if all ranges begin later, or end before."""
    used = {part.start for part in ranges} | {part.end for part in ranges}
    for position, option in zip(limits, ("--from", "--to"), strict=True):
        if position in used and not binlog.is_between(position, bound_before(borders, position)):
            raise SpecError(
                f"{option} {position} is not a position between two transactions.",
                hint="`tidemark status` shows the committed position; SHOW BINLOG EVENTS lists others.",
            )


def _names(history: CommittedHistory, tables: Sequence[str]) -> list[str]:
    if unknown := [name for name in tables if name not in history.state.tables]:
        raise unknown_tables(unknown, history.state.tables)
    return sorted(set(tables) or history.state.tables)


def _retained(spec: Spec, part: AuditedRange, next_between: Callable[[Position], Position]) -> AuditedRange:
    """The range.

    It begins after the changes that retention has deleted, and after the transaction of the first one left.
    """
    if spec.sink.changes_retention_s is None:
        return part
    for order in first_change(_reader(spec, part).ordered_changes(), part):
        number, offset = unpack(order)
        position = min(Position(file_of(number, part.end.file), offset), part.end, key=lambda one: one.order)
        if position.order > part.start.order:
            position = next_between(position)
        return begin_later(part, position, "earlier changes may have been deleted (sink.changes_retention)")
    return part


def _reader(spec: Spec, part: AuditedRange) -> MirrorReader:
    return reader_of(destination_of(spec.sink).landing, part.table)


def _readable(spec: Spec, outcome: AuditedRange | str) -> AuditedRange | str:
    """The range, or why nothing of its table can be compared."""
    if isinstance(outcome, str):
        return outcome
    defect = _reader(spec, outcome).log_defect()
    return unreadable_log(defect) if defect else outcome


def _compared(
    spec: Spec, endpoint: Endpoint, connection: Connection, ranges: Sequence[AuditedRange], group: int
) -> tuple[list[TableAudit], list[ImageDifference]]:
    """Compare all tables. Returns what was compared, and the first differences. group: tables per pass."""
    results, listed, waiting = list[TableAudit](), list[ImageDifference](), list[AuditedRange]()
    for part in ranges:
        if part.start.order < part.end.order:
            waiting.append(part)
        else:
            idle = TableAudit(part.table.full_name, start=str(part.start), end=str(part.end), notes=part.notes)
            results.append(idle)
    texts = ServerTexts(connection)
    for n in range(0, len(waiting), group):
        audits, differences = _pass(spec, endpoint, texts, waiting[n : n + group])
        results += audits
        listed += differences[: MOST_LISTED - len(listed)]
    return results, listed


def _pass(
    spec: Spec, endpoint: Endpoint, texts: ServerTexts, ranges: Sequence[AuditedRange]
) -> tuple[list[TableAudit], list[ImageDifference]]:
    """Compare some tables in one pass over the binlog."""
    begin = min((part.start for part in ranges), key=lambda position: position.order)
    end = max((part.end for part in ranges), key=lambda position: position.order)
    tables = {(part.table.database, part.table.name): part.table for part in ranges}
    logged = LoggedRows(endpoint, spec.first_server_id(), tables, begin, end)
    readers = [(part, _reader(spec, part)) for part in ranges]
    each = [
        AuditedTable(part, reader.ordered_changes(), texts, logged.frames, reader.unreadable)
        for part, reader in readers
    ]
    audited = {one.name: one for one in each}
    for rows in logged:
        for part in rows:
            audited[part.table].feed(part)
        for name in {part.table for part in rows}:
            audited[name].compare()
    results = []
    for one in each:
        one.compare(pack(*one.range.end.order))
        results.append(one.result(logged.unsure))
    return results, [difference for one in each for difference in one.listed]
