"""Preflight: everything a pipeline needs of its source, checked before a byte is read.

A list of small checks that all run; each says what was expected, what is, why it matters and the statement that mends
it. What is never asked for: LOCK TABLES, RELOAD, SUPER, or any right to write.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

from engine.decode.schema import Table
from engine.decode.types import fault
from engine.errors import PreflightError, SourceLostError, TableStoppedError, TidemarkError
from engine.layout import folder_fault
from engine.settings import Source
from engine.source.catalog import BY_GLOBS, Membership, captured_tables, passed_over
from engine.source.connect import Connection, Endpoint, Server, describe, open_connection, query, quote
from engine.source.positions import binlog_files, current
from engine.source.replication import SERVER_IDS, open_dump
from engine.source.watermarks import watermark_class

Outcome = Literal["ok", "warn", "fail"]
_OLDEST = {"mysql": (8, 0, 14), "mariadb": (10, 5, 2)}
_AGED_FIX = "SET GLOBAL gtid_mode = ON (in its steps, see the MySQL manual); or GRANT BACKUP_ADMIN ON *.* TO the user;"


@dataclass(frozen=True)
class Check:
    """One check's result."""

    name: str
    outcome: Outcome
    expected: str
    actual: str
    why: str
    fix: str = ""
    """A statement that mends it, ready to be copied; or empty."""
    table: str = ""
    """The table that was checked; empty for the server."""

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


@dataclass(frozen=True)
class Context:
    """What the checks look at."""

    endpoint: Endpoint
    source: Source
    first_server_id: int
    connection: Connection
    server: Server
    variables: dict[str, str]


@dataclass(frozen=True)
class Preflight:
    """All results; `server` and `tables` for those who go on from here."""

    checks: list[Check]
    server: Server
    tables: list[Table]

    @property
    def passed(self) -> bool:
        return not any(check.outcome == "fail" for check in self.checks)

    def require(self) -> None:
        """Raises PreflightError that lists what failed, when no table can be captured.

        What is wrong with one table stops that table alone.
        """
        failed = [check for check in self.checks if check.outcome == "fail"]
        if any(not check.table for check in failed) or len({check.table for check in failed}) == len(self.tables):
            lines = [f"  {c.name}: expected {c.expected}; is {c.actual}. {c.why}" for c in failed]
            raise PreflightError(
                f"The source does not fulfil what the pipeline needs ({len(failed)} of {len(self.checks)} checks failed):\n"
                + "\n".join(lines),
                detail="Nothing was started.",
                hint="\n".join(c.fix for c in failed if c.fix) or "Correct what is listed.",
            )


def refused(tables: Sequence[Table]) -> dict[str, TableStoppedError]:
    """The tables that cannot be captured, and why."""
    failed = {table.full_name: [check for check in table_checks(table) if check.outcome == "fail"] for table in tables}
    return {
        name: TableStoppedError(
            f"{name} is not captured: " + " ".join(check.actual.rstrip(".") + "." for check in checks),
            detail=" ".join(dict.fromkeys(check.why for check in checks)),
            hint="\n".join(check.fix for check in checks if check.fix),
        )
        for name, checks in failed.items()
        if checks
    }


def table_checks(table: Table) -> list[Check]:
    """What is checked of one table."""
    return [replace(check(table), table=table.full_name) for check in _TABLE_CHECKS]


def minimal_grants(user: str, server: Server, globs: Sequence[str]) -> list[str]:
    """The complete statements that give `user` all that Tidemark ever needs."""
    monitor = "BINLOG MONITOR" if server.flavor == "mariadb" else "REPLICATION CLIENT"
    databases = sorted({glob.partition(".")[0] for glob in globs if not glob.startswith("!")})
    select = [
        f"GRANT SELECT ON {'*' if any(c in d for c in '*?[') else quote(d)}.* TO '{user}'@'%';" for d in databases
    ]
    return [*dict.fromkeys(select), f"GRANT REPLICATION SLAVE, {monitor} ON *.* TO '{user}'@'%';"]


def run_preflight(
    endpoint: Endpoint,
    source: Source,
    first_server_id: int,
    as_read: Callable[[Table], Table] = lambda table: table,
    members: Membership = BY_GLOBS,
) -> Preflight:
    """Run all checks. as_read: a table with the columns marked that are never read (`run.tables.projection_rules`).

    members: beside the globs.

    Raises PreflightError when the login is refused, TransientError when nobody answers, SpecError for no tables.
    """
    connection = open_connection(endpoint)
    try:
        context = _context(connection, endpoint, source, first_server_id)
        checks = [check(context) for check in (*_SERVER_CHECKS, _passed_over)]
        tables = captured_tables(connection, source.tables, members, null_dates=source.invalid_dates == "null")
        for table in tables:
            checks += table_checks(as_read(table))
    finally:
        connection.close()
    return Preflight(checks, context.server, tables)


