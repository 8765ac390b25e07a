"""Tries a database before a run: whether it answers, takes the login, and lets a table be made, written and dropped."""

import uuid

from engine.base.errors import SpecError, TidemarkError
from engine.base.store_errors import StoreAccessError
from engine.destination.database.sql_server import DatabaseSession, SqlServer, TablePlace, qualified
from engine.destination.database.sql_servers import server_of
from engine.spec.sink_settings import Sink
from engine.store.folder_trial import FolderTrial

_LOGIN = (
    "Look at host, user, and the password's variable or file in [sink.database], and give the user the privileges of "
    "docs/databases.md."
)
_REACH = "Make sure that this host reaches the database, and that it takes writes: a standby or a replica does not."


def tried(sink: Sink) -> FolderTrial:
    """Whether the database can be used. Leaves nothing there."""
    server = server_of(sink)
    try:
        session = server.connect()
        try:
            _try(server, session)
        finally:
            session.close()
    except server.failures as error:
        meant = server.explained(error)
        remedy = _LOGIN if isinstance(meant, StoreAccessError) else _REACH
        return FolderTrial(meant.message if isinstance(meant, TidemarkError) else str(meant), remedy)
    except SpecError as error:
        return FolderTrial(error.message, error.hint)
    return FolderTrial()


def _try(server: SqlServer, session: DatabaseSession) -> None:
    if server.state_schema and not server.has_schema(session, server.state_schema):
        server.create_schema(session, server.state_schema)
    place = qualified(server, TablePlace(server.state_schema, f"_tidemark_trial_{uuid.uuid4().hex[:12]}"))
    session.run(f"CREATE TABLE {place} (id bigint PRIMARY KEY)")
    session.run(f"INSERT INTO {place} VALUES (1)")
    session.run(f"DROP TABLE {place}")
    session.rollback()


def ask(sink: Sink) -> None:
    """Raises StoreAwayError or StoreAccessError if the database does not answer. One login."""
    server = server_of(sink)
    try:
        server.connect().close()
    except server.failures as error:
        raise server.explained(error) from error
