"""An epoch: which parts of the log it reads, and what the journal says of it. Pure."""

from collections.abc import Sequence
from typing import Any

from engine.capture.tasks import Report
from engine.decode.images import KINDS
from engine.ledger.state import Record
from engine.source.positions import Position, file_number, position_from_dict

_PART_BYTES = 64 << 20
"""Bytes of binlog that are worth a task of their own."""


def cut(files: dict[str, int], start: Position, end: Position, slots: int) -> list[tuple[Position, Position]]:
    """The stretch from `start` to `end` as at most `slots` parts that end where files end; pure.

    A part holds at least `_PART_BYTES` where there is that much, and may hold one file more. What does not fit is left for
    the next epoch: the last part then ends before `end`.
    """
    parts: list[tuple[Position, Position]] = []
    begin, held = start, 0
    if end.order <= start.order:
        return parts
    for name, size in files.items():
        if not file_number(start.file) <= file_number(name) < file_number(end.file):
            continue
        held += size - (start.offset if name == start.file else 0)
        if held >= _PART_BYTES:
            parts.append((begin, Position(name, size)))
            begin, held = Position(name, size), 0
            if len(parts) == slots:
                return parts
    return [*parts, (begin, end)]


def event(record: Record, chunks: int, reports: Sequence[Report], read_s: float, total_s: float) -> dict[str, Any]:
    """The fields of `epoch.committed`. chunks: how many were published with it."""
    changes = {name: sum(t["changes"]["kinds"]) for name, t in record["tables"].items() if "changes" in t}
    kinds = [
        sum(column)
        for column in zip(*(t["changes"]["kinds"] for t in record["tables"].values() if "changes" in t), strict=True)
    ]
    start, end = position_from_dict(record["from"]), position_from_dict(record["to"])
    return {
        "epoch": record["epoch"],
        "from_position": str(start),
        "to_position": str(end),
        "changes": sum(changes.values()),
        "kinds": dict(zip(KINDS, kinds or [0, 0, 0, 0], strict=True)),
        "tables": changes,
        "transactions": sum(r["transactions"] for r in reports),
        "bytes": sum(r["bytes"] for r in reports),
        "chunks": chunks,
        "timings": {"read": round(read_s, 6), "commit": round(total_s - read_s, 6)},
        "reader": f"{reports[0]['host']}:{reports[0]['pid']}" if reports else None,
    }
