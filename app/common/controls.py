"""Start, pause, resume and stop. Commands go through the pipeline's inbox; the answers are in the journal."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.common import access, home, messages
from app.common.view import words
from app.common.view.commands import Sent
from app.common.view.runner_view import Runner
from engine.base import clock
from engine.base.errors import TidemarkError
from engine.pipeline.command_file import send_command
from engine.pipeline.directory import Directory
from engine.spec import settings
from engine.watch.watch_status import as_status

_SENT, _ANSWERS, _CLICKS = "sent commands", "shown answers", "handled clicks"
_UNSURE = "pipeline that was not confirmed"

_CONFIRM = {
    "pause": (
        (
            "Reading stops after the current chunks and binlog range. Committed state stays. The lag grows until you "
            "resume, and the source must keep its binlog until then."
        ),
        "Pause pipeline",
    ),
    "stop": (
        (
            "The runner commits what it has and ends. Nothing is lost: the next start continues from the committed "
            "position, as long as the source still has the binlog from there."
        ),
        "Stop pipeline",
    ),
    "cancel": (
        "The watchdog does not restart the runner. The pipeline stays down until you start it.",
        "Leave it down",
    ),
}


def sent(name: str) -> list[Sent]:
    """The commands that this browser sent to a pipeline."""
    everything: dict[str, list[Sent]] = st.session_state.setdefault(_SENT, {})
    return everything.setdefault(name, [])


def answers_shown() -> dict[str, datetime]:
    """When the answer to each command was first shown in this browser, by the command's id."""
    times: dict[str, datetime] = st.session_state.setdefault(_ANSWERS, {})
    return times


def clicks(name: str) -> int:
    """How many clicks on a pipeline's buttons were handled in this browser.

    The number is part of the key of the next button.
    """
    counts: dict[str, int] = st.session_state.setdefault(_CLICKS, {})
    return counts.setdefault(name, 0)


def first_time(name: str, click: int) -> bool:
    """Whether this click is new. Marks it as handled.

    The browser sends a click with a short delay. An autorefresh in the meantime carries the click too, and Streamlit
    then calls the callback for each of them: one click paused a pipeline three times.
    """
    if clicks(name) != click:
        return False
    st.session_state[_CLICKS][name] += 1
    st.session_state.pop(_refused(name), None)
    return True


def controls(where: Directory, runner: Runner, *, key: str, spark: bool = False) -> None:
    """The buttons for the runner's state, in one row."""
    click = clicks(where.root.name)
    with st.container(horizontal=True, horizontal_alignment="right", gap="small"):
        if spark and runner.spark_ui:
            st.link_button(
                "Spark", runner.spark_ui, icon=":material/open_in_new:", help="Opens the Spark UI", key=f"{key}-spark"
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
                    on_click=send_once,
                    args=(where, click, "resume", ""),
                )
        if runner.alive and runner.state in ("running", "starting", "paused"):
            _ask("stop", where, "Stop", key)
        if not runner.alive:
            if (watch := as_status(where, home.record_of(where))) and watch.due:
                ask(where, "stop", "Cancel restart", ":material/stop:", *_CONFIRM["cancel"], key=f"{key}-cancel")
            if runner.state != "starting":
                with _place():
                    start_button(where, runner, key=key)


def try_now(where: Directory, key: str = "try") -> None:
    """The button that ends the pause before the next try to reach the source."""
    if access.operator():
        click = clicks(where.root.name)
        st.button(
            "Try now",
            icon=":material/refresh:",
            key=f"{key}-{click}",
            on_click=send_once,
            args=(where, click, "resume", ""),
        )


def _place() -> DeltaGenerator:
    """A container for a button that a popover replaces in another state, or that replaces one.

    Without it, both are visible for a tenth of a second, and a quick click may hit the wrong one.
    """
    return st.container(width="content")


def start_button(where: Directory, runner: Runner, *, key: str) -> None:
    """The button to start or restart. It has a callback, which runs even if the next click leaves the page."""
    click = clicks(where.root.name)
    st.button(
        "Start" if runner.state == "new" else "Restart",
        icon=":material/play_arrow:",
        type="secondary" if runner.state == "ended" or runner.needs_resnapshot else "primary",
        key=f"{key}-start-{click}",
        on_click=start,
        args=(where, click),
    )


def start(where: Directory, click: int) -> None:
    """Check what can be checked quickly, then launch the runner. `refusal` shows an error."""
    if first_time(where.root.name, click):
        _launch(where)


def _launch(where: Directory) -> None:
    if not access.operator():
        return
    problem = launch(where)
    if problem is not None:
        st.session_state[_refused(where.root.name)] = problem


def launch(where: Directory) -> TidemarkError | None:
    """Launch the runner, or return why that is not possible."""
    try:
        settings.password(settings.load(where.spec).source)
        home.launch(where)
    except TidemarkError as problem:
        return problem
    except OSError as problem:
        return TidemarkError(f"The runner could not be started: {problem}.", detail="Nothing was read or changed.")
    return None


