"""Converts a journal line to rows of the index's tables: the edge at which the index reads JSON. Pure.

A field with an unexpected type becomes NULL, never an error: the index must cope with journals of older and newer
engines. `event` keeps the line as it was written.
"""

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from engine.history.index_schema import CHANGE_KINDS, FRESHNESS
from engine.history.journal_slices import SliceLine, naive_utc

TableRow = dict[str, Any]
Placed = tuple[str, TableRow]
"""A table's name and a row of it."""
_OFFSETS = 1 << 42
"""More bytes than a binlog file can have."""


def rows_of(pipeline: str, line: SliceLine) -> Iterator[Placed]:
    """All rows of one line."""
    key: TableRow = {"pipeline": pipeline, "run": line.run, "seq": line.seq, "ts": line.ts}
    if line.event != "source.lag":
        table = _text(line.body.get("table"))
        yield "event", {**key, "event": line.event, "tbl": table, "body": line.text}
    mapper = _MAPPERS.get(line.event)
    if mapper is not None:
        for name, row in mapper(line.body):
            yield name, {**key, **row}


def _begun(_: TableRow) -> Iterator[Placed]:
    yield "begun", {}


def _stated(body: TableRow) -> Iterator[Placed]:
    yield (
        "stated",
        {"tbl": _text(body.get("table")), **{name: _text(body.get(name)) for name in ("state", "reason", "hint")}},
    )


def _parked(body: TableRow) -> Iterator[Placed]:
    yield "parked", {"tbl": _text(body.get("table")), "chunk": _int(body.get("chunk"))}


def _planned(body: TableRow) -> Iterator[Placed]:
    table, chunks = _text(body.get("table")), _list(body.get("chunks"))
    yield (
        "planned",
        {
            "tbl": table,
            "approx_rows": _int(body.get("approx_rows")),
            "chunk_key": ", ".join(str(column) for column in _list(body.get("chunk_key"))),
            "min": _text(body.get("min")),
            "max": _text(body.get("max")),
            "factor": _float(body.get("distribution_factor")),
            "strategy": _text(body.get("strategy")),
            "reason": _text(body.get("reason")),
            "chunks": len(chunks),
            "chunk_rows": _int(body.get("chunk_rows")),
            "estimated_chunks": _int(body.get("estimated_chunks")),
        },
    )
    for index, bounds in enumerate(chunks):
        lower, upper = [*_list(bounds), None, None][:2]
        row = {"tbl": table, "chunk": index, "lower": _text(lower), "upper": _text(upper), "parent": None}
        yield "planned_chunk", row


def _split(body: TableRow) -> Iterator[Placed]:
    table, parent = _text(body.get("table")), _int(body.get("parent"))
    items = ([*_list(item), None, None, None][:3] for item in _list(body.get("chunks")))
    bounds = {_int(number): (lower, upper) for number, lower, upper in items}
    for number, (lower, upper) in bounds.items():
        if number is not None:
            row = {"tbl": table, "chunk": number, "lower": _text(lower), "upper": _text(upper), "parent": parent}
            yield "planned_chunk", row
    yield "split", {"tbl": table, "complete": int(body.get("complete") is True)}


def _resumed(body: TableRow) -> Iterator[Placed]:
    for ends in _list(body.get("chunks")):
        first, last = [*_list(ends), None, None][:2]
        yield "resumed", {"tbl": _text(body.get("table")), "first": _int(first), "last": _int(last)}


def _assigned(body: TableRow) -> Iterator[Placed]:
    for chunk in _list(body.get("chunks")):
        yield "assigned", {"tbl": _text(body.get("table")), "chunk": _int(chunk), "grp": _text(body.get("group"))}


def _failed(body: TableRow) -> Iterator[Placed]:
    for chunk in _list(body.get("chunks")):
        yield (
            "failed",
            {
                "tbl": _text(body.get("table")),
                "chunk": _int(chunk),
                "grp": _text(body.get("group")),
                "error": _text(body.get("error")),
                "message": _text(body.get("message")),
                "attempt": _int(body.get("attempt")),
                "retry_in_s": _float(body.get("retry_in_s")),
            },
        )


