"""The section in which an operator throttles, pauses and resumes the snapshot. The binlog is never throttled."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import streamlit as st

from app.common import controls, home, messages
from app.common.autorefresh import autorefresh
from app.common.view import limits, progress, words
from app.common.view.limits import CurrentLimits
from app.common.view.progress import Copy
from app.live.view import bottleneck, source_load
from app.live.view.bottleneck import Bottleneck
from engine.base import clock
from engine.base.errors import SpecError, TidemarkError
from engine.history import chunk_queries, cost_queries, runs, table_queries
from engine.history.chunk_queries import Read
from engine.history.runs import Run
from engine.pipeline.directory import Directory
from engine.spec import settings, throttle_settings


def pace(where: Directory) -> CurrentLimits:
    """The current limits and pauses, with or without a runner.

    The runner may have started with another spec than that in the file.
    """
    try:
        running = home.in_force(where)
        spec = running.get("throttle", {}) if running else settings.load(where.spec).throttle.model_dump(mode="json")
    except TidemarkError:
        spec = {}
    try:
        overrides = json.loads(where.controls.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        overrides = {}
    return limits.pace_of(spec, overrides, clock.utc_now())


def throttle(where: Directory) -> throttle_settings.Throttle:
    """The current limits; none if they cannot be read."""
    try:
        return throttle_settings.throttled(throttle_settings.Throttle(), dict(pace(where).settings))
    except SpecError:
        return throttle_settings.Throttle()


def notices(where: Directory) -> None:
    """The notices about limits and pauses of the snapshot."""
    record = home.live_record(where)
    waiting = record.waiting_for if record is not None else None
    copying = record is not None and (record.state, record.phase) == ("running", "snapshot")
    for line in limits.notices(pace(where), waiting, copying=copying):
        st.markdown(f":violet[:material/hourglass_pause: {words.escape(line)}]")


def copy_line(where: Directory, run: Run | None, copy: Copy, reads: Sequence[Read]) -> None:
    """When the copy ends, and what limits it."""
    now = clock.utc_now()
    limit = limit_now(where, run, copy.rows_s, reads)
    end = (
        f"ends about **{words.escape(progress.finish(copy.remaining, now))}**"
        if copy.remaining
        else "has no known end yet"
    )
    by = f", limited by **{words.escape(limit.name)}** :small[:gray[{words.escape(limit.why)}]]" if limit else ""
    st.markdown(f":material/flag: The copy {end}{by}")


def limit_now(where: Directory, run: Run | None, rows_s: float | None, reads: Sequence[Read]) -> Bottleneck | None:
    """What limits a copy. reads: the newest of the run."""
    if run is None or not reads:
        return None
    now, settings_now = clock.utc_now(), pace(where).settings
    window_s = min(max((now - min(read.started for read in reads)).total_seconds(), 1.0), bottleneck.WINDOW_S)
    seconds = cost_queries.reader_seconds(home.fresh(), where.root.name, now - timedelta(seconds=window_s), now)
    readers = bottleneck.readers_of(_slots(run), _usual_readers(where), settings_now)
    record = home.record_of(where)
    waiting = record.waiting_for if record is not None else None
    return bottleneck.bottleneck(seconds, readers, settings_now, rows_s, waiting, window_s)


def _slots(run: Run) -> int:
    return int((json.loads(run.spark) if run.spark else {}).get("slots") or 0)


def _usual_readers(where: Directory) -> int:
    try:
        return settings.load(where.spec).snapshot.readers
    except TidemarkError:
        return 0


def section(where: Directory) -> None:
    """The limits, and the paused tables."""
    now, name = pace(where), where.root.name
    own = " :violet-badge[set here]" if now.own else " :gray-badge[from the spec]"
    ends = f" until {words.escape(words.date_time(now.until))}" if now.until else ""
    st.markdown(f"**Limits now**{own} {words.escape(limits.described(now))}{ends}")
    _effect(where, now)
    left, right = st.columns(2, gap="large")
    with left:
        _limits(where, now)
    with right:
        _pauses(where, now, [plan.table for plan in home.ask(table_queries.plans, name)])
    st.caption("Settings made here survive restarts. The binlog is never throttled.")
    _watch(where, now)


@autorefresh()
def _effect(where: Directory, now: CurrentLimits) -> None:
    """What the limits do, and the load on the source."""
    rows_s, name, at = rows_now(where), where.root.name, clock.utc_now()
    st.caption(limits.effect(now, rows_s) or "No table is being read.")
    since = at - timedelta(seconds=bottleneck.WINDOW_S)
    seconds, binlog = (
        cost_queries.reader_seconds(home.fresh(), name, since, at),
        cost_queries.source_cost(home.fresh(), name, since),
    )
    st.markdown("**Load on the source** :gray[in the last minute, from the journal; the source is not asked]")
    facts = source_load.of_snapshot(seconds, rows_s, binlog, bottleneck.WINDOW_S)
    for column, (label, value) in zip(st.columns(len(facts)), facts, strict=True):
        column.markdown(f":small[:gray[{label}]]  \n**{words.escape(value)}**")
    record = home.record_of(where)
    waiting = record.waiting_for if record is not None else None
    loads_by_name = record.loads if record is not None else {}
    if home.runner(where).works and (loads := source_load.polled(loads_by_name, now.settings)):
        for column, (label, value, above) in zip(st.columns(max(len(loads), 5)), loads, strict=False):
            text = f":orange[**{words.escape(value)}**]" if above else f"**{words.escape(value)}**"
            column.markdown(f":small[:gray[{words.escape(label)}]]  \n{text}")
    checks = limits.checks(now, waiting)
    if checks and home.runner(where).works:
        st.caption(words.escape(checks))


def rows_now(where: Directory) -> float | None:
    """How many rows are read a second; None if no table is being copied."""
    run, tables, now = (
        home.ask(runs.latest_run, where.root.name),
        home.ask(table_queries.progress, where.root.name),
        clock.utc_now(),
    )
    if run is None or not progress.copying(tables, live=home.runner(where).works):
        return None
    reads = home.ask(chunk_queries.reads, where.root.name, run.run, limit=600)
    return progress.rows_per_s([*reads, *progress.current_reads(home.reading_of(where), tables, now)], now)


@autorefresh()
def _watch(where: Directory, limits_on_page: CurrentLimits) -> None:
    """Rerun the page if the settings have changed, in this browser or elsewhere."""
    if pace(where) != limits_on_page:
        st.rerun()


def _limits(where: Directory, now: CurrentLimits) -> None:
    """The form. The keys contain the current settings, so that changes of another browser appear."""
    key = f"{where.root.name}-{sorted(now.settings.items(), key=str)}-{now.until}"
    period = limits.PERIODS[
        st.segmented_control(
            "For how long", list(limits.PERIODS), default="Until changed", required=True, key=f"for-{key}"
        )
        or "Until changed"
    ]
    with st.container(horizontal=True):
        for preset in limits.presets(rows_now(where)):
            if st.button(preset.label, help=preset.help, key=f"{preset.label}-{key}"):
                _limit(where, dict(preset.settings), period, preset.label)
    with st.form(f"pace-{key}", border=True):
        st.markdown("**How fast**")
        one, two = st.columns(2)
        rows = one.number_input(
            "Rows a second",
            0,
            None,
            int(now.settings.get("max_rows_per_s", 0)),
            step=1000,
            key=f"rows-{key}",
            help="0: no limit",
        )
        size = two.number_input(
            "Megabytes of files a second",
            0.0,
            None,
            limits.megabytes(now),
            step=1.0,
            key=f"mb-{key}",
            help="0: no limit",
        )
        readers = one.number_input(
            "Readers",
            0,
            256,
            int(now.settings.get("readers", 0)),
            key=f"readers-{key}",
            help="Chunks read at once; 0: as in the spec",
        )
        hours = two.text_input(
            "Hours (UTC)", ", ".join(now.settings.get("hours") or ()), key=f"hours-{key}", placeholder="22:00-06:00"
        )
        reason = st.text_input("Reason", key=f"pace-why-{key}", placeholder="Shown in the events and the history")
        with st.container(horizontal=True):
            submit = st.form_submit_button("Set limits", type="primary", icon=":material/speed:")
            reset = st.form_submit_button("Back to the spec", disabled=not now.own)
    if reset:
        _send(where, "throttle", {"reset": True}, reason)
    elif submit:
        changes = limits.changes(now, int(rows), float(size), int(readers), hours or "")
        try:
            throttle_settings.throttled(throttle_settings.Throttle(), changes)
        except SpecError as problem:
            messages.error(problem)
            return
        if changes:
            _limit(where, changes, period, reason)
        else:
            st.info("Nothing to change.", icon=":material/info:")


def _limit(where: Directory, changes: dict[str, Any], period: str | None, reason: str | None) -> None:
    """Set limits, for a period or until they are changed."""
    _send(where, "throttle", {**changes, **({throttle_settings.FOR: period} if period else {})}, reason)


def _pauses(where: Directory, now: CurrentLimits, names: list[str]) -> None:
    with st.container(border=True):
        st.markdown("**Snapshot**")
        verb = "resume" if now.snapshot else "pause"
        if st.button(
            f"{verb.capitalize()} the snapshot",
            icon=":material/play_arrow:" if now.snapshot else ":material/pause:",
            key=f"snapshot-{now.snapshot}",
        ):
            _send(where, verb, {"snapshot": True}, "")
        selected_tables = st.multiselect(
            "Paused tables",
            sorted({*names, *now.tables}),
            list(now.tables),
            key=f"paused-{now.tables}",
            placeholder="No table",
        )
        stop, go = limits.pauses(now, selected_tables)
        if st.button("Set paused tables", key="set-paused", disabled=not (stop or go)):
            for verb_of, tables_of in (("pause", stop), ("resume", go)):
                if tables_of:
                    _send(where, verb_of, {"tables": tables_of}, "", rerun=False)
            st.rerun()


def _send(where: Directory, verb: str, arguments: dict[str, Any], reason: str | None, *, rerun: bool = True) -> None:
    controls.post(where, verb, reason, arguments)
    if rerun:
        st.rerun()
