"""Preflight: checks everything a pipeline needs from its source before it reads a byte.

A list of small checks. All of them run. Each states what was expected, what was found, why it matters and the statement
that fixes it. Tidemark never asks for LOCK TABLES, RELOAD, SUPER, or any right to write.

To add one: CONTRIBUTING.md.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Literal

from engine.base.errors import (
    BinlogOffError,
    PreflightError,
    SourceLostError,
    TableStoppedError,
    TidemarkError,
    if_captured,
)
from engine.base.wording import toml_text
from engine.decode.schema import Table
from engine.decode.types import fault
from engine.source.catalog import BY_GLOBS, Membership, captured_tables, list_tables, uncaptured
from engine.source.connect import Connection, Endpoint, Server, describe, open_connection, query, quote
from engine.source.connection_limits import few, limit_findings, limits_of
from engine.source.durable_settings import OLD_SESSIONS, durable_remedy
from engine.source.grants import minimal_grants
from engine.source.hidden_changes import filtered_databases, is_unlogged_replica, unlogged_cascades
from engine.source.named_tables import unmatched_exclusions, unmatched_inclusions, unmatched_rules
from engine.source.positions import binlog_files, current
from engine.source.replication import SERVER_IDS, open_dump
from engine.source.source_facts import Facts, databases_without_select, source_facts
from engine.source.watermarks import replica_wait_s, watermark_class
from engine.spec.folder_names import folder_fault
from engine.spec.settings import Source

CheckOutcome = Literal["ok", "warn", "fail"]
LOG_BIN = "log_bin"
_OLDEST = {"mysql": (8, 0, 14), "mariadb": (10, 5, 2)}
_AGED_FIXES = {
    "mysql": "SET PERSIST gtid_mode = ON (in its steps, see the MySQL manual); or both GRANT BACKUP_ADMIN ON *.* TO "
    "the user; and SET PERSIST binlog_order_commits = ON;",
    "mariadb": "Start the server with binlog_optimize_thread_scheduling = ON, its default.",
}


@dataclass(frozen=True)
class Check:
    """One check's result."""

    name: str
    outcome: CheckOutcome
    expected: str
    actual: str
    why: str
    fix: str = ""
    """A statement that fixes it, ready to copy; or empty."""
    table: str = ""
    """The checked table; empty for the server."""

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


@dataclass(frozen=True)
class Context:
    """The input of the checks."""

    endpoint: Endpoint
    source: Source
    first_server_id: int
    connection: Connection
    server: Server
    variables: dict[str, str]


@dataclass(frozen=True)
class Preflight:
    """All results; `server` and `tables` for the caller's further use."""

    checks: list[Check]
    server: Server
    tables: list[Table]
    cascades: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By table, the foreign keys that change its rows without an event in the binlog."""
    few_connections: int | None = None
    """The connections that a run has to make do with; None if it has enough."""
    facts: Facts = field(default_factory=dict)
    """Of the source, to compare later ones with."""

    @property
    def passed(self) -> bool:
        return not any(check.outcome == "fail" for check in self.checks)

    @property
    def has_binlog(self) -> bool:
        """Whether the server writes a binlog."""
        return not any(check.name == LOG_BIN and check.outcome == "fail" for check in self.checks)

    def require(self) -> None:
        """Raises PreflightError with the failed checks if a server check failed, or if every table failed.

        A failure of one table stops only that table.
        """
        failed = [check for check in self.checks if check.outcome == "fail"]
        if any(not check.table for check in failed) or len({check.table for check in failed}) == len(self.tables):
            lines = [f"  {c.name}: expected {c.expected}; is {c.actual}. {c.why}" for c in failed]
            raise PreflightError(
                f"The source does not meet the pipeline's requirements ({len(failed)} of {len(self.checks)} checks "
                "failed):\n" + "\n".join(lines),
                detail="Nothing was started.",
                hint="\n".join(c.fix for c in failed if c.fix) or "Correct the items above.",
            )


def refused(tables: Sequence[Table]) -> dict[str, TableStoppedError]:
    """The tables that cannot be captured, and why."""
    failed = {table: [check for check in table_checks(table) if check.outcome == "fail"] for table in tables}
    return {table.full_name: _refused(table, checks) for table, checks in failed.items() if checks}


def _refused(table: Table, checks: Sequence[Check]) -> TableStoppedError:
    fixes = [check.fix for check in checks if check.fix]
    fixes.append(if_captured(table.full_name))
    return TableStoppedError(
        f"{table.full_name} is not captured: " + " ".join(check.actual.rstrip(".") + "." for check in checks),
        detail=" ".join(dict.fromkeys(check.why for check in checks)),
        hint="\n".join(fixes),
    )


def table_checks(table: Table) -> list[Check]:
    """The results of one table's checks."""
    return [replace(check(table), table=table.full_name) for check in _TABLE_CHECKS]


