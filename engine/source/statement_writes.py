"""Why a write that the binlog has as a statement costs copies of whole tables, and what ends that."""

from dataclasses import dataclass

from engine.source.connect import Connection, Server, query
from engine.source.durable_settings import OLD_SESSIONS, durable_remedy
from engine.source.own_account import quoted_account
from engine.source.programs import sees_whole_catalog


@dataclass(frozen=True)
class ResnapshotCause:
    """For people, both without a table's name."""

    reason: str
    """The rest of a sentence after "because:", without a full stop."""
    remedy: str
    """What to do so that it does not happen again."""


def statement_cause(connection: Connection, server: Server) -> ResnapshotCause:
    """Why statement-logged writes resnapshot tables of this server."""
    (row,) = query(connection, "SELECT @@GLOBAL.binlog_format AS format, CURRENT_USER() AS account")
    whole = sees_whole_catalog(connection)
    return cause_of(server, str(row["format"]), str(row["account"]), whole=whole)


def cause_of(server: Server, binlog_format: str, account: str, *, whole: bool) -> ResnapshotCause:
    """The same; pure. account: as `CURRENT_USER()` gives it. whole: whether the account sees the whole catalog."""
    reason = "the binlog has a write as a statement, without its rows, because "
    if binlog_format.upper() == "ROW":
        reason += "the session that wrote had another binlog_format than ROW"
        remedy = "Find the program that sets binlog_format in its sessions, and take that out of it."
    else:
        reason += f"binlog_format is {binlog_format}, not ROW"
        remedy = f"Run on the source: {durable_remedy(server, 'binlog_format', 'ROW')} {OLD_SESSIONS}"
    if not whole:
        reason += "; the account does not see triggers and views, so the write may have reached every table"
        grant = f"GRANT SELECT, TRIGGER, SHOW VIEW ON *.* TO {quoted_account(account)};"
        remedy += f" So that only the tables that are written are concerned until then: {grant}"
    return ResnapshotCause(reason, remedy)
