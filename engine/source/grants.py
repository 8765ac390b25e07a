"""The privileges that Tidemark needs on the source."""

from collections.abc import Sequence

from engine.source.connect import Server, quote


def minimal_grants(user: str, server: Server, globs: Sequence[str]) -> list[str]:
    """The complete statements that grant `user` everything Tidemark ever needs."""
    monitor = "BINLOG MONITOR" if server.flavor == "mariadb" else "REPLICATION CLIENT"
    databases = sorted({glob.partition(".")[0] for glob in globs if not glob.startswith("!")})
    select = [
        f"GRANT SELECT ON {'*' if any(c in d for c in '*?[') else quote(d)}.* TO '{user}'@'%';" for d in databases
    ]
    return [*dict.fromkeys(select), f"GRANT REPLICATION SLAVE, {monitor} ON *.* TO '{user}'@'%';"]