def run_preflight(
    endpoint: Endpoint,
    source: Source,
    first_server_id: int,
    as_read: Callable[[Table], Table] = lambda table: table,
    members: Membership = BY_GLOBS,
    rules: Mapping[str, Sequence[str]] = MappingProxyType({}),
    readers: int = 1,
) -> Preflight:
    """Run all checks. as_read: marks a table's columns that are never read (`capture.projection.projection_rules`).

    members: exceptions from the globs. rules: by setting, its globs of tables.
    readers: how many run at the same time.

    Raises PreflightError if the login is refused, TransientError if nobody answers, SpecError if there are no tables.
    """
    connection = open_connection(endpoint)
    try:
        context = _context(connection, endpoint, source, first_server_id)
        checks = [check(context) for check in (*_SERVER_CHECKS, _uncaptured)]
        limits = limits_of(connection)
        checks += [Check(*finding) for finding in limit_findings(limits, readers)]
        visible = list_tables(connection)
        facts = source_facts(connection, context.variables)
        if (lacking := databases_without_select(facts, source.tables)) and not members.chosen(source.tables, visible):
            checks.append(_no_table(context, lacking))
            return Preflight(checks, context.server, [], few_connections=few(limits.own, readers), facts=facts)
        checks += [Check(*finding) for finding in unmatched_exclusions(source.tables, visible)]
        checks += [Check(*finding) for finding in unmatched_inclusions(source.tables, visible, lacking)]
        tables = captured_tables(connection, source.tables, members, null_dates=source.invalid_dates == "null")
        checks += [Check(*finding) for finding in unmatched_rules(rules, [(t.database, t.name) for t in tables])]
        for table in tables:
            checks += table_checks(as_read(table))
        readable_tables = [(table.database, table.name) for table in tables if not table.remedy]
        cascades = unlogged_cascades(connection, context.server, readable_tables)
        checks += _hidden_changes(context, tables, cascades)
    finally:
        connection.close()
    return Preflight(checks, context.server, tables, cascades, few(limits.own, readers), facts)


def _no_table(context: Context, databases: Sequence[str]) -> Check:
    """The failed check of an account that sees no tables: a server shows only those that it has a privilege on."""
    grants = minimal_grants(context.endpoint.user, context.server, context.source.tables)
    return Check(
        "grant: SELECT",
        "fail",
        "SELECT on the tables that source.tables selects",
        f"no table is visible, and no privilege on {', '.join(databases)}",
        "A server shows an account only tables on which it has a privilege. If it has them, check the globs.",
        "\n".join(grants),
    )


def server_preflight(endpoint: Endpoint, source: Source, first_server_id: int) -> Preflight:
    """Run only the server's checks, for callers that have not chosen tables yet. Raises as `run_preflight`."""
    connection = open_connection(endpoint)
    try:
        context = _context(connection, endpoint, source, first_server_id)
        return Preflight([check(context) for check in _SERVER_CHECKS], context.server, [])
    finally:
        connection.close()


@dataclass(frozen=True)
class Running:
    """The source while a pipeline runs. unmet: the failed checks of what it must have then."""

    unmet: list[Check]
    facts: Facts


