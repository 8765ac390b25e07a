"""Announces alerts: in the journal, as JSON lines on stderr, in a file that outlives the run, and through a webhook.

It listens to the journal, so the coordinator knows nothing of it. A journal writer pays for a few comparisons, and for a file of a
few hundred bytes when an alert is raised or cleared.
"""

import json
import sys
import threading
from contextlib import suppress

from engine import clock
from engine.directory import Directory, list_text, read_alerts, write_atomically
from engine.events import ErrorReported
from engine.journal import Entry, Journal
from engine.posting import message
from engine.run.helpers import Helpers
from engine.run.observe.alerts import Alert, Alerts, Name, Notice
from engine.run.observe.webhook import Webhook
from engine.settings import Spec, webhook

PATIENCE_S = 5.0
"""Seconds that an ending run waits for undelivered alerts."""


class Notifier:
    """The alerts of one run."""

    def __init__(self, spec: Spec, directory: Directory, journal: Journal, helpers: Helpers) -> None:
        self._spec, self._directory, self._journal, self._helpers = spec, directory, journal, helpers
        self._alerts = Alerts(spec.alerts, _standing(directory), spec.source.max_resnapshots_per_hour)
        self._lock = threading.RLock()  # an announcement is a journal line, which comes back here
        self._webhook: Webhook | None = None
        journal.listeners.append(self.hear)

    def standing(self) -> list[Name]:
        """The names of the active alerts."""
        return list(self._alerts.standing)

    def connect(self) -> None:
        """Post to the webhook from now on, if there is one. Raises SpecError when its address is unknown."""
        url = webhook(self._spec.alerts)
        if url is not None:
            self._webhook = Webhook(url, self._undelivered, self._helpers)

    def hear(self, entry: Entry) -> None:
        """Handle a line of the journal."""
        with self._lock:
            notices = self._alerts.hear(entry, clock.monotonic_s())
            for notice in notices:
                self._announce(notice)
            if self._alerts.unsaved:
                self._save()

    def close(self) -> None:
        """Wait up to `PATIENCE_S` for undelivered alerts."""
        if self._webhook is not None:
            self._webhook.close(PATIENCE_S)

    def _announce(self, notice: Notice) -> None:
        kind, alert = notice
        entry = self._journal.write(kind(**alert.fields()))
        posted = message(kind.NAME, entry.ts, self._spec.name, self._journal.run, alert.fields())
        with suppress(OSError, ValueError):  # stderr may be closed
            print(json.dumps(posted, ensure_ascii=False), file=sys.stderr, flush=True)  # noqa: T201
        if self._webhook is not None:
            self._webhook.post(posted)

    def _save(self) -> None:
        with suppress(OSError):  # a full disk: the alert is announced anyway, and saved when there is room
            if standing := self._alerts.as_list():
                write_atomically(self._directory.alerts, list_text("alerts", standing))
            else:
                self._directory.alerts.unlink(missing_ok=True)
            self._alerts.unsaved = False

    def _undelivered(self, problem: str, retry_s: float | None) -> None:
        self._journal.write(
            ErrorReported(
                error="WebhookError",
                message=f"An alert could not be posted to the webhook: {problem}.",
                detail="The run continues; alerts are in the journal and on stderr too. This is reported once until it works.",
                hint="Check the webhook, and the address in alerts.webhook_env or alerts.webhook_file.",
                attempt=1,
                retry_in_s=retry_s,
            )
        )


def _standing(directory: Directory) -> list[Alert]:
    """The alerts that an earlier run left active; none if the file is invalid."""
    with suppress(ValueError, OSError, TypeError, KeyError):
        return [Alert(**record) for record in read_alerts(directory)]
    return []
