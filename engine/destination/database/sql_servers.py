"""The kinds of databases. This module alone knows them."""

from engine.destination.database.sql_server import SqlServer
from engine.spec.sink_settings import Sink


def server_of(sink: Sink) -> SqlServer:
    """The database of a sink."""
    assert sink.database is not None, "the spec requires it"
    if sink.type == "postgresql":
        from engine.destination.database.postgresql import PostgresServer  # loads libpq, which few pipelines need

        return PostgresServer(sink.database)
    if sink.type == "duckdb":
        from engine.destination.database.duckdb_file import DuckdbServer

        return DuckdbServer(sink.database)
    from engine.destination.database.mysql import MysqlServer

    return MysqlServer(sink.database)
