"""The fourth light of a pipeline or a table, and the tables that it sums up."""

from datetime import datetime
from functools import lru_cache
from pathlib import Path

from app.parts import home
from app.view import verification
from app.view.health import Layer
from app.view.verification import VerifiedTable
from engine import settings
from engine.directory import Directory
from engine.errors import TidemarkError
from engine.history import table_queries
from engine.verifications import read_summaries, summaries_changed
from engine.verify_settings import Verify

_KEPT_S = 5.0
"""For this long, the tables of the light are those of before, unless a verification ends: 5 000 of them take 0.1 s."""
_kept: dict[Path, tuple[float, float, list[VerifiedTable]]] = {}


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


@lru_cache(maxsize=1024)
def _differences_in(where: Directory, _changed_s: float) -> int:
    return sum(one["differences"] for one in read_summaries(where).values())


def differences(where: Directory) -> int:
    """The rows that are known to differ. The summaries are read again if they change."""
    changed_s = summaries_changed(where)
    return _differences_in(where, changed_s) if changed_s else 0


def table_layer(where: Directory, table: str, now: datetime, *, current: bool) -> Layer:
    """The light of one table. current: whether its mirror follows the source now."""
    found = verification.tables_of([table], read_summaries(where), verify_settings(where), now)
    return verification.layer(found, now, current=current)


def layer_of(where: Directory, now: datetime, *, current: bool) -> Layer:
    """The light of a pipeline. current: whether the mirrors follow the source now."""
    changed, now_s = summaries_changed(where), now.timestamp()
    known, since_s, found = _kept.get(where.root, (0.0, 0.0, []))
    if known != changed or not 0 <= now_s - since_s < _KEPT_S or not found:
        found = tables_of(where, now)
        _kept[where.root] = changed, now_s, found
    return verification.layer(found, now, current=current)
