"""The runner notice: the pipeline has never run, is starting, has failed or lost its runner, or cannot reach its source."""

import streamlit as st

from app.parts import home, messages
from app.view import words
from app.view.health import Runner, away_line, troubles
from engine import clock
from engine.directory import Directory, read_standbys


def show(where: Directory, runner: Runner) -> None:
    """A panel for each state that needs attention; nothing for a healthy runner."""
    if runner.away is not None:
        st.warning(
            f"**{words.escape(away_line(runner.away, clock.utc_now()))}**  \n{words.escape(runner.away.error)}  \n"
            "Committed state is safe. The run continues when the source is reachable. Check the source and the network.",
            icon=":material/cloud_off:",
        )
    for standby in read_standbys(where):
        since = words.date_time(clock.parse_utc(standby["since"]))
        st.caption(
            f"Process {standby['pid']} on {words.escape(standby['host'])} is on standby since {since} and takes over if needed."
        )
    if runner.alive:
        for what, meaning, do in troubles(home.record_of(where) or {}):
            messages.three_parts(what, meaning, do)
    if runner.state == "new":
        st.info(
            "This pipeline has never run. Start it with the button above. Reading begins when Spark is up, "
            "after about ten seconds.",
            icon=":material/info:",
        )
    elif runner.state == "starting" and not runner.alive:
        st.info(
            "The runner was launched and is expected to send its first heartbeat within seconds.",
            icon=":material/hourglass_top:",
        )
        _log(where, expanded=False)
    elif runner.state == "failed":
        _failed(runner)
        _log(where, expanded=True)
    elif runner.state == "lost":
        messages.three_parts(
            f"The runner has sent no heartbeat since {words.date_time(runner.last_seen)}.",
            "Committed state is safe. Nothing is being read now, and the lag grows.",
            f"Check the log below and process {runner.pid} on {runner.host}, then restart. The new run continues from the "
            "committed position.",
        )
        _log(where, expanded=True)


def _failed(runner: Runner) -> None:
    error = runner.error or {"message": "The run ended with an unknown error.", "detail": "", "hint": ""}
    detail = error["detail"] or "Committed state is safe. Nothing is being read now."
    messages.three_parts(error["message"], detail, error["hint"] or "Check the log below, fix the cause, and restart.")


def _log(where: Directory, *, expanded: bool) -> None:
    tail = home.log_tail(where)
    with st.expander("End of the runner's log", expanded=expanded and bool(tail), icon=":material/terminal:"):
        if tail:
            st.code(tail, language=None, height=260 if tail.count("\n") > 11 else "content")
        else:
            st.caption("There is no log. The runner was started elsewhere, or never.")
