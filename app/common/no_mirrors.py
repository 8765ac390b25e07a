"""Pipelines whose destination keeps no mirrors, and what a page shows instead."""

from app.common import messages
from engine.base.errors import TidemarkError
from engine.pipeline.directory import Directory
from engine.spec import settings

INSTEAD = (
    "Tidemark does not read the first destination of this pipeline back. Other tools read it: see docs/destinations.md."
)
"""What there is instead, whatever the kind of destination."""


def true_of(where: Directory) -> bool:
    """Whether the destination keeps none. False if the spec cannot be read, which *Live* shows."""
    try:
        return not settings.load(where.spec).sink.has_mirrors
    except TidemarkError:
        return False


def explain(title: str) -> None:
    """The empty state of a page that needs mirrors."""
    messages.nothing(title, INSTEAD)
