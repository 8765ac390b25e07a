"""Looks at the source while a pipeline runs.

It looks for what the preflight requires, captured tables that the account may not read any more, cascades that are not
logged, binlog filters, and new tables.

It also compares settings, grants, certificate and version with those of the run's beginning
(`run.monitors.source_drift`).

Preflight names those that are there at the start. This thread looks every minute, and soon after a table was altered,
added or resnapshotted, and after the source was away: a restart brings other settings. While the source lacks a
setting, or is not as it was when the run began, it looks every few seconds, so that a correction shows. A look is one
statement per database, and on MariaDB one more per table with a foreign key: 25 to 50 ms for 400 of them.

Foreign keys that were there when the run began raise no alert, unless an alert of an earlier run names their table. A
filter always does: no run starts with one.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

from engine.base import clock
from engine.base.errors import LoginRefusedError, PrivilegesMissingError, SourceChangedError, TransientError
from engine.decode.schema import table_from_dict
from engine.journal import Entry, Journal
from engine.journal.events import Event, SourceAway, SourceBack, TableChanged, TableStateChanged
from engine.journal.verification_events import HiddenChanges
from engine.ledger.state import State
from engine.pipeline.helpers import Helpers
from engine.run.monitors.source_drift import SourceDrift
from engine.run.tables.first_epoch import SourceAccess
from engine.run.tables.membership_commands import members_of, streamed_tables
from engine.source.catalog import list_tables
from engine.source.connect import Connection, break_off, open_connection
from engine.source.hidden_changes import filtered_databases, unlogged_cascades
from engine.source.hidden_tables import check_hidden
from engine.source.preflight import Check, running
from engine.source.source_facts import Facts
from engine.spec.globs import new_matches
from engine.spec.settings import Source as Settings

INTERVAL_S = 60.0
_CHANGED_S = 5.0
"""The interval while the source lacks a setting, or is not as it was when the run began."""
_LOOK_S = 0.5
_REST_S = 2.0
"""The shortest time between two looks, however many tables are altered."""
_SHARE = 0.05
"""The largest share of the time in which it looks."""
_KINDS = ("cascade", "binlog_filter", "new_tables", "source_settings")

HiddenName = tuple[str, str | None]
"""The kind, and the table whose rows a cascade changes: also the name of the alert."""
_SETTINGS: HiddenName = ("source_settings", None)
HiddenChangesByName = Mapping[HiddenName, tuple[str, ...]]
"""Foreign keys, databases that the server leaves out, tables, or settings."""


class ReportedChanges:
    """The cascades of the run's start, and what was reported since. Pure.

    alerted: the names of alerts that an earlier run left active.
    """

    def __init__(self, alerted: Iterable[HiddenName]) -> None:
        self._reported: dict[HiddenName, tuple[str, ...] | None] = {name: None for name in alerted if name[0] in _KINDS}
        self._at_start: dict[HiddenName, frozenset[str]] = {}

    def begin(self, cascades: Mapping[str, tuple[str, ...]]) -> None:
        """Take the foreign keys of the preflight, by table."""
        cascade_names: dict[HiddenName, frozenset[str]] = {
            ("cascade", table): frozenset(names) for table, names in cascades.items()
        }
        self._at_start = {name: names for name, names in cascade_names.items() if name not in self._reported}

    def news(self, changes: HiddenChangesByName, hint: str = "") -> list[HiddenChanges]:
        """The events of a look.

        The foreign keys of a table that is not captured any more are gone. hint: for the settings.
        """
        # A foreign key that is dropped and comes back is new.
        self._at_start = {name: names & {*changes.get(name, ())} for name, names in self._at_start.items()}
        news = []
        for name in sorted({*changes, *self._reported}, key=str):
            names = tuple(one for one in changes.get(name, ()) if one not in self._at_start.get(name, ()))
            if self._reported.get(name, ()) != names:
                do = hint if name == _SETTINGS else ""
                news.append(HiddenChanges(kind=name[0], table=name[1], names=names, hint=do))
            self._reported[name] = names
        self._reported = {name: names for name, names in self._reported.items() if names}
        return news


def interval_s(*, changed: bool) -> float:
    """Seconds between two looks that nobody asked for.

    changed: whether the source lacks a setting, or is not as it was when the run began.
    """
    return _CHANGED_S if changed else INTERVAL_S


class Refusals:
    """Whether a privilege that is missing is a matter of the looks alone.

    If the run lacks it too, the run says so, and waits. It notices within the time between two looks.
    """

    def __init__(self) -> None:
        self._count = 0
        self._run_waits = False

    def hear(self, event: Event) -> None:
        """Take an event of the run."""
        if isinstance(event, SourceAway | SourceBack):
            self._run_waits = isinstance(event, SourceAway)

    def refused(self) -> bool:
        """Count a refused look. Returns whether it is to be reported."""
        self._count += 1
        return self._count > 1 and not self._run_waits

    def allowed(self) -> None:
        """Take note that a look succeeded."""
        self._count = 0


class HiddenMonitor:
    """Looks until it is closed. state: the committed state. changes: the run's."""

    def __init__(
        self,
        source: SourceAccess,
        journal: Journal,
        helpers: Helpers,
        state: Callable[[], State],
        changes: ReportedChanges,
        settings: Settings,
        drift: SourceDrift,
    ) -> None:
        self._source = source
        self._journal = journal
        self._helpers = helpers
        self._state = state
        self._changes = changes
        self._settings = settings
        self._drift = drift
        self._facts: Facts = {}
        self._request = threading.Event()
        self._closing = threading.Event()
        self._request.set()
        self._connection: Connection | None = None
        self._unmet: Sequence[Check] = ()
        self._refusals = Refusals()
        journal.listeners.append(self._hear)
        self._thread = threading.Thread(target=self._work, name="hidden changes", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread, also if the source does not answer it."""
        self._closing.set()
        self._journal.listeners = [one for one in self._journal.listeners if one != self._hear]
        if (connection := self._connection) is not None:
            break_off(connection)
        self._thread.join(timeout=5)

    def _hear(self, entry: Entry) -> None:
        self._refusals.hear(entry.event)
        if isinstance(entry.event, TableChanged | TableStateChanged | SourceBack):
            self._request.set()

    def _work(self) -> None:
        ended_s, took_s = -INTERVAL_S, 0.0
        while not self._closing.wait(_LOOK_S):
            began_s = clock.monotonic_s()
            on_request = self._request.is_set() and began_s - ended_s >= max(_REST_S, took_s / _SHARE)
            changed = bool(self._unmet) or self._drift.differs
            if not on_request and began_s - ended_s < max(interval_s(changed=changed), took_s / _SHARE):
                continue
            self._request.clear()
            try:
                self._look()
                self._refusals.allowed()
                self._helpers.succeeded("hidden changes")
            except (TransientError, SourceChangedError, LoginRefusedError):
                pass  # others report that the source is away, refuses the login, or is another server
            except PrivilegesMissingError as error:
                if self._refusals.refused():
                    self._helpers.failed("hidden changes", error)
            except Exception as error:  # noqa: BLE001 - a helper's error must not end it
                self._helpers.failed("hidden changes", error)
            ended_s = clock.monotonic_s()
            took_s = ended_s - began_s

    def _look(self) -> None:
        """Look once, and write the news to the journal. Raises TidemarkError."""
        captured_tables = [table_from_dict(table.table) for table in self._state().tables.values()]
        tables = [
            (table.database, table.name) for table in captured_tables if not table.remedy
        ]  # others hide their definitions
        with self._source.turns.take(1):
            changes = self._hidden_names(tables)
        if self._closing.is_set():  # this may be another server than the run's by now
            return
        hint = "\n".join(dict.fromkeys(check.fix for check in self._unmet if check.fix))
        required = [check.name for check in self._unmet]
        for event in (*self._changes.news(changes, hint), *self._drift.news(self._facts, required)):
            self._journal.write(event)

    def _hidden_names(self, tables: Sequence[tuple[str, str]]) -> dict[HiddenName, tuple[str, ...]]:
        connection = self._connection = open_connection(self._source.endpoint)
        try:
            filtered = filtered_databases(connection, self._source.server, [database for database, _ in tables])
            cascades = unlogged_cascades(connection, self._source.server, tables)
            new = self._left_out(connection)
            now = running(connection, self._source.endpoint, self._settings)
            select = check_hidden(connection, streamed_tables(self._state()))
        finally:
            self._connection = None
            connection.close()
        self._unmet = [*now.unmet, *([select] if select.outcome == "fail" else [])]
        self._facts = now.facts
        changes: dict[HiddenName, tuple[str, ...]] = {("cascade", table): names for table, names in cascades.items()}
        if filtered:
            changes["binlog_filter", None] = tuple(filtered)
        if new:
            changes["new_tables", None] = new
        if self._unmet:
            changes[_SETTINGS] = tuple(f"{one.name} is {one.actual}, not {one.expected}" for one in self._unmet)
        return changes

    def _left_out(self, connection: Connection) -> tuple[str, ...]:
        """The tables that appeared, match the spec, and are not captured because of `source.new_tables`."""
        if self._settings.new_tables == "add":
            return ()
        members = members_of(self._state())
        new = new_matches(self._settings.tables, list_tables(connection), members.also | members.without)
        return tuple(f"{database}.{table}" for database, table in new)
