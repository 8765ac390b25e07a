"""Shared by all screens: the pipelines, the index over their journals, and the runners that this console launched."""

import json
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import streamlit as st

from app.common.view.alert_list import Firing, firing_alerts, standing_alerts
from app.common.view.runner_view import Runner, runner_of
from engine.alerting.acknowledgements import Acknowledgement, acknowledgement_of
from engine.alerting.silences import silence_of
from engine.base import clock
from engine.base.errors import ErrorRecord, TidemarkError
from engine.base.redaction import Scrubber, clean_toml
from engine.base.tail import tail
from engine.history import History
from engine.history.fetch import Cursor
from engine.history.runs import Run, latest_run, spec_of
from engine.history.series import Lag
from engine.pipeline.active_alert import Alert
from engine.pipeline.directory import Directory
from engine.pipeline.launch import launch as start_runner
from engine.pipeline.remote_state.host_pipelines import pipelines_in, usual_folder
from engine.pipeline.runner_file import read_runner
from engine.pipeline.runner_record import RunnerRecord, TableReading
from engine.pipeline.saved_lists import read_alerts
from engine.spec import settings
from engine.spec.alert_settings import Alerts

T = TypeVar("T")
P = ParamSpec("P")
LAUNCH_GRACE_S = 60.0
"""A launched runner without a heartbeat counts as starting for this long."""
_LOG_BYTES = 16 << 10


@dataclass
class Launch:
    """A runner that this console launched."""

    process: subprocess.Popen[bytes]
    """Kept to collect its exit code."""
    at: datetime


def home() -> Path:
    """The folder that has all pipelines, as an absolute path: runners start in another folder."""
    return usual_folder()


def directories() -> list[Directory]:
    """All pipelines, by name."""
    return pipelines_in(home())


@st.cache_resource(show_spinner="Reading the journals")
def history() -> History:
    """The index, shared by all browsers. Reading a long history for the first time takes a while."""
    index = History(home() / "history.duckdb")
    index.refresh(directories())
    return index


@st.cache_resource
def launches() -> dict[str, Launch]:
    """The runners that this console launched, by pipeline."""
    return {}


def fresh() -> Cursor:
    """A cursor on an index that is at most a second old."""
    index = history()
    index.refresh(directories, min_interval_s=1.0)
    return index.cursor()


def ask(query: Callable[Concatenate[Cursor, P], T], *args: P.args, **options: P.kwargs) -> T:
    """The answer of a query of `engine.history`, at most a second old."""
    index = history()
    index.refresh(directories, min_interval_s=1.0)
    return index.ask(query, *args, **options)


def launch(where: Directory) -> None:
    """Launch a runner for a pipeline. It outlives this console."""
    process = start_runner(where.spec, where)
    launches()[where.root.name] = Launch(process, clock.utc_now())


def launched_at(name: str) -> datetime | None:
    """When this console launched the pipeline's runner, if that may still be starting."""
    own_launch = launches().get(name)
    if own_launch is None or own_launch.process.poll() is not None:
        return None
    return own_launch.at if (clock.utc_now() - own_launch.at).total_seconds() < LAUNCH_GRACE_S else None


def exit_code(name: str) -> int | None:
    """The exit code of a runner that this console launched and that has ended."""
    own_launch = launches().get(name)
    return own_launch.process.poll() if own_launch else None


def runner(where: Directory) -> Runner:
    """The current state of a pipeline's runner."""
    return _runner(where, record_of(where), ask(latest_run, where.root.name))


def glance(where: Directory) -> Runner:
    """Like `runner`, but without the index wherever `runner.json` alone says whether there is a problem."""
    record, name = record_of(where), where.root.name
    ended_well = record is not None and record.state == "ended" and record.error is None
    unknown = record is None and where.journals.is_dir()
    return _runner(where, record, _ended(name, record.run if record else "") if ended_well or unknown else None)


@st.cache_resource
def _ends() -> dict[tuple[str, str], Run]:
    """Runs that have ended, which do not change any more."""
    return {}


def _ended(name: str, run: str) -> Run | None:
    """The newest run, which `runner.json` calls `run`. Only the journal has its exit code."""
    if (name, run) in _ends():
        return _ends()[name, run]
    latest = ask(latest_run, name)
    if latest is not None and latest.ended is not None and latest.run == run:
        _ends()[name, run] = latest
    return latest


