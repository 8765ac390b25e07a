"""The fourth light of a pipeline or a table, and the tables that it sums up."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from app.common import home
from app.common.view import verification
from app.common.view.health import Layer
from app.common.view.verification import VerifiedTable
from engine.base import clock
from engine.base.errors import TidemarkError
from engine.explore.table_facts import committed_facts
from engine.history import table_queries
from engine.journal.verification_summary import Summary, Unreadable
from engine.pipeline.directory import Directory
from engine.pipeline.table_verdict import TableFacts
from engine.pipeline.verification_records import ForeignChanges
from engine.pipeline.verifications import mirror_logs_changed, read_mirror_logs, read_summaries, summaries_changed
from engine.spec import settings
from engine.spec.verify_settings import OFF, Verify

_MOST = 8
"""Pipelines in the cache. One with 5 000 tables takes about 12 MB."""
_tables_by_pipeline: dict[Path, tuple[object, float, float, list[VerifiedTable]]] = {}
"""By directory: the facts behind the tables, the seconds from and until which they hold, and the tables."""
_READ_S = 3.0
"""The ledger and the Delta logs are read again after this time."""
_facts_by_pipeline: dict[Path, "_VerificationFacts"] = {}
"""By directory: the facts of the last read."""


def verify_settings(where: Directory) -> Verify:
    """The spec's settings; the usual ones if the spec cannot be read, which the Live page shows."""
    try:
        return settings.load(where.spec).verify
    except TidemarkError:
        return Verify()


def tables_of(where: Directory, now: datetime) -> list[VerifiedTable]:
    """The pipeline's tables, without removed ones. Cached until a fact changes, or a verdict by its age."""
    stamp, verify = summaries_changed(where), verify_settings(where)
    names = home.ask(table_queries.captured, where.root.name, _differing_in(where, stamp) if stamp else ())
    foreign = _foreign_in(where, mirror_logs_changed(where))
    stopped_tables = frozenset(home.ask(table_queries.stopped, where.root.name))
    facts, now_s = (names, stamp, verify, foreign, stopped_tables, _committed(where, now)), now.timestamp()
    old_facts, since_s, until_s, tables = _tables_by_pipeline.get(where.root, (None, 0.0, 0.0, []))
    if old_facts != facts or not since_s <= now_s <= until_s:
        tables = verification.tables_of(_facts(where, *names), verify, now)
        if len(_tables_by_pipeline) >= _MOST:
            _tables_by_pipeline.clear()
        _tables_by_pipeline[where.root] = facts, now_s, verification.steady_until_s(tables, verify), tables
    return tables


def _facts(where: Directory, *names: str) -> dict[str, TableFacts]:
    """The facts of tables.

    Verification files and the journal are newer than what was last read of the ledger.
    """
    summaries, foreign = read_summaries(where), _foreign_in(where, mirror_logs_changed(where))
    stopped_tables = frozenset(home.ask(table_queries.stopped, where.root.name))
    ledger_facts = _facts_by_pipeline[where.root].facts if where.root in _facts_by_pipeline else {}
    return {
        name: _newer(
            ledger_facts.get(name, TableFacts()), summaries.get(name), foreign.get(name), name in stopped_tables
        )
        for name in names
    }


def _newer(facts: TableFacts, summary: Summary | None, foreign: ForeignChanges | None, stopped: bool) -> TableFacts:
    generation = facts.generation
    if generation is not None and summary is not None:
        generation = max(generation, summary.generation)
    return replace(facts, summary=summary, generation=generation, foreign=foreign, stopped=stopped or facts.stopped)


@dataclass(frozen=True)
class _VerificationFacts:
    """The facts in the ledger and the Delta logs of one pipeline."""

    facts: Mapping[str, TableFacts]
    until_s: float
    """When they are read again, on the monotonic clock."""


def _committed(where: Directory, now: datetime) -> Mapping[str, TableFacts]:
    """What the ledger and the Delta logs say of the tables.

    Empty if they cannot be read; other parts of the page show the error.

    They are read at most every `_READ_S` seconds, and for at most 2 % of the time. Equal facts are the same object.
    """
    read, began_s = _facts_by_pipeline.get(where.root), clock.monotonic_s()
    if read is not None and began_s < read.until_s:
        return read.facts
    facts: Mapping[str, TableFacts] = {}
    with suppress(OSError, TidemarkError):
        facts = committed_facts(where, settings.load(where.spec), now)
    took_s = clock.monotonic_s() - began_s
    if read is not None and facts == read.facts:
        facts = read.facts
    if len(_facts_by_pipeline) >= _MOST:
        _facts_by_pipeline.clear()
    _facts_by_pipeline[where.root] = _VerificationFacts(facts, began_s + max(_READ_S, 50 * took_s))
    return facts


@lru_cache(maxsize=1024)
def _differing_in(where: Directory, _changed_s: float) -> tuple[str, ...]:
    return tuple(sorted(name for name, one in read_summaries(where).items() if one.differences))


@lru_cache(maxsize=1024)
def _foreign_in(where: Directory, _changed_s: float) -> Mapping[str, ForeignChanges]:
    return read_mirror_logs(where).foreign


@lru_cache(maxsize=1024)
def _differences_in(where: Directory, _changed_s: float) -> int:
    return sum(one.differences for one in read_summaries(where).values())


def differences(where: Directory) -> int:
    """The rows that are known to differ. The summaries are read again if they change."""
    changed_s = summaries_changed(where)
    return _differences_in(where, changed_s) if changed_s else 0


def table_layer(where: Directory, table: str, now: datetime, *, current: bool) -> Layer:
    """The light of one table. current: whether its mirror follows the source now."""
    tables = [one for one in tables_of(where, now) if one.table == table]
    if not tables:  # it was removed
        tables = verification.tables_of(_facts(where, table), verify_settings(where), now)
    return verification.layer(tables, now, current=current, continuous=_continuous(where))


def broken(where: Directory, table: str, now: datetime) -> Unreadable | None:
    """Why a table's mirror cannot be read; None if it can, as far as known."""
    return next((one.broken for one in tables_of(where, now) if one.table == table), None)


def read_facts(where: Directory, now: datetime) -> None:
    """Read what the lights need. May wait for the destination's store.

    Call it before the runner's state is read: the lights of one page are then equally old.
    """
    _committed(where, now)


def layer_of(where: Directory, now: datetime, *, current: bool) -> Layer:
    """The light of a pipeline. current: whether the mirrors follow the source now."""
    return verification.layer(tables_of(where, now), now, current=current, continuous=_continuous(where))


def _continuous(where: Directory) -> bool:
    return verify_settings(where).period != OFF
