"""Which thresholds of the lag are in force, by the tables that are captured. Pure.

The lag is the pipeline's: one position is committed for all tables. A rule of `alerts.tables` says how much of it is
too much for some tables. Each table follows the last rule that matches it and has a `lag_s`, or else the pipeline's own
threshold. So one alert is raised per rule, however many tables it has, and a threshold that no captured table follows
is not in force.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.base.wording import plural
from engine.journal.events import TableStateChanged
from engine.spec.alert_settings import Alerts

Rules = Mapping[str, tuple[float, Sequence[str]]]
"""By glob, a threshold in seconds and the tables that follow it."""


@dataclass(frozen=True)
class InForce:
    """The thresholds that tables follow."""

    whole_pipeline: bool
    """Whether the pipeline's own one is among them."""
    rules: Rules


class LagRules:
    """The thresholds in force. `hear` takes the state of each table, which every run writes at its start."""

    def __init__(self, settings: Alerts) -> None:
        self._settings = settings
        self._tables: set[str] = set()  # copying or streaming
        self._in_force: InForce | None = None  # for these tables; a look every two seconds must not match 1,000 names

    def hear(self, event: TableStateChanged) -> None:
        """Add or remove a table. A stopped table has an alert of its own."""
        followed = event.state in ("copying", "streaming")
        if followed == (event.table in self._tables):
            return
        if followed:
            self._tables.add(event.table)
        else:
            self._tables.discard(event.table)
        self._in_force = None

    def whole_pipeline(self) -> bool:
        """Whether the pipeline's own threshold is in force: for a table, or as long as no table is known."""
        return self._rules_in_force().whole_pipeline

    def rules(self) -> Rules:
        """By glob, the threshold in seconds and the tables that follow it."""
        return self._rules_in_force().rules

    def _rules_in_force(self) -> InForce:
        if self._in_force is None:
            self._in_force = self._matched()
        return self._in_force

    def _matched(self) -> InForce:
        """Match all tables with all globs."""
        thresholds: dict[str, tuple[float, list[str]]] = {}
        others = not self._tables
        for name in sorted(self._tables):
            glob = self._settings.lag_rule(name)
            limit_s = self._settings.tables[glob].lag_s if glob is not None else None
            if glob is not None and limit_s is not None:
                thresholds.setdefault(glob, (limit_s, []))[1].append(name)
            else:
                others = True
        return InForce(others, thresholds)


def behind_words(glob: str, tables: Sequence[str], lag_s: float, limit_s: float | None) -> str:
    """`2 tables of shop.pay_* are 45 s behind the source, more than 30 s.` limit_s: None if it is not exceeded."""
    one = list(tables) == [glob]
    subject = glob if one else f"{plural(len(tables), 'table')} of {glob}"
    verb = "is" if len(tables) == 1 else "are"
    more = f", more than {limit_s:,.0f} s" if limit_s is not None else ""
    return f"{subject} {verb} {lag_s:,.0f} s behind the source{more}."