def running(connection: Connection, endpoint: Endpoint, source: Source) -> Running:
    """The source now. Raises TransientError if it does not answer.

    Without the checks that a run makes all the time: that there is a binlog, that the user may read it, and the server
    ids.
    """
    context = _context(connection, endpoint, source, first_server_id=0)
    unmet = [finding for check in _RUNNING_CHECKS if (finding := check(context)).outcome == "fail"]
    return Running(unmet, source_facts(connection, context.variables))


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
            else durable_remedy(context.server, name, expected)
        )
        if good:
            return Check(name, "ok", expected, actual, why)
        return Check(name, "fail", expected, actual, why if restart else f"{why} {OLD_SESSIONS}", fix)

    return check


def _log_bin(context: Context) -> Check:
    """The variable remains ON when an error closes the binlog (`binlog_error_action = IGNORE_ERROR`)."""
    check = _variable(LOG_BIN, "ON", "Changes are read from the binlog.", restart=True)(context)
    try:
        current(context.connection, context.server)
    except BinlogOffError:
        if check.outcome == "ok":
            fix = "Restart the server: it closed its binlog after an error, which its error log names."
            return replace(check, outcome="fail", actual="ON, but the binlog is closed", fix=fix)
    except TidemarkError:  # the check of the grant says why
        pass
    return check


def _metadata(context: Context) -> Check:
    actual = context.variables.get("binlog_row_metadata", "MINIMAL")
    good = actual.upper() == "FULL"
    why = "With FULL, the binlog contains column names and labels, so Tidemark always recognises a changed table."
    # Events older than the catalog must describe their columns themselves.
    past = not context.source.copies and context.source.startup != "latest"
    bad: CheckOutcome = "fail" if past else "warn"
    fix = "" if good else durable_remedy(context.server, "binlog_row_metadata", "FULL")
    return Check("binlog_row_metadata", "ok" if good else bad, "FULL", actual, why, fix)


def _monitoring(context: Context) -> Check:
    why = "Tidemark constantly reads the position of the binlog's end."
    user = context.source.user
    try:
        position = current(context.connection, context.server)
        binlog_files(context.connection)
    except TidemarkError as error:
        fix = minimal_grants(user, context.server, context.source.tables)[-1]
        return Check("grant: binlog status", "fail", "may be read", error.message, why, fix)
    return Check("grant: binlog status", "ok", "may be read", str(position), why)


def _replication(context: Context) -> Check:
    """Check by opening a dump: grants can come through roles, and only the server knows the sum."""
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
    return Check("grant: REPLICATION SLAVE", "ok", "a binlog dump works", "works", why)


def _server_ids(context: Context) -> Check:
    first, why = context.first_server_id, "The server disconnects a binlog reader when another one uses its server id."
    expected = f"none of {first}–{first + SERVER_IDS - 1} in use"
    modern = context.server.flavor == "mysql" and context.server.version >= (8, 0, 22)
    note = ""
    try:
        replicas = query(context.connection, "SHOW REPLICAS" if modern else "SHOW SLAVE HOSTS")
    except PreflightError:
        # MariaDB requires REPLICATION MASTER ADMIN for the list; nothing else does. A run reports an id that is taken
        # anyway.
        replicas, note = [], "; replicas are not shown to this user"
    except TidemarkError as error:
        return Check("server ids", "warn", expected, error.message, why)
    used = [int(row["Server_Id" if "Server_Id" in row else "Server_id"]) for row in replicas]
    used.append(int(context.variables["server_id"]))
    clash = [n for n in used if first <= n < first + SERVER_IDS]
    fix = "Set source.server_id in the spec to another range." if clash else ""
    actual = f"in use: {', '.join(map(str, used))}{note}"
    return Check("server ids", "fail" if clash else "ok", expected, actual, why, fix)


