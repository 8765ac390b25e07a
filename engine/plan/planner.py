"""Asks the server what a plan needs: statistics of all tables at once, and two dives into each table's index.

The runner, the command line and the console use `plan_tables`. With `exact=False` it touches no table: a schema of a
thousand tables is planned in well under a second, from statistics alone.
"""

import difflib
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial

from engine.base.errors import SpecError, TableStoppedError
from engine.decode.schema import Table
from engine.plan.chunks import Plan
from engine.plan.keys import ChunkKey
from engine.plan.strategy import NUMBERS, KeyEnds, chunk_key, decide, distribution_factor
from engine.plan.walk import key_ends
from engine.source.catalog import Statistics, statistics
from engine.source.connect import Connection, query, quote
from engine.spec.settings import Snapshot

_COUNTED = 100_000
"""If the statistics show no rows, or far fewer than the key has room for, count up to this many."""
_ROOM = 2.0
"""Statistics of less than half of `_COUNTED` are doubted if the distribution factor by them is larger than this."""
_SLACK = 1000
"""Statistics are outdated if the table has more than twice their rows and this many more."""
_LEAST_ROW_BYTES = 10
"""The system columns of InnoDB alone take 18 bytes, compressed ones less."""


def plan_tables(
    connection: Connection,
    tables: Sequence[Table],
    settings: Snapshot,
    *,
    exact: bool = True,
    stopped: dict[str, TableStoppedError] | None = None,
) -> list[Plan]:
    """The plans of the tables, in the same order.

    exact: fetch the two ends of each key, which decide between even and uneven.

    stopped: collects the errors of tables that cannot be planned; they have no plan. Without it, the errors are raised.
    Raises SpecError for an unsuitable chunk key.
    """
    estimates, plans = statistics(connection, tables), []
    for table in tables:
        estimate = estimates.get(table.full_name, Statistics(0, 0, 0))
        try:
            make = partial(_plan, connection) if exact else _estimated
            plans.append(make(table, estimate, settings))
        except TableStoppedError as error:
            if stopped is None:
                raise
            stopped[table.full_name] = error
    return plans


def _plan(connection: Connection, table: Table, estimate: Statistics, settings: Snapshot) -> Plan:
    key = chunk_key(table, settings)
    if key is None:
        return decide(table, estimate, None, settings)
    ends = KeyEnds(*key_ends(connection, table, key))
    if not _is_doubtful(key, estimate, ends):
        return _noted(decide(table, estimate, ends, settings), table, _too_small(estimate))
    # The statistics of a recently filled table may say 0, or what it had before.
    source = quote(table.database, table.name)
    (row,) = query(connection, f"SELECT COUNT(*) AS n FROM (SELECT 1 FROM {source} LIMIT {_COUNTED + 1}) AS some")
    counted, fault = int(row["n"]), ""
    if counted > 2 * estimate.rows + _SLACK:
        has = f"{counted:,}" if counted <= _COUNTED else f"more than {_COUNTED:,}"
        fault = f"they show {estimate.rows:,} rows, and the table has {has}"
    if fault or not estimate.rows:
        estimate = replace(estimate, rows=counted if counted <= _COUNTED else 0)  # 0 is unknown: it is walked
    return _noted(decide(table, estimate, ends, settings), table, fault)


def _is_doubtful(key: ChunkKey, estimate: Statistics, ends: KeyEnds) -> bool:
    """Whether the statistics may be outdated: they show no rows, or few for the range of a numeric key."""
    if ends.minimum is None or ends.maximum is None or not estimate.rows:
        return ends.minimum is not None
    if 2 * estimate.rows + _SLACK > _COUNTED or key.columns[0].type not in NUMBERS:
        return False
    return distribution_factor(Decimal(ends.minimum), Decimal(ends.maximum), estimate.rows) > _ROOM


def _too_small(estimate: Statistics) -> str:
    """What is wrong with the size; empty if nothing is. InnoDB counts rows at once, and measures sizes later."""
    if estimate.engine.lower() != "innodb" or estimate.rows <= _SLACK:
        return ""
    row_bytes = estimate.data_bytes / estimate.rows
    return f"by them, a row has {row_bytes:.2g} bytes" if row_bytes < _LEAST_ROW_BYTES else ""


def _estimated(table: Table, estimate: Statistics, settings: Snapshot) -> Plan:
    """The plan by the statistics alone."""
    fault = _too_small(estimate)
    if not estimate.rows:
        fault = "they show no rows, unless the table is empty"
    return _noted(decide(table, estimate, None, settings), table, fault)


def _noted(plan: Plan, table: Table, fault: str) -> Plan:
    """The plan, with what is wrong with the statistics in its reason. fault: empty if nothing is."""
    if not fault:
        return plan
    note = (
        f"The server's statistics look outdated, and with them size and time: {fault}. Renew them: "
        f"ANALYZE TABLE {quote(table.database, table.name)}; or plan again later, when the server has done it"
    )
    return replace(plan, reason=f"{plan.reason}. {note}")


def check_names(tables: Sequence[Table], settings: Snapshot) -> None:
    """Raises SpecError if a chunk key is configured for a table that is not captured."""
    names = [table.full_name for table in tables]
    for name in settings.chunk_key:
        if name not in names:
            nearest = difflib.get_close_matches(name, names, 1, 0.0)
            raise SpecError(
                f"snapshot.chunk_key names {name!r}, which is not among the captured tables.",
                detail="Nothing was started.",
                hint=f"The nearest of them is {nearest[0]!r}." if nearest else "",
            )
