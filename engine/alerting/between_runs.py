"""Lets the alerts of a run that is gone hear what a command has verified since.

While a runner is alive, it journals each verification and decides (`verify.continuous`). Without one, nobody would: an
alert would stand for rows that were verified since, and the next run would begin with it. The decision is that of
`ActiveAlerts` in both cases.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress

from engine.alerting.alerts import ActiveAlerts, AlertNotice
from engine.alerting.notify.routes import announce
from engine.alerting.silences import silence_of
from engine.base import clock
from engine.base.durable import write_atomically
from engine.journal import Entry
from engine.journal.afterword import append_to
from engine.journal.events import Event
from engine.journal.verification_events import MirrorWritten, TableVerified
from engine.pipeline.active_alert import Alert
from engine.pipeline.directory import Directory
from engine.pipeline.runner_file import find_runner, surely_gone
from engine.pipeline.saved_lists import list_text, read_runners_alerts
from engine.pipeline.verifications import has_proved, read_mirror_logs, read_summaries
from engine.spec.settings import Spec


def report_verified(spec: Spec, directory: Directory, tables: Iterable[str]) -> None:
    """Raise and clear alerts by the newest verifications of these tables, unless a runner may be alive to do it.

    They go to the file of active alerts, to the journal of the newest run, and through the routes, which takes tens of
    seconds if a receiver does not answer. Does nothing if the file is damaged.
    """
    runner = find_runner(directory)
    if runner is None or not surely_gone(runner):
        return
    with suppress(OSError, ValueError, KeyError, TypeError):
        standing = read_runners_alerts(directory)

        def silenced(alert: Alert) -> bool:
            return silence_of(directory, alert) is not None

        alerts = ActiveAlerts(spec.alerts, standing, spec.source.max_resnapshots_per_hour, silenced)
        entries = (Entry(runner.run, 0, clock.utc_text(), event) for event in _events(directory, tables))
        notices = [notice for entry in entries for notice in alerts.hear(entry)]
        if alerts.unsaved:
            write_atomically(directory.alerts, list_text("alerts", alerts.as_list()))
        for notice in notices:
            _announce(spec, directory, runner.run, notice)


def _events(directory: Directory, tables: Iterable[str]) -> Iterator[Event]:
    """What a run would journal of the verifications."""
    summaries, foreign = read_summaries(directory), read_mirror_logs(directory).foreign
    for table in tables:
        if (summary := summaries.get(table)) is None:
            continue
        yield TableVerified(table=table, differences=summary.differences, summary=summary)
        if table in foreign and has_proved(summary, foreign[table].version):
            yield MirrorWritten(table=table, commits=0, cleared_by="verification")


def _announce(spec: Spec, directory: Directory, run: str, notice: AlertNotice) -> None:
    kind, alert = notice
    with suppress(OSError):  # a full disk: the file has it
        append_to(directory.journals, run, alert.event(kind))
    if not alert.held:
        announce(spec, directory, alert.event(kind))
