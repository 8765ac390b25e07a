"""Captured tables whose SELECT the account has lost: the catalog hides them, and the binlog still has their changes.

They stream on as they are. But no read of them is possible, so the next DDL, redump or verification of one waits.
"""

from collections.abc import Collection

from engine.base.wording import listing
from engine.decode.schema import TableName
from engine.source.catalog import is_hidden, list_tables
from engine.source.connect import Connection, quote
from engine.source.own_account import own_account
from engine.source.preflight import Check

_WHY = "A table is read again when it is altered, redumped or verified. Until then its changes come from the binlog."


def check_hidden(connection: Connection, names: Collection[TableName]) -> Check:
    """Whether the account may read captured tables: SELECT is only asked for of those that the catalog does not show.

    Raises TransientError.
    """
    visible = {*list_tables(connection)}
    hidden = [name for name in names if name not in visible and is_hidden(connection, *name)]
    if not hidden:
        return Check("SELECT", "ok", "granted on all captured tables", "granted", _WHY)
    account = own_account(connection)
    tables = listing([".".join(name) for name in hidden], 20)
    grants = " ".join(f"GRANT SELECT ON {quote(*name)} TO {account};" for name in hidden[:20])
    return Check("SELECT", "fail", "granted on all captured tables", f"missing on {tables}", _WHY, grants)
