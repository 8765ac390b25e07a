"""The account that the server has given a connection (`CURRENT_USER()`): in statements for people, and in the catalog.

A user's name may contain "@" and quotes; a host's name does not.
"""

from engine.source.connect import Connection, query

_HOST = "SUBSTRING_INDEX(CURRENT_USER(), '@', -1)"
_USER = f"LEFT(CURRENT_USER(), CHAR_LENGTH(CURRENT_USER()) - CHAR_LENGTH({_HOST}) - 1)"
GRANTEE = f"""CONCAT("'", {_USER}, "'@'", {_HOST}, "'")"""
"""The account as `GRANTEE` of the catalog's privileges has it, as SQL."""


def own_account(connection: Connection) -> str:
    """The account for a statement such as GRANT: `'user'@'host'`."""
    (row,) = query(connection, "SELECT CURRENT_USER() AS account")
    return quoted_account(str(row["account"]))


def quoted_account(account: str) -> str:
    """An account for a statement. account: as `CURRENT_USER()` gives it."""
    user, _, host = account.rpartition("@")
    return "@".join("'" + part.replace("\\", "\\\\").replace("'", "''") + "'" for part in (user, host))
