"""The runner notice: what keeps the pipeline from working.

It has never run, is starting, has failed or lost its runner, or cannot reach its source.
"""

import streamlit as st

from app.common import access, controls, home, messages, places
from app.common.autorefresh import autorefresh
from app.common.view import alert_list, blocked, words
from app.common.view.alert_list import kinds_of_state
from app.common.view.hints import for_console
from app.common.view.restart_line import restart_line
from app.common.view.runner_view import Runner, away_line, stands_still, startup_line, stop_during_start
from app.common.view.troubles import troubles
from engine.base import clock
from engine.base.errors import ErrorRecord
from engine.journal.outage_causes import over_when
from engine.pipeline.directory import Directory
from engine.pipeline.frozen_runner import GONE_HINT
from engine.pipeline.saved_lists import read_standbys
from engine.watch.watch_status import as_status


def away(where: Directory, runner: Runner) -> None:
    """A panel for an outage of the source, with a button for a try at once."""
    if runner.away is None:
        return
    check = for_console(runner.away.hint) if runner.away.refused else "Check the source and the network."
    show, icon = (st.error, ":material/lock:") if runner.away.refused else (st.warning, ":material/cloud_off:")
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        show(
            f"**{words.escape(away_line(runner.away, clock.utc_now()))}**  \n{words.escape(runner.away.error)}  \n"
            f"Committed state is safe. {over_when(runner.away.cause)}, the run continues and reads what was committed "
            f"meanwhile, as long as the source keeps its binlog (*Source safe*). {words.escape(check)}",
            icon=icon,
        )
        if runner.away.attempt:
            controls.try_now(where)


def problems(where: Directory, runner: Runner) -> None:
    """A panel for each problem that a live runner reports. It comes and goes with its cause."""
    record = home.live_record(where)
    if runner.alive and record is not None:
        for what, meaning, do, amber in troubles(record):
            messages.three_parts(what, meaning, do, amber=amber)
    blocked_reads(where)


def blocked_reads(where: Directory, table: str | None = None) -> None:
    """A panel for each table whose reads wait for a lock on the source. table: only this one."""
    for what, meaning, do in blocked.panels(home.live_record(where), table):
        messages.three_parts(what, meaning, do, amber=True)


def refused_reads(where: Directory, table: str | None = None) -> None:
    """A panel for each table that the account may not read. table: only this one."""
    for alert in alert_list.refused_reads(home.alerts_of(where), table):
        meaning = "The read of its rows waits for the grant. Published data is unaffected, and other tables are read."
        messages.three_parts(alert.message, meaning, for_console(alert.hint))


def explained_kinds(where: Directory, runner: Runner) -> set[str]:
    """The kinds of alerts that a panel already explains, so that the page does not repeat them."""
    kinds = set(kinds_of_state(runner))
    record = home.live_record(where)
    if runner.alive and record is not None and record.helpers:
        kinds.add("helper_failed")
    if blocked.panels(record):
        kinds.add(blocked.KIND)
    return kinds


def starting(runner: Runner) -> None:
    """The steps of a start, as they happen."""
    if line := startup_line(runner, clock.utc_now()):
        st.markdown(f":blue[:material/hourglass_top: Starting] {words.escape(line)}")


def show(where: Directory, runner: Runner) -> None:
    """A panel for each state that needs attention; nothing for a healthy runner."""
    for standby in read_standbys(where):
        since = words.date_time(clock.parse_utc(standby.since))
        st.caption(
            f"Process {standby.pid} on {words.escape(standby.host)} is on standby since {since} and takes over "
            "if needed."
        )
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
    elif text := stop_during_start(runner):
        st.info(words.escape(text), icon=":material/hourglass_bottom:")
        _log(where, expanded=False)
    elif runner.state == "failed":
        _failed(where, runner)
        _watched(where)
        _log(where, expanded=False)  # it ends with the same message
    elif runner.frozen is not None:
        messages.three_parts(runner.frozen.message, runner.frozen.detail, runner.frozen.hint)
        _log(where, expanded=not runner.frozen.stopped)
    elif runner.unseen is not None:
        messages.three_parts(runner.unseen.message, runner.unseen.detail, runner.unseen.hint)
        _watched(where)
        _log(where, expanded=True)
    elif runner.state == "lost":
        messages.three_parts(
            f"The runner has sent no heartbeat since {words.date_time(runner.last_seen)}.",
            "Committed state is safe. Nothing is being read now, and the lag grows.",
            GONE_HINT
            if runner.gone
            else f"Check the log below and process {runner.pid} on {runner.host}, then restart. "
            "The new run continues from the committed position.",
        )
        _watched(where)
        _log(where, expanded=True)


def brief(where: Directory, runner: Runner) -> None:
    """One line that says why nobody reads or writes, with a link to the live page; nothing if somebody does.

    For a page about a part of the pipeline.
    """
    text = stands_still(runner)
    if not text:
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(f":{runner.style.colour}[{runner.style.icon} {words.escape(text)}]", width="content")
        st.page_link(places.LIVE, label="Open the pipeline", query_params={"pipeline": where.root.name})
        restart(where, runner, key="notice")
    controls.refusal(where.root.name)


def restart(where: Directory, runner: Runner, *, key: str) -> None:
    """The button that restarts a runner that is lost or has failed, after a resnapshot if it would fail without one.

    Nothing for a viewer.
    """
    if not access.operator() or not runner.problem or runner.alive:
        return
    if runner.to_resnapshot:
        controls.resnapshot_tables(where, runner.to_resnapshot, f"{key}-resnapshot")
    elif runner.needs_resnapshot:
        controls.resnapshot_all(where, f"{key}-resnapshot-all")
    else:
        controls.start_button(where, runner, key=key)


@autorefresh()
def notices(where: Directory) -> None:
    """Why nothing is read or written: an outage of the source, or what `brief` says.

    For a page about a part of the pipeline.
    """
    runner = home.runner(where)
    away(where, runner)
    brief(where, runner)


def _failed(where: Directory, runner: Runner) -> None:
    error = runner.error or ErrorRecord(message="The run ended with an unknown error.")
    detail = error.detail or "Committed state is safe. Nothing is being read now."
    messages.three_parts(error.message, detail, error.hint or "Check the log below, fix the cause, and restart.")
    if runner.to_resnapshot:
        controls.resnapshot_tables(where, runner.to_resnapshot)
    elif runner.needs_resnapshot:
        controls.resnapshot_all(where)


def _watched(where: Directory) -> None:
    """What the watchdog will do, if the spec has restarts."""
    if line := restart_line(as_status(where, home.record_of(where)), clock.utc_now()):
        st.markdown(words.escape(line))


def _log(where: Directory, *, expanded: bool) -> None:
    tail = home.log_tail(where)
    with st.expander("End of the runner's log", expanded=expanded and bool(tail), icon=":material/terminal:"):
        if tail:
            messages.log(tail, 260)
        else:
            st.caption("There is no log. The runner was started elsewhere, or never.")
