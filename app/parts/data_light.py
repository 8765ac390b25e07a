"""The fourth light of a pipeline, and the tables that it sums up."""

from datetime import datetime

from app.parts import home
from app.view import verification
from app.view.health import Layer
from app.view.verification import VerifiedTable
from engine import settings
from engine.directory import Directory
from engine.errors import TidemarkError
from engine.history import table_queries
from engine.verifications import read_summaries
from engine.verify_settings import Verify


def verify_settings(where: Directory) -> Verify:
    """The spec's settings; the usual ones if the spec cannot be read, which the Live page shows."""
    try:
        return settings.load(where.spec).verify
    except TidemarkError:
        return Verify()


def tables_of(where: Directory, now: datetime) -> list[VerifiedTable]:
    """The pipeline's tables, without removed ones."""
    names = [one.table for one in home.ask(table_queries.progress, where.root.name) if one.state != "removed"]
    return verification.tables_of(names, read_summaries(where), verify_settings(where), now)


def layer_of(where: Directory, now: datetime, *, current: bool) -> Layer:
    """The light. current: whether the mirrors follow the source now."""
    return verification.layer(tables_of(where, now), now, current=current)
