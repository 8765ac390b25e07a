"""Shared by all screens: the pipelines, the index over their journals, and the runners that this console launched."""

import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import streamlit as st

from app.view.health import Runner, runner_of
from engine import clock, directory, settings
from engine.directory import Directory
from engine.errors import TidemarkError
from engine.history import History
from engine.history.fetch import Cursor
from engine.history.runs import latest_run
from engine.redaction import Scrubber, clean_toml
from engine.tail import tail

T = TypeVar("T")
P = ParamSpec("P")
_LAST = "last pipeline"
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
    """The folder that has all pipelines."""
    return Path(os.environ.get("TIDEMARK_HOME") or "~/.tidemark").expanduser()


def directories() -> list[Directory]:
    """All pipelines, by name."""
    return [Directory(spec.parent) for spec in sorted(home().glob("*/pipeline.toml"))]


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
    index.refresh(directories(), min_interval_s=1.0)
    return index.cursor()


def ask(query: Callable[Concatenate[Cursor, P], T], *args: P.args, **options: P.kwargs) -> T:
    """The answer of a query of `engine.history`, at most a second old."""
    index = history()
    index.refresh(directories(), min_interval_s=1.0)
    return index.ask(query, *args, **options)


def launch(where: Directory) -> None:
    """Launch a runner for a pipeline. It outlives this console."""
    process = directory.launch(where.spec, where)
    launches()[where.root.name] = Launch(process, clock.utc_now())


def launched_at(name: str) -> datetime | None:
    """When this console launched the pipeline's runner, if that may still be starting."""
    found = launches().get(name)
    if found is None or found.process.poll() is not None:
        return None
    return found.at if (clock.utc_now() - found.at).total_seconds() < LAUNCH_GRACE_S else None


def exit_code(name: str) -> int | None:
    """The exit code of a runner that this console launched and that has ended."""
    found = launches().get(name)
    return found.process.poll() if found else None


def runner(where: Directory) -> Runner:
    """The current state of a pipeline's runner."""
    name = where.root.name
    found = runner_of(record_of(where), ask(latest_run, name), launched_at(name))
    code = exit_code(name)
    # A runner that failed before its first heartbeat leaves only an exit code and a log.
    if (
        code
        and found.state in ("new", "ended", "lost")
        and (found.last_seen is None or found.last_seen < launches()[name].at)
    ):
        return runner_of({"state": "ended", "error": f"The runner ended at once with exit code {code}."}, None)
    return found


def record_of(where: Directory) -> dict[str, Any] | None:
    """`runner.json`; None if it is missing or cannot be read."""
    try:
        return directory.read_runner(where)
    except TidemarkError as problem:  # of a newer version: show only the error
        return {"state": "ended", "error": problem.as_dict()}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def alerts_of(where: Directory) -> list[dict[str, Any]]:
    """The active alerts; none if the file cannot be read."""
    try:
        return directory.read_alerts(where)
    except (OSError, ValueError, KeyError, TidemarkError):
        return []


def log_tail(where: Directory, lines: int = 40) -> str:
    """The end of the runner's log, redacted; empty if there is none."""
    try:
        text = "\n".join(tail(where.log, _LOG_BYTES).splitlines()[-lines:])
    except OSError:
        return ""
    know_secrets(where)
    return Scrubber().clean(text)


def know_secrets(where: Directory) -> None:
    """Register the secrets of a pipeline for redaction. An invalid spec has none."""
    with suppress(TidemarkError):
        settings.load(where.spec)


def spec_text(where: Directory) -> str:
    """The redacted spec, for operators and viewers; empty if there is none."""
    know_secrets(where)
    try:
        return clean_toml(where.spec.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return ""


def choose(names: list[str]) -> str:
    """Select a pipeline: the one in the URL, else the one of the previous page, else the first.

    The default of the field is None: Streamlit keeps a default out of the URL, and the selected pipeline must be in it. If the
    field is emptied, the previous selection stays.
    """
    before = next(name for name in (st.session_state.get(_LAST), *names) if name in names)
    if st.session_state.get("pipeline") not in names:
        asked = st.query_params.get("pipeline")
        st.session_state["pipeline"] = asked if asked in names else before
    chosen = st.selectbox(
        "Pipeline",
        names,
        index=None,
        key="pipeline",
        label_visibility="collapsed",
        bind="query-params",
        placeholder=before,
    )
    st.session_state[_LAST] = chosen or before
    return chosen or before
