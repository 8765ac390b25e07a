"""Differences row by row, for people: keys and values as JSON can have them."""

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import pyarrow as pa

from engine.base import clock
from engine.decode.schema import Table
from engine.destination.capabilities import DifferenceRow, KeepsDifferences
from engine.destination.destination_protocol import Destination
from engine.pipeline.verification_records import Difference
from engine.verify.comparison import RowComparison, unequal_columns
from engine.verify.table_check import TableFindings, key_texts
from engine.verify.verdicts import MOST_LISTED, TableResult


def differences_of(findings: TableFindings, table: Table) -> list[Difference]:
    """The first differences, at most `MOST_LISTED`."""
    return list(islice(_all(findings, table), MOST_LISTED))


def _all(findings: TableFindings, table: Table) -> Iterator[Difference]:
    for part, compared in findings.differences:
        chunk = None if part is None else findings.parts[part].chunk
        yield from (replace(one, chunk=chunk) for one in _differences(compared, table))


def _differences(compared: RowComparison, table: Table) -> Iterator[Difference]:
    for key, row in _rows(compared.missing, table):
        yield Difference("missing", key, source=row)
    for key, row in _rows(compared.extra, table):
        yield Difference("extra", key, mirror=row)
    listed = compared.source.slice(0, MOST_LISTED), compared.mirror.slice(0, MOST_LISTED)
    columns = unequal_columns(*listed)
    pairs = zip(_rows(listed[0], table), _rows(listed[1], table), columns, strict=True)
    for (key, source), (_, mirror), names in pairs:
        yield Difference("different", key, tuple(names), source=source, mirror=mirror)
    for key, row in _rows(compared.duplicate, table):
        yield Difference("duplicate", key, mirror=row)


def _rows(rows: pa.Table, table: Table) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    listed = rows.slice(0, MOST_LISTED)
    yield from zip(key_texts(table, listed), plain(listed), strict=True)


def plain(rows: pa.Table) -> list[dict[str, Any]]:
    """Rows as JSON can have them: exact numbers and times as text, binaries as Base64."""
    columns = {name: _plain(rows[name]) for name in rows.column_names}
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _plain(values: pa.ChunkedArray) -> list[Any]:
    if pa.types.is_temporal(values.type) or pa.types.is_decimal(values.type):
        return list(values.cast(pa.string()).to_pylist())  # Python has no date before the year 1
    if pa.types.is_binary(values.type):
        return [None if value is None else base64.b64encode(value).decode() for value in values.to_pylist()]
    return list(values.to_pylist())


def keep_differences(destination: Destination, differences: Sequence[Difference], result: TableResult) -> None:
    """Keep differences of a result in the destination, if it keeps any."""
    if isinstance(destination, KeepsDifferences):
        destination.keep_differences([_kept_row(one, result) for one in differences])


def _kept_row(one: Difference, result: TableResult) -> DifferenceRow:
    """A difference as its destination keeps it for readers."""
    source, mirror = (None if row is None else json.dumps(row, ensure_ascii=False) for row in (one.source, one.mirror))
    return DifferenceRow(
        found_at=clock.parse_utc(result.at),
        table=result.table,
        kind=one.kind,
        key=json.dumps(one.key, ensure_ascii=False),
        columns=list(one.columns),
        cause=one.cause,
        source=source,
        mirror=mirror,
        position=result.position or "",
        version=-1 if result.version is None else result.version,
    )
