"""The kinds of destinations. This module alone knows them; all others know the protocol."""

from pathlib import Path
from typing import TYPE_CHECKING

from engine.decode.schema import Table
from engine.destination.delta.destination import DeltaDestination
from engine.destination.destination_protocol import Destination
from engine.destination.parquet.destination import ParquetDestination
from engine.spec.sink_settings import Sink

if TYPE_CHECKING:
    from engine.capture.landing import Landing, ReadsBack


def further_destination(sink: Sink, first: Destination) -> Destination:
    """A further destination of a pipeline: it takes the files that readers put where the first one has them."""
    if sink.type == "kafka":
        return _kafka(sink, first.landing)
    if sink.database is not None:
        return _database(sink, first.landing)
    if sink.writer is not None:
        return _writer(sink, first.landing)
    assert sink.type == "parquet", "the spec allows no other"
    return ParquetDestination(sink, first.landing)


def destination_of(sink: Sink, notes: Path | None = None, known_tables: Path | None = None) -> Destination:
    """The destination that a spec names. notes, known_tables: for what may be forgotten; None for readers."""
    if sink.type == "kafka":
        return _kafka(sink)
    if sink.database is not None:
        return _database(sink)
    if sink.writer is not None:
        return _writer(sink)
    if sink.type == "parquet":
        return ParquetDestination(sink)
    return DeltaDestination(sink, notes, known_tables)


def tables_of(sink: Sink) -> "ReadsBack | None":
    """The tables of a destination, of the first or a further one, to be read back; None if that is not possible."""
    if sink.database is not None:
        from engine.destination.database.sql_servers import server_of
        from engine.destination.database.table_reader import DatabaseTables

        return DatabaseTables(server_of(sink), sink.database.table)
    return DeltaDestination(sink).landing if sink.type == "delta" else None


def declared_columns(sink: Sink, table: Table) -> tuple[str, list[tuple[str, str]]]:
    """Where a table is in a database, and its columns there with their types; no columns for other destinations."""
    if sink.database is None:
        return "", []
    from engine.destination.database.sql_servers import server_of
    from engine.destination.database.table_names import place_of

    server = server_of(sink)
    place = place_of(sink.database.table, table, server.state_schema, server.longest_name)
    columns = (server.column(column, in_key=column.name in table.key) for column in table.columns)
    return str(place), [(column.name, column.type) for column in columns]


def server_fault(sink: Sink, answer_s: float | None = None) -> tuple[str, str]:
    """Why the servers of a sink cannot be used, and what to do; two empty texts if they can, or it has none.

    answer_s: how long they have for an answer.
    """
    if sink.database is not None:
        from engine.destination.database import database_trial

        trial = database_trial.tried(sink)
        return trial.fault, trial.remedy
    if sink.writer is not None and sink.type == "python":
        from engine.destination.writer.writes import WriterError, function_of

        try:
            function_of(sink.writer)
        except WriterError as error:
            return str(error), "Correct function in [sink.writer]. Its module is beside the spec, or can be imported."
    if sink.kafka is None:
        return "", ""
    from engine.destination.kafka.broker_trial import tried

    trial = tried(sink.kafka, answer_s)
    return trial.fault, trial.remedy


def server_notices(sink: Sink) -> list[str]:
    """What acts on the rows that are written to the servers of a sink, or refuses some. Raises as `ask_servers`."""
    if sink.database is None:
        return []
    from engine.destination.database.side_effects import side_effects

    return side_effects(sink)


def ask_servers(sink: Sink) -> None:
    """Raises the error of servers that cannot be used now. One request; none if the sink has no servers."""
    if sink.kafka is not None:
        from engine.destination.kafka.broker_trial import ask

        ask(sink.kafka)
    elif sink.database is not None:
        from engine.destination.database import database_trial

        database_trial.ask(sink)


def _kafka(sink: Sink, landing: "Landing | None" = None) -> Destination:
    from engine.destination.kafka.destination import KafkaDestination  # loads librdkafka, which few pipelines need

    return KafkaDestination(sink, landing)


def _database(sink: Sink, landing: "Landing | None" = None) -> Destination:
    from engine.destination.database.destination import DatabaseDestination

    return DatabaseDestination(sink, landing)


def _writer(sink: Sink, landing: "Landing | None" = None) -> Destination:
    from engine.destination.writer.destination import WriterDestination

    return WriterDestination(sink, landing)
