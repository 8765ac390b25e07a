"""Start, pause, resume and stop. Each command goes through the pipeline's inbox; the journal answers."""

from collections.abc import Mapping
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.parts import access, focus, home, messages
from app.view.commands import Sent
from app.view.health import Runner
from engine import clock, settings
from engine.directory import Directory, send_command
from engine.errors import TidemarkError

_SENT, _CLICKS = "sent commands", "clicks acted on"

_ASKING = {
    "pause": (
        (
            "Reading stops after the chunks and the segment in hand; what is committed stays. The lag grows until you resume, and "
            "the source must keep its binlog for as long."
        ),
        "Pause pipeline",
    ),
    "stop": (
        (
            "The runner commits what it holds and ends. Nothing is lost: a later start goes on from the committed position, as "
            "long as the source still has the binlog from there."
        ),
        "Stop pipeline",
    ),
}


def sent(name: str) -> list[Sent]:
    """Commands that this browser sent to a pipeline."""
    everything: dict[str, list[Sent]] = st.session_state.setdefault(_SENT, {})
    return everything.setdefault(name, [])


def clicks(name: str) -> int:
    """How many clicks of this browser on a pipeline's buttons were acted on: the number of the next one, and part of its key."""
    acted_on: dict[str, int] = st.session_state.setdefault(_CLICKS, {})
    return acted_on.setdefault(name, 0)


def first_time(name: str, click: int) -> bool:
    """Whether this click is new; from now on it is not.

    The browser sends a click a moment after it was made. A refresh that falls into that moment, which a busy browser makes
    long, carries the click as well, and Streamlit calls the callback for each: one click paused a pipeline three times.
    """
    if clicks(name) != click:
        return False
    st.session_state[_CLICKS][name] += 1
    return True


def controls(where: Directory, runner: Runner, *, key: str, spark: bool = False) -> None:
    """The buttons that make sense in the runner's state, in one row."""
    click = clicks(where.root.name)
    with st.container(horizontal=True, horizontal_alignment="right", gap="small"):
        if spark and runner.spark_ui:
            st.link_button(
                "Spark", runner.spark_ui, icon=":material/open_in_new:", help="Spark's own pages", key=f"{key}-spark"
            )
        if not access.operator():
            return
        if runner.alive and runner.state in ("running", "starting"):
            _ask("pause", where, "Pause", key)
        if runner.alive and runner.state == "paused":
            with _place():
                st.button(
                    "Resume",
                    icon=":material/play_arrow:",
                    type="primary",
                    key=f"{key}-resume-{click}",
                    on_click=_send,
                    args=(where, click, "resume", ""),
                )
        if runner.alive and runner.state in ("running", "starting", "paused"):
            _ask("stop", where, "Stop", key)
        if not runner.alive:
            with _place():
                start_button(where, runner, key=key)


def _place() -> DeltaGenerator:
    """Room for a button that a popover may replace, or that may replace one.

    A bare button would stand beside its successor for a tenth of a second, and the click of a quick hand would meet what has
    moved under it.
    """
    return st.container(width="content")


def start_button(where: Directory, runner: Runner, *, key: str) -> None:
    """Start, or start again. A callback: it is carried out even when the next click leaves the page at once."""
    click = clicks(where.root.name)
    st.button(
        "Start" if runner.state in ("new", "starting") else "Start again",
        icon=":material/play_arrow:",
        type="secondary" if runner.state == "ended" else "primary",
        key=f"{key}-start-{click}",
        disabled=runner.state == "starting",
        on_click=start,
        args=(where, click),
    )


def start(where: Directory, click: int) -> None:
    """Check what can be checked at once, then launch; `refusal` shows why not."""
    if not first_time(where.root.name, click) or not access.operator():
        return
    try:
        settings.password(settings.load(where.spec).source)
        home.launch(where)
    except TidemarkError as problem:
        st.session_state[f"refused {where.root.name}"] = problem
    except OSError as problem:
        st.session_state[f"refused {where.root.name}"] = TidemarkError(
            f"The runner could not be started: {problem}.", detail="Nothing was read and nothing was changed."
        )


def refusal(name: str) -> None:
    """Why the last start from here was not even tried."""
    problem = st.session_state.pop(f"refused {name}", None)
    if isinstance(problem, TidemarkError):
        messages.error(problem)


def _ask(verb: str, where: Directory, label: str, key: str) -> None:
    """A button that opens a question with room for a reason.

    It opens in the browser alone and its answer is a callback: neither can be lost when the page is drawn anew meanwhile, as
    happens whenever the runner's state changes.
    """
    name = f"{key}-{verb}"
    meaning, confirm = _ASKING[verb]
    click = clicks(where.root.name)
    with st.popover(label, icon=f":material/{verb}:", key=name):
        st.markdown(meaning, width=380)
        st.text_input("Reason", placeholder="Shown in the events and the history", key=f"{name}-reason")
        st.button(
            confirm,
            type="primary",
            key=f"{name}-confirm-{click}",
            on_click=_confirmed,
            args=(where, click, verb, f"{name}-reason"),
        )
        focus.first(name)


def _confirmed(where: Directory, click: int, verb: str, reason_key: str) -> None:
    _send(where, click, verb, st.session_state.get(reason_key) or "")


def _send(where: Directory, click: int, verb: str, reason: str) -> None:
    if first_time(where.root.name, click):
        post(where, verb, reason)


def post(where: Directory, verb: str, reason: str | None, arguments: Mapping[str, Any] | None = None) -> str:
    """Send a command in the name of whoever looks, and remember it; returns its id. Nothing is sent for who may not."""
    if not access.operator():
        return ""
    identity = send_command(where, verb, reason=(reason or "").strip(), arguments=arguments, actor=access.actor())
    sent(where.root.name).append(Sent(identity, verb, clock.utc_now()))
    return identity
