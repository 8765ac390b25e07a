"""Pipelines whose destination keeps no mirrors, or is not read back at all, and what a page shows instead."""

from app.common import messages
from engine.base.errors import TidemarkError
from engine.pipeline.directory import Directory
from engine.spec import settings
from engine.spec.database_settings import DATABASE_TYPES
from engine.spec.sink_settings import Sink, is_read_back

INSTEAD = (
    "Tidemark does not read the first destination of this pipeline back. Other tools read it: see docs/destinations.md."
)
"""What there is instead, whatever the kind of destination."""
_IN_DATABASE = "The rows are in a database: query them there. Verification compares them with the source."


def true_of(where: Directory) -> bool:
    """Whether the destination keeps none. False if the spec cannot be read, which *Live* shows."""
    try:
        return not settings.load(where.spec).sink.has_mirrors
    except TidemarkError:
        return False


def is_not_read_back(where: Directory) -> bool:
    """Whether its rows cannot be compared. False if the spec cannot be read."""
    try:
        return not is_read_back(settings.load(where.spec).sink)
    except TidemarkError:
        return False


def is_database(where: Directory) -> bool:
    """Whether the destination is a database. False if the spec cannot be read."""
    try:
        return settings.load(where.spec).sink.database is not None
    except TidemarkError:
        return False


def instead(sink: Sink) -> str:
    """What there is instead of sizes and files."""
    return _IN_DATABASE if sink.database is not None else INSTEAD


def place(sink: Sink) -> str:
    """Where the destination is: of one on servers, not where its files wait."""
    for kind in DATABASE_TYPES:
        if sink.database is not None and kind == sink.type:
            return sink.database.place(kind)
    return str(sink.path) if sink.kafka is None else sink.kafka.place


def explain(title: str) -> None:
    """The empty state of a page that needs mirrors."""
    messages.nothing(title, INSTEAD)