def _runner(where: Directory, record: RunnerRecord | None, run: Run | None) -> Runner:
    name = where.root.name
    if name not in launches():
        return runner_of(record, run)
    runner = runner_of(record, run, launched_at(name))
    code = exit_code(name)
    # A runner that failed before its first heartbeat leaves only an exit code and a log.
    if (
        code
        and runner.state in ("new", "ended", "failed", "lost")
        and (runner.last_seen is None or runner.last_seen < launches()[name].at)
    ):
        started = clock.utc_text(launches()[name].at)
        error = ErrorRecord(message=f"The runner ended at once with exit code {code}.")
        return runner_of(RunnerRecord("ended", error=error, started=started), None)
    return runner


def record_of(where: Directory) -> RunnerRecord | None:
    """The newest run, by `runner.json`; None if that is missing or cannot be read."""
    try:
        return read_runner(where)
    except TidemarkError as problem:  # of a newer version: show only the error
        return RunnerRecord("ended", error=ErrorRecord(**problem.as_dict()))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def live_record(where: Directory) -> RunnerRecord | None:
    """What a live runner says of itself; None without one, and if it does not respond."""
    record = record_of(where)
    return record if record is not None and record.responds else None


def reading_of(where: Directory) -> Mapping[str, TableReading]:
    """The longest running reads of a live runner, by table."""
    record = live_record(where)
    return record.reading if record is not None else {}


def alerts_of(where: Directory) -> list[Alert]:
    """The active alerts; none if the file cannot be read."""
    try:
        return read_alerts(where)
    except (OSError, ValueError, KeyError, TypeError, TidemarkError):
        return []


def lacking_settings(where: Directory) -> tuple[str, ...]:
    """The required settings that the source lacks, in one sentence each."""
    return tuple(one.message for one in alerts_of(where) if one.kind == "source_settings")


def acknowledgement(where: Directory, alert: Alert) -> Acknowledgement | None:
    """Who acknowledged an alert; None if nobody did, or if that cannot be read."""
    try:
        return acknowledgement_of(where, alert)
    except TidemarkError:
        return None


def firing(where: Directory, runner: Runner | None = None, lag: Lag | None = None) -> list[Firing]:
    """The alerts of a pipeline that have not cleared. runner: its runner, if known. lag: the latest measurement."""
    runner = runner or glance(where)
    standing = standing_alerts(runner, alerts_of(where))
    find_acknowledgement, find_silence = partial(acknowledgement, where), partial(silence_of, where)
    return firing_alerts(
        where.root.name, runner, standing, find_acknowledgement, lag, find_silence, origin_of(where).alerts
    )


def log_tail(where: Directory, lines: int = 40) -> str:
    """The end of the runner's log, redacted; empty if there is none."""
    try:
        text = "\n".join(tail(where.log, _LOG_BYTES).splitlines()[-lines:])
    except OSError:
        return ""
    know_secrets(where)
    return Scrubber().clean(text)


@dataclass(frozen=True)
class Origin:
    """What the list of pipelines and the alerts take from a spec."""

    source: str = ""
    """The source's host and port; empty if the spec cannot be read."""
    tags: tuple[str, ...] = ()
    alerts: Alerts = field(default_factory=Alerts)


def origin_of(where: Directory) -> Origin:
    """Where a pipeline's rows come from, and its tags. The spec is read again if its file changes."""
    try:
        return _origin_in(where.spec, where.spec.stat().st_mtime_ns)
    except OSError:
        return Origin()


@lru_cache(maxsize=1024)
def _origin_in(spec: Path, _changed_ns: int) -> Origin:
    try:
        loaded_spec = settings.load(spec)
    except TidemarkError:
        return Origin()
    return Origin(f"{loaded_spec.source.host}:{loaded_spec.source.port}", loaded_spec.tags, loaded_spec.alerts)


def know_secrets(where: Directory) -> None:
    """Register the secrets of a pipeline for redaction. An invalid spec has none."""
    with suppress(TidemarkError):
        settings.load(where.spec)


def in_force(where: Directory) -> Mapping[str, Any] | None:
    """The settings that the live runner follows, redacted; None without one."""
    record, name = live_record(where), where.root.name
    text = ask(spec_of, name, record.run) if record is not None else None
    settings_in_force: Mapping[str, Any] | None = json.loads(text) if text else None
    return settings_in_force


def spec_text(where: Directory) -> str:
    """The redacted spec, for operators and viewers; empty if there is none."""
    know_secrets(where)
    try:
        return clean_toml(where.spec.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return ""
