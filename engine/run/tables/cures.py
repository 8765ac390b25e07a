"""Stopped tables that a changed spec brings back, or takes out of the pipeline, at the next start. Pure.

The text of a stop names the setting that led to it. If the spec now has a value with which the table would not have
stopped, it is resnapshotted, as by `redump`: that is right whatever happened before.

A stopped table that joined by the globs of `source.tables` and is not selected by them any more is removed. Its
published data stays. A table that a command added was never selected by them, and stays.
"""

import re

from engine.base.errors import DecodeError
from engine.capture.projection.projection_rules import has_other_rules
from engine.decode.schema import table_from_dict
from engine.ledger.state import State, TableState
from engine.spec.globs import select_tables
from engine.spec.settings import Spec

_COLUMN = re.compile(r"Column '(.+)' \(")
_LIMIT = re.compile(r"source\.max_resnapshots_per_hour is (\d+)")


def cured(spec: Spec, state: State) -> list[str]:
    """The stopped tables that this spec lets continue, as far as it decides."""
    return [name for name, table in state.tables.items() if table.stopped and _is_cured(spec, table)]


def _is_cured(spec: Spec, table: TableState) -> bool:
    assert table.stopped is not None
    stop = table.stopped
    if has_other_rules(spec, table):
        return True
    if stop.error == DecodeError.__name__ and "source.invalid_dates" in stop.hint:
        column = _COLUMN.search(stop.message)
        keyed = column is not None and column[1] in table_from_dict(table.table).key
        return spec.source.invalid_dates == "null" and not keyed
    if "source.schema_changes = stop" in stop.detail:
        return spec.source.schema_changes == "copy"
    limit = _LIMIT.search(stop.hint)
    return limit is not None and spec.source.max_resnapshots_per_hour > int(limit[1])


def left_out(spec: Spec, state: State) -> list[str]:
    """The stopped tables that the spec's globs selected once and do not any more. Empty if no table would be left."""
    stopped = {name: table_from_dict(table.table) for name, table in state.tables.items() if table.stopped}
    places = {name: (table.database, table.name) for name, table in stopped.items()}
    selected = set(select_tables(spec.source.tables, places.values()))
    names = [name for name, place in places.items() if place not in selected and state.tables[name].by is None]
    return names if len(names) < len(state.tables) else []
