"""Membership: the tables that can be added to a running pipeline, and those that can be removed."""

from collections.abc import Collection, Mapping, Sequence

from app.common.view import words
from app.common.view.picking import ICONS, Badge
from engine.history.table_queries import TableProgress
from engine.source.survey import Surveyed

KEEP, DROP = "Keep mirror and change log", "Delete mirror and change log"


def captured(tables: Sequence[TableProgress]) -> list[str]:
    """The tables that the pipeline captures, including stopped ones."""
    return [one.table for one in tables if one.state not in (None, "removed")]


def offered(tables: Sequence[Surveyed], has: Collection[str]) -> dict[str, Surveyed]:
    """The tables of the source that the pipeline does not capture, by full name."""
    return {one.table.full_name: one for one in tables if one.table.full_name not in has}


def label(one: Surveyed) -> str:
    """`shop.invoices · about 12k rows, 3.4 MB`."""
    size = words.size(one.statistics.data_bytes)
    return f"{one.table.full_name} · about {words.count(one.statistics.rows)} rows, {size}"


def faults(tables: Sequence[Surveyed], risks: Mapping[str, Sequence[Badge]]) -> list[tuple[str, Badge]]:
    """The risks of the chosen tables, worst first."""
    badges = [(one.table.full_name, badge) for one in tables for badge in risks.get(one.table.full_name, ())]
    return sorted(badges, key=lambda pair: list(ICONS).index(pair[1].tone))
