"""The privileges that Tidemark needs on the source."""

from collections.abc import Sequence

from engine.source.connect import Server, quote


def minimal_grants(user: str, server: Server, globs: Sequence[str]) -> list[str]:
    """The complete statements that grant `user` everything Tidemark ever needs.

    Of a glob with several dots, each may be the one behind the database's name, as in `matches`.
    """
    monitor = "BINLOG MONITOR" if server.flavor == "mariadb" else "REPLICATION CLIENT"
    included = [glob for glob in globs if not glob.startswith("!")]
    databases = sorted({glob[:n] for glob in included for n, character in enumerate(glob) if character == "."})
    select = [
        f"GRANT SELECT ON {'*' if any(c in d for c in '*?[') else quote(d)}.* TO '{user}'@'%';" for d in databases
    ]
    return [*dict.fromkeys(select), f"GRANT REPLICATION SLAVE, {monitor} ON *.* TO '{user}'@'%';"]
