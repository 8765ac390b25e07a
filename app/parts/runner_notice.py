"""What is shown when a pipeline does not run as it should: never started, starting, failed, lost, without its source."""

import streamlit as st

from app.parts import home, messages
from app.view import words
from app.view.health import Runner, away_line, troubles
from engine import clock
from engine.directory import Directory, read_standbys


def situation(where: Directory, runner: Runner) -> None:
    """A panel for each state that asks for attention; nothing for a runner that is well."""
    if runner.away is not None:
        st.warning(
            f"**{words.escape(away_line(runner.away, clock.utc_now()))}**  \n{words.escape(runner.away.error)}  \n"
            "What was committed is safe. The run goes on when the source answers; look at the source and at the way to it.",
            icon=":material/cloud_off:",
        )
    for standby in read_standbys(where):
        since = words.date_time(clock.parse_utc(standby["since"]))
        st.caption(
            f"Process {standby['pid']} on {words.escape(standby['host'])} stands by since {since}, and takes over."
        )
    if runner.alive:
        for what, meaning, do in troubles(home.record_of(where) or {}):
            messages.three_parts(what, meaning, do)
    if runner.state == "new":
        st.info(
            "This pipeline has never run. Start it with the button above; reading begins once Spark is up, "
            "after about ten seconds.",
            icon=":material/info:",
        )
    elif runner.state == "starting" and not runner.alive:
        st.info("The runner was launched; its first heartbeat is due within seconds.", icon=":material/hourglass_top:")
        _log(where, expanded=False)
    elif runner.state == "failed":
        _failed(runner)
        _log(where, expanded=True)
    elif runner.state == "lost":
        messages.three_parts(
            f"The runner has not been heard of since {words.date_time(runner.last_seen)}.",
            "What was committed is safe and nothing is being read now; the lag grows.",
            f"Look at the log below and at process {runner.pid} on {runner.host}, then start again: the new run goes on from "
            "the committed position.",
        )
        _log(where, expanded=True)


def _failed(runner: Runner) -> None:
    error = runner.error or {"message": "The run ended with an error that it did not name.", "detail": "", "hint": ""}
    detail = error["detail"] or "What was committed is safe and nothing is being read now."
    messages.three_parts(
        error["message"], detail, error["hint"] or "Look at the log below, correct the cause, start again."
    )


def _log(where: Directory, *, expanded: bool) -> None:
    tail = home.log_tail(where)
    with st.expander("End of the runner's log", expanded=expanded and bool(tail), icon=":material/terminal:"):
        if tail:
            st.code(tail, language=None, height=260 if tail.count("\n") > 11 else "content")
        else:
            st.caption("There is no log: the runner was started elsewhere, or never.")
