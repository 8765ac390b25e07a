"""Tables that a pipeline may be given, and those that may be taken from it, while it runs."""

from collections.abc import Collection, Mapping, Sequence

from app.view import words
from app.view.picking import ICONS, Badge
from engine.history.tables import Progress
from engine.source.survey import Surveyed

KEEP, DROP = "Keep it as it is then", "Delete mirror and change log"


def captured(found: Sequence[Progress]) -> list[str]:
    """Those that the pipeline has now, stopped ones too."""
    return [one.table for one in found if one.state not in (None, "removed")]


def offered(seen: Sequence[Surveyed], has: Collection[str]) -> dict[str, Surveyed]:
    """What the source has and the pipeline has not, by full name."""
    return {one.table.full_name: one for one in seen if one.table.full_name not in has}


def label(one: Surveyed) -> str:
    """`shop.invoices · about 12k rows, 3.4 MB`."""
    size = words.size(one.statistics.data_bytes)
    return f"{one.table.full_name} · about {words.count(one.statistics.rows)} rows, {size}"


def faults(chosen: Sequence[Surveyed], risks: Mapping[str, Sequence[Badge]]) -> list[tuple[str, Badge]]:
    """What speaks against those that are chosen, the worst first."""
    found = [(one.table.full_name, badge) for one in chosen for badge in risks.get(one.table.full_name, ())]
    return sorted(found, key=lambda pair: list(ICONS).index(pair[1].tone))