def resnapshot_all(where: Directory, key: str = "resnapshot-all") -> None:
    """The button that resnapshots all tables of a pipeline whose runner has ended, and starts the runner."""
    name = where.root.name
    if not access.operator():
        return
    click = clicks(name)
    with st.popover("Resnapshot all tables", icon=":material/restart_alt:", key=key, type="primary"):
        st.markdown(
            "All tables are read again from the present position of the source. Each mirror stays as it is until its "
            "copy is complete. The changes in the gap stay out of the change logs; this cannot be undone.",
            width=380,
        )
        st.text_input("Reason", placeholder="Shown in the events and the history", key=f"{key}-reason")
        st.text_input(f"Type {name} to confirm", key=f"{key}-sure")
        if st.session_state.get(_UNSURE) == name:
            st.markdown(f":red[Nothing was sent: the name is not {words.escape(name)}.]")
        st.button(  # never disabled: the focus would leave the popover (`focus`)
            "Resnapshot and start",
            type="primary",
            key=f"{key}-confirm-{click}",
            on_click=_resnapshot_all,
            args=(where, click, key),
        )


def _resnapshot_all(where: Directory, click: int, key: str) -> None:
    """Resnapshot everything, if the name is right."""
    name = where.root.name
    if st.session_state.get(f"{key}-sure") != name:
        st.session_state[_UNSURE] = name
        return
    st.session_state.pop(_UNSURE, None)
    if not first_time(name, click):
        return
    _resnapshot(where, f"{key}-reason", [])


def resnapshot_tables(where: Directory, tables: Sequence[str], key: str = "resnapshot-tables") -> None:
    """The button that resnapshots the tables whose fault ended the run, and starts the runner."""
    if not access.operator():
        return
    click = clicks(where.root.name)
    label = "Resnapshot the table" if len(tables) == 1 else f"Resnapshot {words.plural(len(tables), 'table')}"
    with st.popover(label, icon=":material/restart_alt:", key=key, type="primary"):
        st.markdown(
            f"**{words.escape(', '.join(tables))}**  \nRead again from the present position of the source, while the "
            "others stream on. The mirror stays as it is until the copy is complete; the change log keeps a gap.",
            width=380,
        )
        st.text_input("Reason", placeholder="Shown in the events and the history", key=f"{key}-reason")
        st.button(
            "Resnapshot and start",
            type="primary",
            key=f"{key}-confirm-{click}",
            on_click=_resnapshot_tables,
            args=(where, click, list(tables), f"{key}-reason"),
        )


def _resnapshot_tables(where: Directory, click: int, tables: list[str], reason_key: str) -> None:
    """Resnapshot the tables, once per click."""
    if first_time(where.root.name, click):
        _resnapshot(where, reason_key, tables)


def _resnapshot(where: Directory, reason_key: str, tables: list[str]) -> None:
    """Send the command, which waits for the runner, and launch the runner. tables: empty for all."""
    post(where, "redump", st.session_state.get(reason_key), {"tables": tables})
    _launch(where)


def _refused(name: str) -> str:
    return f"refused {name}"


def refusal(name: str) -> None:
    """Why the last click of this browser had no effect.

    It stays until the next click, because pages refresh by themselves.
    """
    problem = st.session_state.get(_refused(name))
    if isinstance(problem, TidemarkError):
        messages.error(problem)


def _ask(verb: str, where: Directory, label: str, key: str) -> None:
    """A button that asks for confirmation and a reason."""
    meaning, confirm = _CONFIRM[verb]
    ask(where, verb, label, f":material/{verb}:", meaning, confirm, key=f"{key}-{verb}")


def ask(
    where: Directory,
    verb: str,
    label: str,
    icon: str,
    meaning: str,
    confirm: str,
    *,
    key: str,
    arguments: Mapping[str, Any] | None = None,
) -> None:
    """A button that sends a command after a confirmation, with a reason.

    label, confirm: the labels of the button and of its confirmation. The page reruns whenever the runner's state
    changes. Neither is lost then: the confirmation opens in the browser alone, and it is a callback.
    """
    click = clicks(where.root.name)
    with st.popover(label, icon=icon, key=key):
        st.markdown(meaning, width=380)
        st.text_input("Reason", placeholder="Shown in the events and the history", key=f"{key}-reason")
        st.button(
            confirm,
            type="primary",
            key=f"{key}-confirm-{click}",
            on_click=_confirmed,
            args=(where, click, verb, f"{key}-reason", arguments),
        )


def _confirmed(
    where: Directory, click: int, verb: str, reason_key: str, arguments: Mapping[str, Any] | None = None
) -> None:
    send_once(where, click, verb, st.session_state.get(reason_key) or "", arguments)


def send_once(where: Directory, click: int, verb: str, reason: str, arguments: Mapping[str, Any] | None = None) -> None:
    """Send a command, unless this click has sent one already (`clicks`). A callback for buttons."""
    if first_time(where.root.name, click):
        post(where, verb, reason, arguments)


def post(where: Directory, verb: str, reason: str | None, arguments: Mapping[str, Any] | None = None) -> str:
    """Send a command in the name of the current user, and remember it. Returns its id; empty if nothing is sent."""
    if not access.operator():
        return ""
    try:
        identity = send_command(where, verb, reason=(reason or "").strip(), arguments=arguments, actor=access.actor())
    except TidemarkError as problem:  # the inbox belongs to another user
        st.session_state[_refused(where.root.name)] = problem
        return ""
    sent(where.root.name).append(Sent(identity, verb, clock.utc_now()))
    return identity
