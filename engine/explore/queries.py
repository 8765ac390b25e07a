"""SQL over a pipeline's published data.

Mirrors and change logs are views in a DuckDB that can read nothing else, and write nothing.

Three walls stand one behind the other: only one SELECT is run (`one_select`), in a transaction that cannot write, and
files are opened by a file system that cannot write (`read_only_files`).

Every query sees one version of each table, the newest when the query began. Views have the source's names:
`shop.orders`, and `shop.orders__changes` for the change log.
"""

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from tempfile import TemporaryDirectory

import duckdb
import pyarrow as pa

from engine.base import clock
from engine.base.store_errors import StoreAccessError, StoreAwayError
from engine.base.wording import listing
from engine.capture.landing import Landing, MirrorReader, ReadsFormats, TableVersion, VersionFiles, reader_of
from engine.capture.projection.table_projection import published_as
from engine.decode.schema import Table, table_from_dict
from engine.destination.destination_protocol import CHANGES, MERGED_SEQ
from engine.destination.registry import destination_of
from engine.explore.one_select import QueryError, one_select
from engine.explore.query_advice import advice
from engine.explore.read_only_files import ReadOnlyFiles
from engine.ledger.records import NOTHING
from engine.ledger.store import Ledger
from engine.pipeline.directory import Directory
from engine.spec.sink_settings import Sink, TableFormat

MOST_ROWS = 10_000
"""The maximum number of rows in an answer."""
MOST_BYTES = 128 << 20
"""The bytes of an answer: no rows are added beyond them."""
_LOCKED = (
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET memory_limit = '2GB'",
    "SET TimeZone = 'UTC'",
    "SET enable_external_access = false",
    "SET python_enable_replacements = false",
    "SET lock_configuration = true",
)
_MISSING = re.compile(r"Catalog Error: Table with name \"?(.+?)\"? does not exist")
_LINE = re.compile(r"^LINE \d+: (.*)$", re.MULTILINE)
_MOST_NAMES = 8
_FACTS = "_tm_ts, _tm_kind, {columns}, _tm_position, _tm_tx, _tm_redump, _tm_seq"


@dataclass(frozen=True)
class QueryResult:
    """The result of a query."""

    rows: pa.Table
    """The first rows: at most MOST_ROWS, and about MOST_BYTES."""
    more: bool
    """Whether there are more rows."""
    seconds: float


def published_tables(directory: Directory) -> list[Table]:
    """The tables of a pipeline that have, or will have, a destination, as published there."""
    state = Ledger(directory.ledger).state
    table_states = [table for table in state.tables.values() if table.begun] if state else []
    return sorted(
        (published_as(table_from_dict(t.table), t.projection) for t in table_states), key=lambda table: table.full_name
    )


def landing_of(sink: Sink, table_format: TableFormat = "delta", *, in_step: bool = False) -> Landing:
    """Where a pipeline's tables are read, in one of their formats. in_step: as of `ReadsFormats`."""
    landing = destination_of(sink).landing
    return landing.in_format(table_format, in_step=in_step) if isinstance(landing, ReadsFormats) else landing


def await_published(directory: Directory, sink: Sink, table: Table, timeout_s: float = 30.0) -> None:
    """Wait until the table's change log has all current commits. Raises QueryError after `timeout_s`."""
    ledger, deadline_s = Ledger(directory.ledger), clock.monotonic_s() + timeout_s
    assert ledger.state is not None
    owner = ledger.state.owner
    stored = destination_of(sink).table(owner, table)
    with_changes = (r.epoch for r in ledger.kept_epochs() if r.tables.get(table.full_name, NOTHING).changes)
    last_epoch = max(with_changes, default=-1)
    while (applied := max(stored.last_epoch(CHANGES), owner.floor)) < last_epoch:
        if clock.monotonic_s() > deadline_s:
            raise QueryError(
                f"The destination does not have all commits yet: epoch {applied} of {last_epoch}.",
                detail="The table's state at that time is unknown until then.",
                hint="Start the pipeline if it is not running, or try again later.",
            )
        clock.sleep(0.2)


def answer(landing: Landing, tables: Sequence[Table], sql: str, *, timeout_s: float = 60.0) -> QueryResult:
    """Run one query over the tables of a destination. Raises QueryError."""
    began, timed_out = clock.monotonic_s(), threading.Event()
    with TemporaryDirectory(prefix="tidemark-explore-") as spill, closing(duckdb.connect(":memory:")) as connection:

        def interrupt() -> None:
            timed_out.set()
            connection.interrupt()

        timer = threading.Timer(timeout_s, interrupt)
        timer.start()
        try:
            statement = one_select(connection, sql)
            _show(connection, landing, named_in(sql, tables), spill)
            connection.execute("BEGIN TRANSACTION READ ONLY")
            rows, more = _first(connection.sql(statement))
        except duckdb.Error as error:
            raise _failed(error, sql, tables, timeout_s if timed_out.is_set() else None) from error
        finally:
            timer.cancel()
    return QueryResult(rows.slice(0, MOST_ROWS), more, clock.monotonic_s() - began)


