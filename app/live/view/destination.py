"""The tables in the destination: what they hold, what merging them costs, and what maintenance does."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from app.common.view import words
from engine.explore.destination_sizes import TableSizes
from engine.history.maintenance_queries import Space, WrittenBytes

STEPS = {
    "optimize": "rewrite mirror files",
    "compact": "merge change log files",
    "expire": "remove old changes",
    "vacuum": "delete old files",
}


def row(one: TableSizes, work: WrittenBytes | None, now: datetime, page: str = "") -> dict[str, Any]:
    """The cells of a table. page: the address of its page, if that is to be linked."""
    cells: dict[str, Any] = {"Table": one.table} | ({"Page": page} if page else {})
    if (sizes := one.sizes) is None:
        return {**cells, "Due": one.error}
    amplification = work.amplification if work else None
    return {
        **cells,
        "Merging": "on read"
        if sizes.on_read
        else "on write"
        if sizes.mirror_files or sizes.mirror_bytes
        else words.NOTHING,
        "Mirror": words.size(sizes.mirror_bytes),
        "Files": f"{sizes.mirror_files:,}",
        "Deleted rows": f"{sizes.deleted_rows:,}" if sizes.on_read else words.NOTHING,
        "Change log": words.size(sizes.changes_bytes),
        "Log files": f"{sizes.changes_files:,}",
        "Old files": words.size(sizes.old_bytes),
        **({"Iceberg": _in_step(one)} if one.formats else {}),
        "Written": words.NOTHING if amplification is None else f"{amplification:,.1f} ×",
        "Merged": _ago(work.merged if work else None, now),
        "Maintained": _ago(work.maintained if work else None, now),
        "Due": ", ".join(STEPS[step] for step in one.due) or "nothing",
    }


def _in_step(one: TableSizes) -> str:
    """`v3, in step`, `v3, 3 versions behind`: of the mirror and the change log, the one that lacks more."""
    version = one.formats[0].format.removeprefix("Iceberg ")
    if any(published.version is None for published in one.formats):
        return f"{version}, not published"
    most = max(published.missing_versions for published in one.formats)
    text = f"{version}, {words.plural(most, 'version')} behind" if most else f"{version}, in step"
    return f"{text}; {_in_catalog(one)}" if one.formats[0].catalog else text


def _in_catalog(one: TableSizes) -> str:
    """`in the catalog as shop.orders`, or what is wrong there."""
    entries = [(published, published.catalog) for published in one.formats if published.catalog is not None]
    if fault := next((entry.fault for _, entry in entries if entry.fault), ""):
        return fault
    if any(entry.version is None for _, entry in entries):
        return "not in the catalog"
    late = any((entry.version or 0) < (published.version or 0) for published, entry in entries)
    return f"{'the catalog has an earlier version of' if late else 'in the catalog as'} {entries[0][1].name}"


def _ago(at: datetime | None, now: datetime) -> str:
    return words.NOTHING if at is None else f"{words.duration(max((now - at).total_seconds(), 0.0))} ago"


def read_at(at: datetime | None, now: datetime, *, current: bool | None = None) -> str:
    """When sizes were read. current: whether the Delta logs have had no newer version since; None if nobody looked."""
    text = f"read {words.time_of_day(at)}, {_ago(at, now)}"
    if current is None:
        return text
    return f"{text}; the Delta logs have {'no newer version' if current else 'a newer version, which is being read'}"


def disk(space: Space, now: datetime) -> str:
    """`74 GB of 252 GB free · grows 1.2 GB a day · full in 61 d 16 h · measured 20 s ago`."""
    parts = [f"{words.size(space.free_bytes)} of {words.size(space.total_bytes)} free"]
    growth = space.growth_per_day
    if growth is None:
        parts.append("a forecast needs an hour of measurements")
    elif growth > 0:
        parts.append(f"grows {words.size(growth)} a day, by the last day")
    else:
        parts.append("does not grow")
    if space.full_in_s is not None:
        parts.append(f"full in {words.duration(space.full_in_s)}")
    return " · ".join([*parts, f"measured {_ago(space.ts, now)}"])


def sums(tables: Sequence[TableSizes], works: Mapping[str, WrittenBytes]) -> str:
    """`4 tables · mirrors 1.2 GB · change logs 300 MB · old files 80 MB · merges wrote 6.1 × the changes in 24 h`."""
    sizes = [one.sizes for one in tables if one.sizes is not None]
    parts = [
        words.plural(len(tables), "table"),
        f"mirrors {words.size(sum(one.mirror_bytes for one in sizes))}",
        f"change logs {words.size(sum(one.changes_bytes for one in sizes))}",
        f"old files {words.size(sum(one.old_bytes for one in sizes))}",
    ]
    changed_bytes = sum(work.changed_bytes for work in works.values())
    if changed_bytes:
        written_bytes = sum(work.merged_bytes + work.maintained_bytes for work in works.values())
        parts.append(f"{written_bytes / changed_bytes:,.1f} × the changes written in 24 h")
    return " · ".join(parts)
