"""Facts of a source that someone may change while a pipeline runs: settings, grants, the TLS certificate, the version.

Settings come from the global variables, which a run reads anyway; the certificate from the connection itself. So the
facts cost one more statement, SHOW GRANTS.
"""

import hashlib
import re
import ssl
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Literal

from cryptography import x509

from engine.source.connect import Connection, query

FactKind = Literal["version", "setting", "grant", "certificate"]
Fact = tuple[FactKind, str]
"""What it is, and its name: a variable, or the object that privileges are on."""
Facts = Mapping[Fact, str]
NONE = "none"
_NAMES = frozenset(
    [
        "binlog_checksum",
        "binlog_direct_non_transactional_updates",
        "binlog_encryption",
        "binlog_error_action",
        "binlog_expire_logs_seconds",
        "binlog_format",
        "binlog_order_commits",
        "binlog_row_image",
        "binlog_row_metadata",
        "binlog_row_value_options",
        "binlog_space_limit",
        "binlog_transaction_compression",
        "character_set_server",
        "collation_server",
        "default_storage_engine",
        "encrypt_binlog",
        "enforce_gtid_consistency",
        "event_scheduler",
        "expire_logs_days",
        "explicit_defaults_for_timestamp",
        "foreign_key_checks",
        "gtid_domain_id",
        "gtid_mode",
        "gtid_strict_mode",
        "init_connect",
        "innodb_flush_log_at_trx_commit",
        "innodb_snapshot_isolation",
        "lock_wait_timeout",
        "log_bin",
        "log_bin_compress",
        "log_replica_updates",
        "log_slave_updates",
        "lower_case_table_names",
        "max_allowed_packet",
        "max_binlog_size",
        "max_binlog_total_size",
        "max_connections",
        "max_execution_time",
        "max_statement_time",
        "max_user_connections",
        "net_read_timeout",
        "net_write_timeout",
        "performance_schema",
        "read_only",
        "replica_preserve_commit_order",
        "require_secure_transport",
        "rpl_semi_sync_master_enabled",
        "rpl_semi_sync_master_timeout",
        "rpl_semi_sync_master_wait_point",
        "rpl_semi_sync_source_enabled",
        "rpl_semi_sync_source_timeout",
        "rpl_semi_sync_source_wait_point",
        "session_track_gtids",
        "skip_networking",
        "slave_parallel_mode",
        "sql_log_bin",
        "sql_mode",
        "ssl_ca",
        "ssl_cert",
        "ssl_key",
        "super_read_only",
        "sync_binlog",
        "system_time_zone",
        "time_zone",
        "tls_version",
        "transaction_isolation",
        "tx_isolation",
        "wait_timeout",
    ]
)
"""The global variables that bear on reading, on the binlog, on values or on connections. Others change all the time.

Not the server's own names: another server is a failover, which has an event of its own.
"""
_GRANT = re.compile(r"GRANT (.+?) ON (?:TABLE )?(.+?) TO ")
_ROLE = re.compile(r"GRANT (.+?) TO ")


@dataclass(frozen=True)
class Change:
    """A fact that is another one now."""

    what: FactKind
    name: str
    before: str
    after: str


def source_facts(connection: Connection, variables: Mapping[str, str]) -> Facts:
    """The facts of the source that this connection reaches. variables: its global ones. Raises TransientError."""
    facts: dict[Fact, str] = {("setting", name): value for name, value in variables.items() if name in _NAMES}
    facts["version", "version"] = variables.get("version", "")
    facts["certificate", "certificate"] = _certificate(connection)
    rows = query(connection, "SHOW GRANTS")
    facts |= {
        ("grant", on): privileges for on, privileges in grants([str(next(iter(row.values()))) for row in rows]).items()
    }
    return facts


def grants(lines: Sequence[str]) -> dict[str, str]:
    """The privileges by what they are on, from SHOW GRANTS; pure.

    Roles are under `roles`. Hashes of passwords are left out.
    """
    privileges_by_object: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        privileges = _GRANT.match(line)
        role = _ROLE.match(line)
        if privileges:
            privileges_by_object[privileges[2]].append(
                privileges[1] + (", GRANT OPTION" if line.endswith("WITH GRANT OPTION") else "")
            )
        elif role:
            privileges_by_object["roles"].append(role[1])
    return {on: ", ".join(parts) for on, parts in privileges_by_object.items()}


def databases_without_select(facts: Facts, globs: Sequence[str]) -> list[str]:
    """The databases of globs in which the account may read no table, by SHOW GRANTS; pure.

    A role may permit anything.
    """
    readable = [
        _database(on)
        for (kind, on), privileges in facts.items()
        if kind == "grant" and (on == "roles" or "SELECT" in privileges or "ALL PRIVILEGES" in privileges)
    ]
    named = sorted({glob.partition(".")[0] for glob in globs if not glob.startswith("!")})
    return [one for one in named if not any(fnmatch(one, name) or fnmatch(name, one) for name in readable)]


def _database(on: str) -> str:
    """The database part of what a privilege is on, as a glob: its `%` is the only wildcard that matters here."""
    if on == "roles":
        return "*"
    name = on.rpartition(".`")[0] or on.rpartition(".")[0]
    return name.strip("`").replace("\\\\", "\\").replace("\\_", "_").replace("%", "*")


def changes(before: Facts, after: Facts) -> tuple[Change, ...]:
    """The facts that differ, by kind and name; pure. What is missing on one side is `none` there."""
    names = sorted(before.keys() | after.keys())
    pairs = [(name, before.get(name, NONE), after.get(name, NONE)) for name in names]
    return tuple(Change(*name, old or "''", new or "''") for name, old, new in pairs if old != new)


def _certificate(connection: Connection) -> str:
    """The server's certificate: its fingerprint, whose it is, and until when it is valid; `none` without TLS."""
    socket = connection._sock  # noqa: SLF001 - PyMySQL has no such call
    content = socket.getpeercert(binary_form=True) if isinstance(socket, ssl.SSLSocket) else None
    if not content:
        return NONE
    fingerprint = hashlib.sha256(content).hexdigest()[:16]
    try:
        certificate = x509.load_der_x509_certificate(content)
        subject, end = certificate.subject.rfc4514_string(), certificate.not_valid_after_utc
    except ValueError:  # one that the library refuses; the fingerprint tells it from others
        return f"SHA-256 {fingerprint}…"
    return f"{subject}, valid until {end:%Y-%m-%d}, SHA-256 {fingerprint}…"
