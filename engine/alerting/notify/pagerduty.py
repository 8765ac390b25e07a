"""Alerts as events of PagerDuty's Events API v2.

An alert triggers an incident and its end resolves it, both with the same `dedup_key`: the pipeline, the kind and the
table. So a repeated alert, and one that another run repeats, joins the incident that is open. The time at which an
alert began is no part of the key: an alert whose message changes is raised again without an end in between.
"""

import hashlib
import json
from typing import Any

from engine.alerting.notify.notice import CLEARED, TEST, Notice, footer, headline

_SUMMARY, _KEY = 1024, 255
"""The longest texts that PagerDuty takes."""


def dedup_key(notice: Notice) -> str:
    """The key of the incident; a digest if it would be too long."""
    parts = [notice.pipeline, notice.kind, notice.table]
    key = "tidemark/" + "/".join(str(part) for part in parts if part)
    return key if len(key) <= _KEY else "tidemark/" + hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def pagerduty_events(notice: Notice, routing_key: str) -> list[dict[str, Any]]:
    """The events to post, in order. A test triggers an incident of the severity `info` and resolves it."""
    resolve = {"routing_key": routing_key, "event_action": "resolve", "dedup_key": dedup_key(notice)}
    if notice.event == CLEARED:
        return [resolve]
    trigger = {**resolve, "event_action": "trigger", "client": "Tidemark", "payload": _payload(notice)}
    return [trigger, resolve] if notice.event == TEST else [trigger]


def _payload(notice: Notice) -> dict[str, Any]:
    details = {
        name: getattr(notice, name) for name in ("message", "hint", "value", "threshold", "since", "run", "repeat")
    }
    return {
        "summary": f"{headline(notice)}: {notice.message}"[:_SUMMARY],
        "source": notice.host,
        "severity": "info" if notice.event == TEST else notice.severity,
        "timestamp": notice.ts,
        "component": notice.table or notice.pipeline,
        "group": notice.pipeline,
        "class": notice.kind,
        "custom_details": {**details, "about": footer(notice)},
    }
