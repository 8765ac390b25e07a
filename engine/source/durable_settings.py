"""Statements that change a server's setting and survive its restart."""

from engine.source.connect import Server

OLD_SESSIONS = "Sessions that are connected keep the old value until they connect again."


def durable_remedy(server: Server, name: str, value: str) -> str:
    """The SQL that sets a variable for good, ready to run.

    MariaDB has no SET PERSIST: a comment has the line for my.cnf.
    """
    if server.flavor == "mysql":
        return f"SET PERSIST {name} = '{value}';"
    line = f"and in my.cnf, below [mysqld], so that it survives a restart: {name} = {value}"
    return f"SET GLOBAL {name} = '{value}' /* {line} */;"