def server_preflight(endpoint: Endpoint, source: Source, first_server_id: int) -> Preflight:
    """The checks of the server alone, for those who have not chosen tables yet. Raises as `run_preflight`."""
    connection = open_connection(endpoint)
    try:
        context = _context(connection, endpoint, source, first_server_id)
        return Preflight([check(context) for check in _SERVER_CHECKS], context.server, [])
    finally:
        connection.close()


def _context(connection: Connection, endpoint: Endpoint, source: Source, first_server_id: int) -> Context:
    rows = query(connection, "SHOW GLOBAL VARIABLES")
    variables = {row["Variable_name"]: row["Value"] for row in rows}
    return Context(endpoint, source, first_server_id, connection, describe(connection), variables)


def _version(context: Context) -> Check:
    oldest = _OLDEST[context.server.flavor]
    good = context.server.version >= oldest
    expected = f"{context.server.flavor} {'.'.join(map(str, oldest))} or newer"
    return Check(
        "version", "ok" if good else "fail", expected, context.server.version_text, "Older binlogs lack what is needed."
    )


def _variable(name: str, expected: str, why: str, *, restart: bool = False) -> Callable[[Context], Check]:
    def check(context: Context) -> Check:
        actual = context.variables.get(name, expected)
        good = actual.upper() == expected
        fix = (
            f"Set {name} = {expected} in the server's configuration and restart it."
            if restart
            else f"SET GLOBAL {name} = '{expected}';"
        )
        return Check(name, "ok" if good else "fail", expected, actual, why, "" if good else fix)

    return check


def _metadata(context: Context) -> Check:
    actual = context.variables.get("binlog_row_metadata", "MINIMAL")
    good = actual.upper() == "FULL"
    why = "With FULL the binlog carries column names and labels, so that a changed table is always recognised."
    # What is older than the catalogue must say itself what it is.
    past = not context.source.copies and context.source.startup != "latest"
    bad: Outcome = "fail" if past else "warn"
    fix = "" if good else "SET GLOBAL binlog_row_metadata = 'FULL';"
    return Check("binlog_row_metadata", "ok" if good else bad, "FULL", actual, why, fix)


def _monitoring(context: Context) -> Check:
    why = "The position of the binlog's end is read all the time."
    user = context.source.user
    try:
        position = current(context.connection, context.server)
        binlog_files(context.connection)
    except TidemarkError as error:
        fix = minimal_grants(user, context.server, context.source.tables)[-1]
        return Check("grant: binlog status", "fail", "may be read", error.message, why, fix)
    return Check("grant: binlog status", "ok", "may be read", str(position), why)


def _replication(context: Context) -> Check:
    """By doing it: grants can come through roles, and only the server knows what they add up to."""
    why = "Changes are read through the replication protocol."
    fix = minimal_grants(context.source.user, context.server, context.source.tables)[-1]
    try:
        position = current(context.connection, context.server)
        connection = open_connection(context.endpoint)
        try:
            for _ in open_dump(connection, position.file, position.offset, context.first_server_id).blocks():
                pass
        finally:
            connection._force_close()  # noqa: SLF001 - the server has ended the dump
    except (PreflightError, SourceLostError) as error:
        return Check("grant: REPLICATION SLAVE", "fail", "a binlog dump works", error.message, why, fix)
    return Check("grant: REPLICATION SLAVE", "ok", "a binlog dump works", "it does", why)


def _server_ids(context: Context) -> Check:
    first, why = context.first_server_id, "The server ends a binlog reader when another one comes with its server id."
    expected = f"none of {first}–{first + SERVER_IDS - 1} in use"
    modern = context.server.flavor == "mysql" and context.server.version >= (8, 0, 22)
    unseen = ""
    try:
        replicas = query(context.connection, "SHOW REPLICAS" if modern else "SHOW SLAVE HOSTS")
    except PreflightError:
        # MariaDB wants REPLICATION MASTER ADMIN for the list. Nothing else does, and a run names an id that is taken.
        replicas, unseen = [], "; replicas are not shown to this user"
    except TidemarkError as error:
        return Check("server ids", "warn", expected, error.message, why)
    used = [int(row["Server_Id" if "Server_Id" in row else "Server_id"]) for row in replicas]
    used.append(int(context.variables["server_id"]))
    clash = [n for n in used if first <= n < first + SERVER_IDS]
    fix = "Set source.server_id in the spec to another range." if clash else ""
    actual = f"in use: {', '.join(map(str, used))}{unseen}"
    return Check("server ids", "fail" if clash else "ok", expected, actual, why, fix)


