"""Reads a published table: its mirror or its change log, now or as it was, whatever other readers can do.

The rows come as they are stored, without those that deletion vectors delete. One version of the table is read, whatever
is committed meanwhile.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from engine.base.errors import DestinationError, SpecError, unknown_tables
from engine.base.store_errors import StoreAccessError, StoreAwayError
from engine.base.wording import shell_word
from engine.capture.landing import Landing, MirrorReader, TableVersion, reader_of
from engine.decode.schema import Table
from engine.explore.copy_notices import copy_notice
from engine.explore.queries import landing_of, published_tables
from engine.ledger.store import Ledger
from engine.pipeline.directory import Directory, directory_of
from engine.pipeline.remote_state.operator_copy import refresh
from engine.pipeline.remote_state.place import note_state
from engine.pipeline.remote_state.spec_url import local_spec
from engine.spec.settings import Spec, load
from engine.spec.sink_settings import TableFormat, require_format

_LOG = "__changes"


@dataclass(frozen=True)
class VersionRows:
    """The rows of one version of a published table."""

    name: str
    """The table, as it was asked for."""
    _version: TableVersion
    notice: str = ""
    """That the table is not copied yet, and how far it is, or that it is being resnapshotted; empty if it is copied."""

    @property
    def schema(self) -> pa.Schema:
        """Its columns."""
        return self._version.schema

    @property
    def version(self) -> int:
        """The destination's number of the version."""
        return self._version.version

    def batches(self, limit: int | None = None) -> Iterator[pa.Table]:
        """Batches of a bounded size, in no order; at most `limit` rows. Raises DestinationError if a file is gone."""
        budget = limit
        try:
            for batch in self._version.batches(self.schema.names):
                part = batch if budget is None else batch.slice(0, budget)
                if part.num_rows:
                    yield part
                budget = None if budget is None else budget - part.num_rows
                if budget == 0:
                    return
        except (StoreAwayError, StoreAccessError):
            raise
        except OSError as error:
            raise DestinationError(
                f"{self.name}: version {self.version} cannot be read: {error}.",
                detail="A file of it is gone. Maintenance deletes files that only versions older than "
                "sink.files_retention need, or than the newest sink.max_versions.",
                hint="Read a newer version. If it is the newest, resnapshot the table: tidemark redump SPEC --table "
                f"{self.name.removesuffix(_LOG)}",
            ) from error

    def table(self, limit: int | None = None) -> pa.Table:
        """All rows in memory, or at most `limit`."""
        return pa.concat_tables([self.schema.empty_table(), *self.batches(limit)])


def read(
    spec: str | Path,
    table: str,
    *,
    as_of: datetime | None = None,
    limit: int | None = None,
    table_format: TableFormat = "delta",
) -> pa.Table:
    """The rows of a table of a pipeline as Arrow: `read("shop.toml", "shop.orders")`.

    Those of its change log: `"shop.orders__changes"`.

    as_of: the table as readers saw it at that time; without a time zone, in UTC. table_format: whose readers. A table
    that is not copied yet lacks rows, or has none: a UserWarning says so, and how far the copy is. Raises SpecError for
    a table that the pipeline does not have, that did not exist then, or that is not published in the format;
    DestinationError for one that cannot be read.
    """
    spec_file = local_spec(Path(spec))
    loaded = load(spec_file)
    directory = directory_of(spec_file, loaded.name)
    note_state(directory, loaded.state)
    refresh(directory)
    rows = opened(loaded, directory, table, as_of, table_format)
    if rows.notice:
        warnings.warn(rows.notice, stacklevel=2)
    return rows.table(limit)


def opened(
    spec: Spec, directory: Directory, name: str, as_of: datetime | None = None, table_format: TableFormat = "delta"
) -> VersionRows:
    """The newest version of a table, or that of a time.

    name: with `__changes` at its end, the change log. Raises as `read`.
    """
    spec.sink.require_mirrors("This read")
    state, table = Ledger(directory.ledger).state, name.removesuffix(_LOG)
    if state is not None and (unbegun := state.tables.get(name) or state.tables.get(table)) and not unbegun.begun:
        raise SpecError(
            f"{name} has no rows: the table stopped before its copy began.",
            detail="Nothing was read.",
            hint=unbegun.stopped.hint if unbegun.stopped else "`tidemark status SPEC` says how far it is.",
        )
    tables = published_tables(directory)
    named_table, _ = _named(name, tables)
    require_format(spec.sink, table_format, named_table.database, named_table.name)
    reading = reading_of(landing_of(spec.sink, table_format), tables, name, as_of)
    if state is None or (table_state := state.tables.get(name) or state.tables.get(table)) is None:
        return reading
    return replace(reading, notice=copy_notice(name, table_state, changes=name not in state.tables))


def reading_of(landing: Landing, tables: Sequence[Table], name: str, as_of: datetime | None = None) -> VersionRows:
    """As `opened`, of the published tables in a destination."""
    table, changes = _named(name, tables)
    reader = reader_of(landing, table)
    if as_of is not None and as_of.tzinfo is None:
        as_of = as_of.replace(tzinfo=UTC)
    try:
        version = reader.log(as_of) if changes else reader.mirror(as_of)
        if version is None:
            raise _not_there(name, table, reader, as_of, reader.log() if changes else reader.mirror())
    except (StoreAwayError, StoreAccessError):
        raise
    except reader.unreadable as error:
        raise DestinationError(
            f"{name} cannot be read{f' as of {as_of}' if as_of else ''}: {error}.",
            detail="That version is gone, or it is damaged.",
            hint="Ask for a later time. For the newest version: tidemark verify SPEC says what is wrong with it.",
        ) from error
    return VersionRows(name, version)


def _not_there(
    name: str, table: Table, reader: MirrorReader, as_of: datetime | None, newest: TableVersion | None
) -> SpecError:
    if as_of is not None and newest is not None:
        created = f"{newest.created_at:%Y-%m-%d %H:%M:%S %Z}"
        return SpecError(
            f"{name} did not exist at {as_of:%Y-%m-%d %H:%M:%S %Z}: it was created at {created}.",
            detail="Nothing was read.",
            hint="Ask for a later time.",
        )
    if name != table.full_name:
        return SpecError(
            f"{name} is not there: its folder is gone, or no epoch has created it yet.",
            detail="Nothing was read.",
            hint="`tidemark status SPEC` says whether the table streams. If its folder was moved away, put it back, or "
            f"resnapshot the table: tidemark redump SPEC --table {shell_word(table.full_name)}",
        )
    if table.key:
        return SpecError(
            f"{name} is not in {reader.place}: its folder is gone, or its first copy is not complete.",
            detail="Nothing was read.",
            hint="`tidemark status SPEC` says which. If the folder was moved away, put it back, or resnapshot the "
            f"table: tidemark redump SPEC --table {shell_word(name)}",
        )
    return SpecError(
        f"{name} is not in {reader.place}.",
        detail="A table without a key has only a change log.",
        hint=f"Read the change log: {table.full_name}{_LOG}",
    )


def _named(name: str, tables: Sequence[Table]) -> tuple[Table, bool]:
    """The table with this name, and whether its change log is meant."""
    by_name = {table.full_name: table for table in tables}
    if name in by_name:
        return by_name[name], False
    base = name.removesuffix(_LOG)
    with suppress(KeyError):
        return by_name[base], base != name
    raise unknown_tables([name], by_name, "Nothing was read.")
