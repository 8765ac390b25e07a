"""The likely cause of each difference, from the change log and the mirror's history.

Let S be the source's row, M the mirror's, and L the newest image of the key in the change log, each perhaps absent.

    L = S, M another       the mirror lost it: another program wrote to the mirror, or a file was put back
    L = M, S another       the source changed without an event in its binlog after L
    no L, M as copied      the same, since the copy
    M = an earlier image   the mirror is stale since that image
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from engine.capture.chunk.backfill import among
from engine.capture.landing import Commit, MirrorReader, TableVersion
from engine.decode.arrow_schema import conformed
from engine.decode.images import GONE
from engine.decode.schema import TM_KIND, TM_POSITION, TM_SEQ, Table
from engine.pipeline.verification_records import Difference
from engine.plan.named import identities
from engine.verify.rows import plain
from engine.verify.settling import one_of
from engine.verify.table_check import key_texts

_MOST_LOG_BYTES = 2 << 30
"""A longer change log is not searched."""
_MOST_COMMITS = 20
_UNLOGGED = (
    "the source changed without an event in its binlog{since}: "
    "sql_log_bin=0, a cascade that the server does not log, or a filter"
)
Key = tuple[str, ...]
MirrorRow = Mapping[str, Any] | None


@dataclass(frozen=True)
class _Image:
    row: MirrorRow
    """None for a deletion."""
    position: str


def explained(
    differences: Sequence[Difference],
    table: Table,
    schema: pa.Schema,
    mirror: TableVersion,
    reader: MirrorReader,
    keys: Sequence[Key],
    *,
    names_writers: bool = True,
) -> list[Difference]:
    """The differences with their causes.

    schema: of the published rows. reader: of the change log; the mirror may be another destination's. keys: the
    differences' keys; all can name rows. names_writers: whether the mirror names the programs that write to it.
    """
    key_rows = identities(table, keys)
    log = reader.log()
    images = {} if log is None else _images(table, schema, log, key_rows)
    changed, unread = _changed_by_others(table, schema, mirror, reader, key_rows)
    explanations = []
    for one in differences:
        cause = _cause(one, images.get(one.key, []), changed.get(one.key), names_writers=names_writers)
        if unread is not None and one.key not in changed and one.key not in images:
            cause = f"perhaps {_written(unread)}, whose files are vacuumed; else {cause}"
        explanations.append(replace(one, cause=cause))
    return explanations


def _written(commit: Commit) -> str:
    at = datetime.fromtimestamp(commit.at_s, UTC)
    did = f"{commit.operation}, {at:%Y-%m-%d %H:%M:%S} UTC"
    return f"{commit.author} wrote to the mirror: version {commit.version} ({did})"


def _cause(one: Difference, images: Sequence[_Image], foreign: Commit | None, *, names_writers: bool) -> str:
    if foreign is not None:
        return _written(foreign)
    if one.kind == "duplicate":
        return "rows were added to the mirror by something else than Tidemark"
    if not images:
        unlogged = _UNLOGGED.format(since=" since the copy")
        if not names_writers:
            return f"something else changed the mirror, or {unlogged}"
        return f"the change log never had it; {unlogged}" if one.kind == "extra" else unlogged
    last = images[-1]
    if last.row == one.mirror:
        return _UNLOGGED.format(since=f" after {last.position}")
    earlier = next((image for image in reversed(images[:-1]) if image.row == one.mirror), None)
    if earlier is not None and one.mirror is not None:
        reason = f"the mirror is stale since {earlier.position}: it has an earlier state of the row"
    elif last.row == one.source:
        reason = f"something else changed the mirror: it has not the row that the change log has ({last.position})"
    else:
        reason = f"neither side has the newest row of the change log ({last.position})"
    return reason


def _images(table: Table, schema: pa.Schema, log: TableVersion, key_rows: pa.Table) -> dict[Key, list[_Image]]:
    """The images of these keys in the change log, in order."""
    if log.size()[1] > _MOST_LOG_BYTES:
        return {}
    columns = [*schema.names, TM_KIND, TM_POSITION, TM_SEQ]
    batches = []
    for batch in log.batches(columns, one_of(key_rows)):
        keys = conformed(batch, key_rows.schema)
        batches.append(batch.filter(pa.array(among(keys, key_rows))))
    out: dict[Key, list[_Image]] = {}
    for batch in batches and [pa.concat_tables(batches, promote_options="permissive").sort_by(TM_SEQ)]:
        rows = plain(conformed(batch, schema))
        kinds, positions = batch[TM_KIND].to_pylist(), batch[TM_POSITION].to_pylist()
        for key, row, kind, position in zip(_texts(table, batch, key_rows), rows, kinds, positions, strict=True):
            out.setdefault(key, []).append(_Image(None if kind in GONE else row, str(position)))
    return out


def _changed_by_others(
    table: Table, schema: pa.Schema, mirror: TableVersion, reader: MirrorReader, key_rows: pa.Table
) -> tuple[dict[Key, Commit], Commit | None]:
    """By key, the newest commit of another program that changed its row.

    Also returns the newest one that cannot be read any more.
    """
    commits: dict[Key, Commit] = {}
    unread: Commit | None = None
    failures: tuple[type[Exception], ...] = (*reader.unreadable, ValueError)  # ValueError: a version's log is gone
    for commit in mirror.foreign_commits(_MOST_COMMITS):
        sides = [side for n in (commit.version - 1, commit.version) if (side := mirror.at(n)) is not None]
        try:
            before, after = (dict(_rows(table, schema, side, key_rows)) for side in sides)
        except failures:
            unread = unread or commit
            continue
        for key in before.keys() | after.keys():
            if before.get(key) != after.get(key):
                commits.setdefault(key, commit)
    return commits, unread


def _rows(table: Table, schema: pa.Schema, mirror: TableVersion, key_rows: pa.Table) -> Iterator[tuple[Key, list[Any]]]:
    """The rows of these keys in a version, by key."""
    rows: dict[Key, list[Any]] = {}
    for batch in mirror.batches(schema.names, one_of(key_rows)):
        mirror_rows = conformed(batch, schema)
        mirror_rows = mirror_rows.filter(
            pa.array(among(mirror_rows.select(key_rows.column_names).cast(key_rows.schema), key_rows))
        )
        for key, row in zip(_texts(table, mirror_rows, key_rows), plain(mirror_rows), strict=True):
            rows.setdefault(key, []).append(row)
    yield from rows.items()


def _texts(table: Table, rows: pa.Table, key_rows: pa.Table) -> list[Key]:
    return key_texts(table, conformed(rows, key_rows.schema))