def _passed_over(context: Context) -> Check:
    others = passed_over(context.connection, context.source.tables)
    why = (
        "Views, sequences and system-versioned tables have no rows of their own in the binlog, or more than they show."
    )
    actual = ", ".join(f"{name} ({kind.lower()})" for name, kind in others.items()) or "none"
    fix = "Exclude them in source.tables: " + ", ".join(f'"!{name}"' for name in others) if others else ""
    return Check("not captured", "warn" if others else "ok", "none", actual, why, fix)


def _watermarks(context: Context) -> Check:
    kind = watermark_class(context.connection, context.server)
    why = "What a low watermark names must be visible to the read that follows (docs/correctness.md)."
    good = kind != "aged"
    return Check(
        "watermarks",
        "ok" if good else "warn",
        "an exact class (snapshot, gtid, log_status)",
        kind,
        why,
        "" if good else _AGED_FIX,
    )


def _key(table: Table) -> Check:
    good = bool(table.key)
    actual = ", ".join(table.key) or "none"
    why = "Without a key changes cannot be applied to a mirror: the table is read as one chunk, and its change log is all there is."
    fix = "" if good else f"ALTER TABLE {quote(table.database, table.name)} ADD PRIMARY KEY (…);"
    expected = "a primary key, or a unique key without nullable columns"
    return Check(f"{table.full_name}: key", "ok" if good else "warn", expected, actual, why, fix)


def _columns(table: Table) -> Check:
    faults = [text for column in table.columns if (text := fault(column))]
    faults += [
        f"Column {c.name!r}: names that begin with _tm_ are Tidemark's own."
        for c in table.columns
        if c.name.casefold().startswith("_tm_")
    ]
    why = "A value that cannot be decoded exactly never becomes NULL."
    fix = f'Exclude the table: tables = […, "!{table.full_name}"]' if faults else ""
    actual = " ".join(faults) or f"{len(table.columns)} columns"
    return Check(
        f"{table.full_name}: columns", "fail" if faults else "ok", "types that this version decodes", actual, why, fix
    )


def _engine(table: Table) -> Check:
    good = table.transactional
    why = "A read of a table whose engine has no transactions makes its writers wait until it ends."
    fix = "" if good else f"ALTER TABLE {quote(table.database, table.name)} ENGINE = InnoDB;"
    actual = "one with transactions" if good else "one without"
    return Check(
        f"{table.full_name}: engine", "ok" if good else "warn", "an engine with transactions", actual, why, fix
    )


def _own_columns(table: Table) -> Check:
    why = "Such images cannot be read; the table would stop at its first change."
    fix = f'Change the index, or exclude the table: tables = […, "!{table.full_name}"]' if table.unfit else ""
    outcome: Outcome = "fail" if table.unfit else "ok"
    expected = "only the table's own columns in its row images"
    return Check(f"{table.full_name}: images", outcome, expected, table.unfit or "so it is", why, fix)


def _folder(table: Table) -> Check:
    fault = folder_fault(table.database, table.name)
    fix = f'Exclude the table: tables = […, "!{table.full_name}"]' if fault else ""
    outcome: Outcome = "fail" if fault else "ok"
    why = "The names become folders of the destination."
    return Check(f"{table.full_name}: name", outcome, "names for folders", fault or table.full_name, why, fix)


def _tls(context: Context) -> Check:
    """How the connection is protected; `preferred` and `required` as `source.connect` has them, by PyMySQL's rules."""
    setting, why = context.source.tls, "Rows and the login travel between the source and the readers."
    expected = 'tls = "verify", or a source on this machine'
    rows = query(context.connection, "SHOW SESSION STATUS LIKE 'Ssl_cipher'")
    cipher = str(rows[0]["Value"]) if rows else ""
    now = f"{setting}; this connection is {'encrypted' if cipher else 'not encrypted'}"
    if setting == "verify" or context.source.host in _LOCAL:
        return Check("tls", "ok", expected, now, why)
    meaning = {
        "off": "Nothing protects them: whoever sees the network reads them.",
        "preferred": "It protects against no active attacker: whoever stands between can answer without TLS, or as the server.",
        "required": "It protects against no active attacker: the server's certificate is not verified.",
    }[setting]
    fix = 'Set source.tls = "verify", with source.tls_ca when the certificate is not of a public authority.'
    return Check("tls", "warn", expected, now, f"{why} {meaning}", fix)


_LOCAL = ("127.0.0.1", "::1", "localhost")
_IMAGES = "Changes are copied from complete row images."
_SERVER_CHECKS: list[Callable[[Context], Check]] = [
    _version,
    _variable("log_bin", "ON", "Changes are read from the binlog.", restart=True),
    _variable("binlog_format", "ROW", _IMAGES),
    _variable("binlog_row_image", "FULL", _IMAGES),
    _metadata,
    _monitoring,
    _replication,
    _server_ids,
    _watermarks,
    _tls,
]
_TABLE_CHECKS: list[Callable[[Table], Check]] = [_key, _columns, _own_columns, _engine, _folder]
