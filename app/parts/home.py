"""What all screens share: where the pipelines are, the index over their journals, and the runners started from here."""

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
_LOG_BYTES = 16 << 10
"""A runner that was launched longer ago than this and never gave a sign is not starting any more."""


@dataclass
class Launch:
    """A runner that this console started. The process is kept so that its exit code is collected."""

    process: subprocess.Popen[bytes]
    at: datetime


def home() -> Path:
    """The folder that holds every pipeline."""
    return Path(os.environ.get("TIDEMARK_HOME") or "~/.tidemark").expanduser()


def directories() -> list[Directory]:
    """Every pipeline of this machine's home, by name."""
    return [Directory(spec.parent) for spec in sorted(home().glob("*/pipeline.toml"))]


@st.cache_resource(show_spinner="Reading the journals")
def history() -> History:
    """The index: one for all browsers of this console. The first look at a long history takes a while."""
    index = History(home() / "history.duckdb")
    index.refresh(directories())
    return index


@st.cache_resource
def launches() -> dict[str, Launch]:
    """Runners that this console started, by pipeline."""
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
    """Start a runner for a pipeline; it outlives this console."""
    process = directory.launch(where.spec, where)
    launches()[where.root.name] = Launch(process, clock.utc_now())


def launched_at(name: str) -> datetime | None:
    """When this console launched the pipeline's runner, while that may still be starting."""
    found = launches().get(name)
    if found is None or found.process.poll() is not None:
        return None
    return found.at if (clock.utc_now() - found.at).total_seconds() < LAUNCH_GRACE_S else None


def exit_code(name: str) -> int | None:
    """The exit code of a runner that this console launched and that has ended."""
    found = launches().get(name)
    return found.process.poll() if found else None


def runner(where: Directory) -> Runner:
    """What is known of a pipeline's runner now."""
    name = where.root.name
    found = runner_of(record_of(where), ask(latest_run, name), launched_at(name))
    code = exit_code(name)
    # A runner that failed before its first heartbeat left nothing but its exit code and its log.
    if (
        code
        and found.state in ("new", "ended", "lost")
        and (found.last_seen is None or found.last_seen < launches()[name].at)
    ):
        return runner_of({"state": "ended", "error": f"The runner ended at once with exit code {code}."}, None)
    return found


def record_of(where: Directory) -> dict[str, Any] | None:
    """`runner.json`; None when there is none or it cannot be understood."""
    try:
        return directory.read_runner(where)
    except TidemarkError as problem:  # of a newer version: it is said, and nothing else is
        return {"state": "ended", "error": problem.as_dict()}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def alerts_of(where: Directory) -> list[dict[str, Any]]:
    """The alerts that stand; none when the file cannot be understood."""
    try:
        return directory.read_alerts(where)
    except (OSError, ValueError, KeyError, TidemarkError):
        return []


def log_tail(where: Directory, lines: int = 40) -> str:
    """The end of the runner's log; empty when there is none."""
    try:
        text = "\n".join(tail(where.log, _LOG_BYTES).splitlines()[-lines:])
    except OSError:
        return ""
    know_secrets(where)
    return Scrubber().clean(text)


def know_secrets(where: Directory) -> None:
    """Let this process know the secrets of a pipeline, so that none of them is shown; a wrong spec leads to none."""
    with suppress(TidemarkError):
        settings.load(where.spec)


def spec_text(where: Directory) -> str:
    """The spec as it is shown, to operators as to viewers: without secrets. Empty when there is none."""
    know_secrets(where)
    try:
        return clean_toml(where.spec.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return ""


def choose(names: list[str]) -> str:
    """Let a pipeline be chosen: that of the address, else that of the page before, else the first.

    None is the field's default: Streamlit takes a name that is out of the address, and keeps the one chosen before. A field
    that was emptied leaves all as it is.
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