def _uncaptured(context: Context) -> Check:
    others = uncaptured(context.connection, context.source.tables)
    why = "The binlog has no rows of views and sequences, and more rows of system-versioned tables than they show."
    actual = ", ".join(f"{name} ({kind.lower()})" for name, kind in others.items()) or "none"
    fix = "Exclude them in source.tables: " + ", ".join(toml_text(f"!{name}") for name in others) if others else ""
    return Check("not captured", "warn" if others else "ok", "none", actual, why, fix)


def _hidden_changes(context: Context, tables: Sequence[Table], unlogged: Mapping[str, tuple[str, ...]]) -> list[Check]:
    """Changes that the binlog does not have. Verification finds them; nothing that reads the binlog can."""
    why = "Changes that are not in the binlog cannot be followed."
    try:
        databases = filtered_databases(context.connection, context.server, [table.database for table in tables])
    except TidemarkError:  # the check of the grant says why
        databases = None
    left_out = (
        "unknown" if databases is None else f"left out: {', '.join(databases)}" if databases else "none is left out"
    )
    filters = Check(
        "binlog filters",
        "warn" if databases is None else "fail" if databases else "ok",
        "the binlog has the changes of all captured databases",
        left_out,
        why,
        "Remove binlog-do-db and binlog-ignore-db from the server's configuration, and restart it."
        if databases
        else "",
    )
    named = "; ".join(f"{name} ({', '.join(keys)})" for name, keys in unlogged.items())
    cascades = Check(
        "cascades",
        "warn" if unlogged else "ok",
        "no foreign key changes rows without an event",
        named or "none",
        f"{why} Verification finds and repairs rows that differ because of them.",
        "Replace ON DELETE and ON UPDATE actions by statements, or keep verify.period short." if unlogged else "",
    )
    return [filters, cascades]


def _replica(context: Context) -> Check:
    try:
        lacks = is_unlogged_replica(context.connection, context.server, context.variables)
    except TidemarkError:  # the check of the grant says why
        lacks = False
    why = (
        "Without log_replica_updates, a replica's binlog lacks what it applies, "
        "so nothing that reads the binlog can follow it."
    )
    return Check(
        "replicated changes",
        "fail" if lacks and context.server.flavor == "mysql" else "warn" if lacks else "ok",
        "the binlog has the changes of other servers that this one applies",
        "log_replica_updates is off" if lacks else "logged, or none",
        why,
        "Set log_replica_updates = ON (MariaDB: log_slave_updates) and restart the server, "
        "or use the primary as the source."
        if lacks
        else "",
    )


def _watermarks(context: Context) -> Check:
    kind = watermark_class(context.connection, context.server)
    why, expected = "All up to a low watermark must be visible to the read (docs/correctness.md).", "an exact class"
    if kind != "aged":
        return Check("watermarks", "ok", expected, kind, why, "")
    try:
        wait_s = replica_wait_s(context.connection)
    except SourceLostError as error:
        return Check("watermarks", "fail", expected, f"aged. {error}", f"{why} {error.detail}", error.hint)
    actual = f"aged; logged commits wait up to {wait_s:g} s for a replica" if wait_s else kind
    return Check("watermarks", "warn", expected, actual, why, _AGED_FIXES[context.server.flavor])


def _key(table: Table) -> Check:
    good = bool(table.key)
    actual = ", ".join(table.key) or "none"
    why = "Without a key, changes cannot be applied to a mirror. The table is one chunk, and has only a change log."
    why += " A key on a prefix of a column is none: use ADD UNIQUE KEY of whole columns." * (not good)
    fix = f"ALTER TABLE {quote(table.database, table.name)} ADD PRIMARY KEY (…);"
    expected = "a primary key, or a unique key without nullable columns; of whole columns"
    return Check(f"{table.full_name}: key", "ok" if good else "warn", expected, actual, why, "" if good else fix)


