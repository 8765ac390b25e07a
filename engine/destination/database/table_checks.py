"""What a table in a database must be: with a key, in a place of its own, and there."""

from engine.base.errors import IncompatibleColumnsError, SpecError
from engine.decode.schema import Table
from engine.destination.database.database_state import TableRecord
from engine.destination.database.shared_tables import SharedTables
from engine.destination.database.sql_server import TablePlace, lacking


def require_key(table: Table, *, joins: bool) -> None:
    """Raises SpecError, or IncompatibleColumnsError for a table that is there, if it has no key."""
    if table.key:
        return
    error = SpecError if joins else IncompatibleColumnsError
    raise error(
        f"{table.full_name} has no primary key, nor a unique key without nullable columns.",
        detail="A row of a database is updated by its key. The table is not written there; the others are.",
        hint=f"Add a primary key on the source, or exclude the table: '!{table.full_name}' in source.tables.",
    )


def require_place(shared: SharedTables, table: Table, place: TablePlace, mark: str) -> None:
    """Raises SpecError if something else is where the table would be. mark: of a table that was made for it."""
    records = shared.known(fresh=True)
    own = records.tables.get(table.full_name)
    if own is not None and own.place == place:
        return
    others = [name for name, record in records.tables.items() if record.place == place]
    is_there = shared.reading.ask(lambda session: shared.server.columns_of(session, place))
    if not others and not is_there:
        return
    if not others and shared.reading.ask(lambda session: shared.server.marks.is_on(session, place, mark)):
        return  # made by a runner that was killed before it could say so
    what = f"is the one of {others[0]}, too" if others else "exists, and this pipeline has not made it"
    raise SpecError(
        f"The table {place} in {shared.server.place} {what}.",
        detail=f"Rows of {table.full_name} would be mixed with others; nothing was written.",
        hint="Rename or drop the table there, or choose another rule for names: table in [sink.database].",
    )


def fault_of(shared: SharedTables, record: TableRecord | None, place: TablePlace) -> str:
    """Why a table cannot be what was published; "" if it can. place: by the rule, for messages."""
    server = shared.server
    if record is None:
        return f"table {place} in {server.place} was never made by this pipeline"
    there = shared.reading.ask(lambda session: server.columns_of(session, record.place))
    if not there:
        return f"table {record.place} in {server.place} is gone"
    missing = lacking(server, record.columns, there)
    if missing and record.copy is None:
        return f"table {record.place} in {server.place} has lost its column {missing[0]}"
    return ""
