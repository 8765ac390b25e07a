"""The buttons beside an alert that end its cause, as *Live* has them."""

from app.common import access, controls, home, runner_notice, table_acts
from app.common.table_acts import CommandVerb
from app.common.view.alert_list import Firing
from engine.journal.outage_causes import ALERTS as OUTAGES
from engine.pipeline.directory import Directory

_OF_RUNS = ("run_failed", "runner_lost", "runner_frozen", "not_restarted")
_OF_TABLES = ("table_stopped", "mirror_unreadable")


def _table_acts(where: Directory, one: Firing) -> dict[str, tuple[CommandVerb, ...]]:
    return table_acts.of_tables(where, one.table) if one.kind in _OF_TABLES and one.table else {}


def has_table_buttons(where: Directory, one: Firing) -> bool:
    """Whether the buttons of a table stand below the alert's text."""
    return access.operator() and bool(_table_acts(where, one))


def buttons(where: Directory, one: Firing, *, key: str) -> None:
    """The buttons that end the cause of an alert.

    None for a viewer, or if no button ends the cause.
    """
    if not access.operator():
        return
    runner = home.runner(where)
    if acts := _table_acts(where, one):
        table_acts.buttons(where, acts, key=key)
    elif one.kind in OUTAGES.values() and runner.away is not None and runner.away.attempt:
        controls.try_now(where, key)
    elif one.kind in _OF_RUNS:
        runner_notice.restart(where, runner, key=key)
        controls.refusal(where.root.name)