def _columns(table: Table) -> Check:
    faults = [text for column in table.columns if (text := fault(column))]
    faults += [
        f"Column {c.name!r}: names that begin with _tm_ are Tidemark's own."
        for c in table.columns
        if c.name.casefold().startswith("_tm_")
    ]
    why = "Tidemark never turns a value that it cannot decode exactly into NULL."
    names = [column.name for column in table.columns if fault(column)]
    excludes = bool(names) and not {*names} & {*table.key}
    section = f"[tables.{toml_text(table.full_name)}] exclude = {json.dumps(names)}, or " if excludes else ""
    fix = f"Exclude {section}the table: {_without(table)}" if faults else ""
    actual = " ".join(faults) or f"{len(table.columns)} columns"
    return Check(
        f"{table.full_name}: columns", "fail" if faults else "ok", "types that this version decodes", actual, why, fix
    )


def _without(table: Table) -> str:
    return f"tables = […, {toml_text('!' + table.full_name)}]"


def _engine(table: Table) -> Check:
    good = table.transactional
    why = "If a table's engine has no transactions, a read blocks its writers until it ends."
    fix = "" if good or table.unfit else f"ALTER TABLE {quote(table.database, table.name)} ENGINE = InnoDB;"
    outcome: CheckOutcome = "ok" if good else "warn"
    actual = "one with transactions" if good else "one without"
    return Check(f"{table.full_name}: engine", outcome, "an engine with transactions", actual, why, fix)


def _images(table: Table) -> Check:
    why = "A mirror can only be equal if SELECT shows all of the table's own rows, and the binlog every change of them."
    fix = (table.remedy or f"Exclude the table: {_without(table)}") if table.unfit else ""
    outcome: CheckOutcome = "fail" if table.unfit else "ok"
    expected = "its own rows, with all columns and no others"
    return Check(f"{table.full_name}: images", outcome, expected, table.unfit or "its own rows", why, fix)


def _folder(table: Table) -> Check:
    fault = folder_fault(table.database, table.name)
    fix = f"Exclude the table: {_without(table)}" if fault else ""
    outcome: CheckOutcome = "fail" if fault else "ok"
    why = "The names become folders in the destination."
    return Check(f"{table.full_name}: name", outcome, "valid folder names", fault or table.full_name, why, fix)


def _tls(context: Context) -> Check:
    """How the connection is protected.

    `preferred` and `required` mean what `source.connect` and PyMySQL make of them.
    """
    setting, why = context.source.tls, "Rows and the login travel between the source and the readers."
    expected = 'tls = "verify", or a source on this machine'
    rows = query(context.connection, "SHOW SESSION STATUS LIKE 'Ssl_cipher'")
    cipher = str(rows[0]["Value"]) if rows else ""
    now = f"{setting}; this connection is {'encrypted' if cipher else 'not encrypted'}"
    if setting == "verify" or context.source.host in _LOCAL:
        return Check("tls", "ok", expected, now, why)
    meaning = {
        "off": "Nothing protects them: anyone on the network can read them.",
        "preferred": "It does not stop an active attacker, who can answer without TLS, or pretend to be the server.",
        "required": "It does not stop an active attacker: the server's certificate is not verified.",
    }[setting]
    fix = 'Set source.tls = "verify", and source.tls_ca if the certificate is not from a public authority.'
    return Check("tls", "warn", expected, now, f"{why} {meaning}", fix)


_LOCAL = ("127.0.0.1", "::1", "localhost")
_IMAGES = "Changes are read from complete row images."
_SERVER_CHECKS: list[Callable[[Context], Check]] = [
    _version,
    _log_bin,
    _variable("binlog_format", "ROW", _IMAGES),
    _variable("binlog_row_image", "FULL", _IMAGES),
    _metadata,
    _monitoring,
    _replication,
    _server_ids,
    _replica,
    _watermarks,
    _tls,
]
_WHILE_READING = (_log_bin, _monitoring, _replication, _server_ids)
"""Every reader of the binlog needs them, and says so."""
_RUNNING_CHECKS = [check for check in _SERVER_CHECKS if check not in _WHILE_READING]
_TABLE_CHECKS: list[Callable[[Table], Check]] = [_key, _columns, _images, _engine, _folder]
