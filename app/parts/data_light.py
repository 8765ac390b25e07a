"""The fourth light of a pipeline or a table, and the tables that it sums up."""

import time
from datetime import datetime
from functools import lru_cache

import streamlit as st

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

_KEPT_S = 10.0
"""For so long the tables are kept if no summary changes: with thousands of tables, they take longer than the rest of the strip."""


def verify_settings(where: Directory) -> Verify:
    """The spec's settings; the usual ones if the spec cannot be read, which the Live page shows."""
    try:
        return settings.load(where.spec).verify
    except TidemarkError:
        return Verify()


@st.cache_resource
def _kept() -> dict[str, tuple[float, float, list[VerifiedTable]]]:
    """By pipeline, when its summaries were changed, when they were read (monotonic seconds), and its tables."""
    return {}


def tables_of(where: Directory, now: datetime) -> list[VerifiedTable]:
    """The pipeline's tables, without removed ones."""
    name, changed, now_s = where.root.name, summaries_changed(where), time.monotonic()
    known = _kept().get(name)
    if known is None or known[0] != changed or now_s - known[1] > _KEPT_S:
        names = [one.table for one in home.ask(table_queries.progress, name) if one.state != "removed"]
        found = verification.tables_of(names, read_summaries(where), verify_settings(where), now)
        known = _kept()[name] = changed, now_s, found
    return known[2]


@lru_cache(maxsize=1024)
def _differences_in(where: Directory, _changed_s: float) -> int:
    return sum(one["differences"] for one in read_summaries(where).values())


def differences(where: Directory) -> int:
    """The rows that are known to differ. The summaries are read again if they change."""
    changed_s = summaries_changed(where)
    return _differences_in(where, changed_s) if changed_s else 0


def table_layer(where: Directory, table: str, now: datetime) -> Layer:
    """The light of one table."""
    return verification.layer([one for one in tables_of(where, now) if one.table == table], now)


def layer_of(where: Directory, now: datetime, *, current: bool) -> Layer:
    """The light. current: whether the mirrors follow the source now."""
    return verification.layer(tables_of(where, now), now, current=current)