def named_in(sql: str, tables: Sequence[Table]) -> list[Table]:
    """The tables that a query may read: it has their names."""
    return [table for table in tables if _within_quotes(table.name) in sql.casefold()]


def _first(result: duckdb.DuckDBPyRelation) -> tuple[pa.Table, bool]:
    """The first rows of a result, and whether there are more."""
    reader = result.to_arrow_reader(2048)
    parts, rows, size = [reader.schema.empty_table()], 0, 0
    for batch in reader:
        parts.append(pa.Table.from_batches([batch]))
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows > MOST_ROWS or size > MOST_BYTES:
            break
    return pa.concat_tables(parts), next(iter(reader), None) is not None or rows > MOST_ROWS


def _failed(error: duckdb.Error, sql: str, tables: Sequence[Table], timeout_s: float | None) -> QueryError:
    if timeout_s is not None:
        return QueryError(
            f"The query took longer than {timeout_s:g} s and was cancelled.",
            hint="Narrow it down by the key or by _tm_ts, or query the destination with your own tool.",
        )
    detail = "Nothing was changed: queries here can only read."
    message = str(error).strip()
    if match := _MISSING.match(message):
        return QueryError(f"There is no table {match[1]} here.", detail=detail, hint=_instead(match[1], tables))
    text = _LINE.sub(lambda place: _own_line(place[1], sql), message)
    return QueryError(text, detail=detail, hint=advice(error, sql, tables))


def _own_line(text: str, sql: str) -> str:
    """The line of an error. DuckDB counts the lines of a query around the user's own."""
    numbers = [number for number, line in enumerate(sql.splitlines(), 1) if line == text]
    return f"LINE {numbers[0]}: {text}" if len(numbers) == 1 else f"LINE …: {text}"


def _instead(name: str, tables: Sequence[Table]) -> str:
    """The views of tables with a similar name. DuckDB would propose names of its own catalog."""
    wanted = name.rpartition(".")[2].casefold().removesuffix("__changes")
    near = get_close_matches(wanted, [table.name.casefold() for table in tables], 3)
    alike = [table for table in tables if table.name.casefold() in near] or tables
    views = sorted(name for table in alike for name in _names(table)[: 2 if table.key else 1])
    return f"Tables: {listing(views, _MOST_NAMES)}." if views else ""


def _show(connection: duckdb.DuckDBPyConnection, landing: Landing, tables: Sequence[Table], spill: str) -> None:
    """Make the views, then take away everything else. spill: the folder for what does not fit into memory."""
    places, files = set[tuple[str, str]](), ReadOnlyFiles()
    connection.register_filesystem(files)
    for number, table in enumerate(tables):
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(table.database)}")
        reader = reader_of(landing, table)
        with _readable(reader, table):
            # Open the change log after the mirror, so that it has everything merged, and more.
            versions = {table.name: reader.mirror()} if table.key else {}
            versions[f"{table.name}__changes"] = reader.log()
        for name, version in versions.items():
            if version is None:  # it has no commit yet
                continue
            place, source = (table.database.casefold(), name.casefold()), f"_{number}_{len(places)}"
            with _readable(reader, table):
                _register(connection, source, version, files)
            # DuckDB ignores case, so names that differ only by case get a number.
            own = name if place not in places else f"{name}_{number}"
            places.add(place)
            connection.execute(f"CREATE VIEW {quoted(table.database)}.{quoted(own)} AS SELECT * FROM {source}")
    allowed = ", ".join(map(_text, files.names))
    for setting in (f"SET temp_directory = {_text(spill)}", f"SET allowed_paths = [{allowed}]", *_LOCKED):
        connection.execute(setting)


@contextmanager
def _readable(reader: MirrorReader, table: Table) -> Iterator[None]:
    """Raises QueryError for a table that cannot be read."""
    try:
        yield
    except (StoreAwayError, StoreAccessError):
        raise
    except reader.unreadable as error:
        raise QueryError(
            f"{table.full_name} cannot be read: {str(error).strip().partition(chr(10))[0]}",
            detail="Other readers fail, too. Nothing was changed.",
            hint="`tidemark verify SPEC` says what is wrong with it.",
        ) from error


