"""Triggers and foreign keys on the tables that pipelines write: they act on each row, or refuse it."""

import json

from engine.destination.database.database_state import TableRecord
from engine.destination.database.sql_server import (
    STATE_TABLES,
    DatabaseSession,
    SqlServer,
    TablePlace,
    qualified,
)
from engine.destination.database.sql_servers import server_of
from engine.spec.sink_settings import Sink

_POSTGRESQL = """
SELECT n.nspname, c.relname, 'trigger ' || t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
JOIN pg_namespace n ON n.oid = c.relnamespace WHERE NOT t.tgisinternal
UNION ALL SELECT n.nspname, c.relname, 'foreign key ' || k.conname FROM pg_constraint k
JOIN pg_class c ON c.oid IN (k.conrelid, k.confrelid) JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE k.contype = 'f' ORDER BY 1, 2, 3
"""
_MYSQL = """
SELECT EVENT_OBJECT_SCHEMA, EVENT_OBJECT_TABLE, CONCAT('trigger ', TRIGGER_NAME) FROM information_schema.TRIGGERS
UNION ALL SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CONCAT('foreign key ', CONSTRAINT_NAME)
FROM information_schema.REFERENTIAL_CONSTRAINTS
UNION ALL SELECT UNIQUE_CONSTRAINT_SCHEMA, REFERENCED_TABLE_NAME, CONCAT('foreign key ', CONSTRAINT_NAME)
FROM information_schema.REFERENTIAL_CONSTRAINTS ORDER BY 1, 2, 3
"""
_QUERIES = {"postgresql": _POSTGRESQL, "mysql": _MYSQL}


def side_effects(sink: Sink) -> list[str]:
    """What was found, each with its table. Raises what the server's errors mean (`SqlServer.explained`)."""
    query, server = _QUERIES.get(sink.type), server_of(sink)
    if query is None:
        return []
    try:
        session = server.connect()
        try:
            places = _places(server, session)
            rows = session.query(query) if places else []
        finally:
            session.close()
    except server.failures as error:
        raise server.explained(error) from error
    return [f"{what} on {schema}.{name}" for schema, name, what in rows if TablePlace(schema, name) in places]


def _places(server: SqlServer, session: DatabaseSession) -> set[TablePlace]:
    """The tables of all pipelines that write to the database."""
    own = TablePlace(server.state_schema, STATE_TABLES[1])
    if not server.columns_of(session, own):
        return set()
    records = session.query(f"SELECT record FROM {qualified(server, own)} WHERE count_name = ''")
    return {TableRecord.from_json(json.loads(record)).place for (record,) in records}
