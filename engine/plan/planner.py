"""Asking the server what a plan needs: statistics of all tables at once, and two dives into each one's index.

`plan_tables` serves the run, the command line and the console. With `exact=False` it touches no table: a schema of a thousand
tables is planned in well under a second, from statistics alone.
"""

import difflib
from collections.abc import Sequence

from engine.decode.schema import Table
from engine.errors import SpecError, TableStoppedError
from engine.plan.chunks import Plan
from engine.plan.strategy import Ends, chunk_key, decide
from engine.plan.walk import key_ends
from engine.settings import Snapshot
from engine.source.catalog import Statistics, statistics
from engine.source.connect import Connection, query, quote

_COUNTED = 100_000
"""So many rows are counted at the most where the statistics know of none."""


def plan_tables(
    connection: Connection,
    tables: Sequence[Table],
    settings: Snapshot,
    *,
    exact: bool = True,
    stopped: dict[str, TableStoppedError] | None = None,
) -> list[Plan]:
    """The plans of the tables, in their order. exact: with the two ends of each key, which decide between even and uneven.

    stopped: gets the errors of tables that cannot be planned, which have no plan then; without it they are raised. Raises SpecError
    for a chunk key that does not do.
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
    ends = Ends(*key_ends(connection, table, key))
    if not estimate.rows and ends.minimum is not None:
        # The statistics of a table that was filled a moment ago say 0.
        source = quote(table.database, table.name)
        (row,) = query(connection, f"SELECT COUNT(*) AS n FROM (SELECT 1 FROM {source} LIMIT {_COUNTED + 1}) AS some")
        if row["n"] <= _COUNTED:
            estimate = Statistics(int(row["n"]), estimate.row_bytes, estimate.data_bytes)
    return decide(table, estimate, ends, settings)


def check_names(tables: Sequence[Table], settings: Snapshot) -> None:
    """Raises SpecError for a chunk key that is configured for a table that is not captured."""
    names = [table.full_name for table in tables]
    for name in settings.chunk_key:
        if name not in names:
            nearest = difflib.get_close_matches(name, names, 1, 0.0)
            raise SpecError(
                f"snapshot.chunk_key names {name!r}, which is not among the captured tables.",
                detail="Nothing was started.",
                hint=f"The nearest of them is {nearest[0]!r}." if nearest else "",
            )