def _register(connection: duckdb.DuckDBPyConnection, name: str, version: TableVersion, files: ReadOnlyFiles) -> None:
    """Give a version's rows a name. files: gets those that DuckDB reads itself."""
    schema, scan = version.schema, version.scan()
    if not isinstance(scan, VersionFiles):
        connection.register(name, scan)
        return
    if {"filename", "file_row_number"} & {column.casefold() for column in schema.names}:  # they hide a row's number
        connection.register(name, pa.concat_tables([schema.empty_table(), *version.batches(schema.names)]))
        return
    deleted_rows = {files.add(scan.folder, file): numbers for file, numbers in scan.deleted_rows.items()}
    if not deleted_rows:
        connection.register(name, schema.empty_table())
        return
    parts = [(file, numbers) for file, numbers in deleted_rows.items() if numbers is not None]
    places = {
        "f": pa.array([file for file, numbers in parts for _ in range(len(numbers))], pa.string()),
        "n": pa.concat_arrays([pa.array([], pa.int64()), *(numbers.cast(pa.int64()) for _, numbers in parts)]),
    }
    connection.register(f"{name}_deleted", pa.table(places))
    connection.register(f"{name}_columns", schema.empty_table())
    listed = ", ".join(map(_text, deleted_rows))
    connection.execute(
        f"CREATE VIEW {name} AS SELECT * FROM {name}_columns UNION ALL BY NAME SELECT r.* FROM "
        f"read_parquet([{listed}], union_by_name = true) r ANTI JOIN {name}_deleted d ON r.filename = d.f AND "
        "r.file_row_number = d.n"
    )


def quoted(name: str) -> str:
    """An identifier in DuckDB's SQL, quoted if necessary."""
    return name if re.fullmatch("[a-z_][a-z0-9_]*", name) else '"' + name.replace('"', '""') + '"'


def _within_quotes(name: str) -> str:
    """The text between the quotes of a name."""
    return name.casefold().replace('"', '""')


def history_sql(table: Table, key: Sequence[str]) -> str:
    """SQL for every change of one row in the change log, oldest first, and the current mirror row.

    key: values as text.
    """
    where = " AND ".join(f"{quoted(n)} = {_text(v)}" for n, v in zip(table.key, key, strict=True))
    columns = _list([column.name for column in table.columns])
    log, mirror = _names(table)
    return (
        f"SELECT {_FACTS.format(columns=columns)}\nFROM {log}\nWHERE {where}\n"
        f"UNION ALL BY NAME\nSELECT 'mirror' AS _tm_kind, {columns}, NULL AS _tm_seq\nFROM {mirror}\nWHERE {where}\n"
        "ORDER BY _tm_seq NULLS LAST"
    )


def merged_seq(directory: Directory, landing: Landing, table: Table) -> int:
    """The `_tm_seq` up to which the table's change log is merged into its mirror.

    `as_of_sql` needs it; -1 before the first merge.
    """
    state = Ledger(directory.ledger).state
    assert state is not None
    mirror = reader_of(landing, table).mirror()
    return -1 if mirror is None else mirror.transaction(state.owner.transaction(MERGED_SEQ))


def as_of_sql(table: Table, at: datetime, merged_seq: int) -> str:
    """SQL for the table's rows on the source after everything committed up to `at`, by the source's clock.

    merged_seq: the `_tm_seq` up to which the change log is merged into the mirror; get it before the query runs. The
    answer is right for times since the table was last copied, up to the end of what was read from the binlog. If the
    source's binlog has whole seconds (MariaDB), all changes of a second happen at its beginning. Per key, in the order
    of `_tm_seq`:

        later    the source has changes after `at`: the row is the before image of the first one. If that is an insert,
                 or the new key of an update, there was no row.
        recent   there are none, but images after `merged_seq`: the row is the newest of these. Nothing has changed it
                 since `at`, so a redumped image (`_tm_redump`) equals the row at that time, whenever it was read.
        mirror   there are neither: the mirror has the row's newest image, or its chunk, and nothing has changed it
                 since.

    A `merged_seq` that is too small is harmless: it only adds keys to *recent* whose newest image is merged already.
    The merge wrote that image to the mirror's row, and the change log has no later image of the key, so both are the
    same. But it must not be older than the table's last copy: changes before a chunk was read again are not in the
    change log. So the mirror, opened after `merged_seq` was read, may be newer; and the change log, opened after the
    mirror, has everything that is merged.
    """
    moment = f"TIMESTAMPTZ '{at.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}+00'"
    columns, key = _list([column.name for column in table.columns]), _list(table.key)
    log, mirror = _names(table)
    return (
        f"WITH later AS (\n  SELECT * FROM {log} WHERE _tm_ts > {moment} AND _tm_redump IS NULL\n"
        f"  QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY _tm_seq) = 1),\n"
        f"recent AS (\n  SELECT * FROM {log} WHERE _tm_seq > {merged_seq:d}\n"
        f"  QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY _tm_seq DESC) = 1)\n"
        f"SELECT {columns} FROM later WHERE _tm_kind IN ('-U', '-D')\n"
        f"UNION ALL\nSELECT {columns} FROM recent ANTI JOIN later USING ({key}) WHERE _tm_kind IN ('+I', '+U')\n"
        f"UNION ALL\nSELECT {columns} FROM {mirror} ANTI JOIN later USING ({key}) ANTI JOIN recent USING ({key})"
    )


def _names(table: Table) -> tuple[str, str]:
    """The views of a table: its change log and its mirror."""
    schema = quoted(table.database)
    return f"{schema}.{quoted(f'{table.name}__changes')}", f"{schema}.{quoted(table.name)}"


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
