"""The heartbeat of a runner: `runner.json`, which says what the runner does, and that it is alive."""

import json
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypedDict

from engine import clock, formats, processes
from engine.directory import Directory, overwrite, write_atomically
from engine.errors import is_disk_full
from engine.redaction import clean


class Reading(TypedDict):
    """The chunks of a table that have been read for the longest time."""

    chunks: list[int]
    since: str  # UTC


@dataclass
class Activity:
    """What a runner does now. Each field has one writer; the heartbeat shows them."""

    phase: str = "starting"
    """"starting", "snapshot" or "streaming"."""
    waiting_for: str = ""
    """Why no chunk is read now, in words; empty when nothing keeps them."""
    away: dict[str, Any] | None = None
    """The fields of `outage.Outage` while the source is away."""
    reading: Mapping[str, Reading] = field(default_factory=dict)
    """By table."""
    spark_ui: str | None = None
    """The address of Spark's own pages."""


class Heartbeat:
    """Rewrites `runner.json`."""

    def __init__(self, directory: Directory, run: str) -> None:
        self._directory, self._run = directory, run
        self._started, self._beats = clock.utc_text(), 0

    def beat(self, activity: Activity, **more: Any) -> None:
        """Write it once more. Raises OSError; on a full disk the file is overwritten in place before that.

        more: "state", "disk_full", "helpers", "controls", "commands" and "error", as `engine.directory.read_runner` gives them.
        """
        self._beats += 1
        record = {
            formats.FIELD: formats.VERSIONS["runner"],
            "run": self._run,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "phase": activity.phase,
            "heartbeat": clock.utc_text(),
            "beat": self._beats,
            "process": processes.here(),
            "started": self._started,
            "spark_ui": activity.spark_ui,
            "waiting_for": more["disk_full"] or activity.waiting_for,
            "away": activity.away,
            "reading": activity.reading,
            **more,
        }
        text = json.dumps(clean(record), indent=1)
        try:
            write_atomically(self._directory.runner, text)
        except OSError as error:
            if is_disk_full(error):
                with suppress(OSError):  # else the heartbeat gets old
                    overwrite(self._directory.runner, text)
            raise
