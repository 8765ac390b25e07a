"""Asks the server what a plan needs: statistics of all tables at once, and two dives into each table's index.

The runner, the command line and the console use `plan_tables`. With `exact=False` it touches no table: a schema of a
thousand tables is planned in well under a second, from statistics alone.
"""

import difflib
from collections.abc import Sequence

from engine.base.errors import SpecError, TableStoppedError
from engine.decode.schema import Table
from engine.plan.chunks import Plan
from engine.plan.strategy import KeyEnds, chunk_key, decide
from engine.plan.walk import key_ends
from engine.source.catalog import Statistics, statistics
from engine.source.connect import Connection, query, quote
from engine.spec.settings import Snapshot

_COUNTED = 100_000
"""If the statistics show no rows, count up to this many."""


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
            plans.append(
                _plan(connection, table, estimate, settings) if exact else decide(table, estimate, None, settings)
            )
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
    if not estimate.rows and ends.minimum is not None:
        # The statistics of a recently filled table may say 0.
        source = quote(table.database, table.name)
        (row,) = query(connection, f"SELECT COUNT(*) AS n FROM (SELECT 1 FROM {source} LIMIT {_COUNTED + 1}) AS some")
        if row["n"] <= _COUNTED:
            estimate = Statistics(int(row["n"]), estimate.row_bytes, estimate.data_bytes)
    return decide(table, estimate, ends, settings)


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