def _finished(body: TableRow) -> Iterator[Placed]:
    row: TableRow = {
        name: _text(body.get(name)) for name in ("lower", "upper", "low", "high", "file", "reader", "host")
    }
    row |= {name: _int(body.get(name)) for name in ("chunk", "gap_bytes", "rows", "bytes", "pid", "attempt")}
    row |= {name: _time(body.get(name)) for name in ("started", "ended")}
    backfill, timings = _dict(body.get("backfill")), _dict(body.get("timings"))
    row |= {f"backfill_{name}": _int(backfill.get(name)) for name in ("changes", "deleted", "upserted")}
    row |= {f"{name}_s": _float(timings.get(name)) for name in ("low", "read", "high", "backfill", "write")}
    row["high_at"] = place_of(row["high"])
    yield "finished", {**row, "tbl": _text(body.get("table")), "grp": _text(body.get("group"))}


def _epoch(body: TableRow) -> Iterator[Placed]:
    timings, again = _dict(body.get("timings")), _dict(body.get("redumped"))
    redumped = {table: [_int(n) or 0 for n in _list(kinds)] for table, kinds in again.items()}
    every = _int(body.get("changes"))
    yield (
        "epoch",
        {
            "epoch": _int(body.get("epoch")),
            **{name: _text(body.get(name)) for name in ("from_position", "to_position", "reader")},
            **{name: _int(body.get(name)) for name in ("transactions", "bytes")},
            "changes": None if every is None else every - sum(map(sum, redumped.values())),
            "to_at": place_of(body.get("to_position")),
            "read_s": _float(timings.get("read")),
            "commit_s": _float(timings.get("commit")),
        },
    )
    by_kind = _dict(body.get("table_kinds"))
    for table, changes in _dict(body.get("tables")).items():
        kinds = [*_list(by_kind.get(table)), None, None, None, None][:4]
        own = [*redumped.get(table, ()), 0, 0, 0, 0][:4]
        row = {"tbl": table, "epoch": _int(body.get("epoch")), "changes": _int(changes), "redumped": sum(own)}
        counts = [None if (n := _int(kind)) is None else n - less for kind, less in zip(kinds, own, strict=True)]
        yield "changed", row | dict(zip(CHANGE_KINDS, counts, strict=True))


def _applied(body: TableRow) -> Iterator[Placed]:
    row = {"tbl": _text(body.get("table")), "kind": _text(body.get("kind"))}
    yield "applied", row | {"through_epoch": _int(body.get("through_epoch"))}


def place_of(position: object) -> int | None:
    """`file:offset` as a number that orders positions: the file's number, then the offset."""
    if not isinstance(position, str):
        return None
    file, _, offset = position.rpartition(":")
    number = file.rpartition(".")[2]
    if not (number.isascii() and number.isdigit() and offset.isascii() and offset.isdigit()):
        return None
    return _int(int(number) * _OFFSETS + int(offset))


def _lag(body: TableRow) -> Iterator[Placed]:
    yield (
        "lag",
        {
            "position": _text(body.get("position")),
            "source_position": _text(body.get("source_position")),
            "lag_s": _float(body.get("lag_s")),
            "lag_bytes": _int(body.get("lag_bytes")),
            "runway_s": _float(body.get("runway_s")),
            "mirror_age_s": _float(body.get("mirror_age_s")),
            **_freshness(body),
        },
    )


def _freshness(body: TableRow) -> TableRow:
    row: TableRow = {}
    for column in FRESHNESS:
        place, percentile, _ = column.split("_")
        measured = body.get(f"{place}_freshness")
        row[column] = _float(measured.get(percentile)) if isinstance(measured, dict) else None
    return row


_MAPPERS: dict[str, Callable[[TableRow], Iterator[Placed]]] = {
    "run.started": _begun,
    "table.state": _stated,
    "chunk.parked": _parked,
    "table.planned": _planned,
    "chunk.planned": _split,
    "table.resumed": _resumed,
    "chunk.assigned": _assigned,
    "chunk.failed": _failed,
    "chunk.finished": _finished,
    "epoch.committed": _epoch,
    "sink.applied": _applied,
    "source.lag": _lag,
}


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def _int(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not -(2**63) <= value < 2**63:
        return None
    return int(value)


def _float(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and abs(value) < 1e300 else None


def _time(value: object) -> datetime | None:
    try:
        return naive_utc(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
