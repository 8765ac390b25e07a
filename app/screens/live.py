"""One pipeline, live: is the data right, does it keep up, what must I do?"""

from datetime import timedelta

import streamlit as st

from app.common import (
    access,
    controls,
    data_light,
    home,
    new_tables,
    no_mirrors,
    runner_notice,
    selection,
    table_fields,
    welcome,
)
from app.common.autorefresh import autorefresh
from app.common.view import commands, words
from app.common.view.alert_list import alert_lines
from app.common.view.health import lag_words, layers, stale_since, waits_to_merge
from app.common.view.progress import (
    committed_position,
    copy_of,
    copying,
    current_reads,
    line_markup,
    others_work,
    planning_words,
    status_line,
)
from app.live import (
    chunk_section,
    destination_section,
    event_section,
    health_strip,
    membership,
    merge_now,
    queue_section,
    sections,
    source_section,
    spec_section,
    spoken,
    throttle_section,
    watermark_section,
)
from engine.base import clock
from engine.history import chunk_queries, event_queries, runs, series, table_queries
from engine.pipeline.directory import Directory

SECTIONS = (
    "Overview",
    "Chunks",
    "Readers",
    "Watermarks",
    "Plan",
    "Pace",
    "Tables",
    "Destination",
    "Events",
    "Source",
    "Spec",
)
OPERATOR_SECTIONS = ("Pace", "Tables")


@autorefresh(1.0)
def top(where: Directory, state_on_page: tuple[str, bool]) -> None:
    """The health strip, alerts and notices.

    If the state changes, the whole page runs again, because its buttons depend on it.
    """
    data_light.read_facts(where, clock.utc_now())
    name, cursor, now = where.root.name, home.fresh(), clock.utc_now()
    runner = home.runner(where)
    if runner.page_state != state_on_page:
        st.rerun()
    lag = home.ask(series.latest_lag, name)
    recent = series.lag_series(cursor, name, now - timedelta(seconds=60), 2000)
    stopped_tables = tuple(home.ask(table_queries.stopped, name))
    lacks = home.lacking_settings(where)
    data = data_light.layer_of(where, now, current=runner.works and not stopped_tables and not lacks)
    others = not stopped_tables or others_work(home.ask(table_queries.progress, name))
    health_strip.draw((*layers(runner, lag, recent, now, stopped_tables, lacks, others=others), data))
    alerts = home.firing(where, runner)
    explained_kinds = runner_notice.explained_kinds(where, runner) | new_tables.explained_kinds(where)
    health_strip.alerts(alert_lines(one for one in alerts if one.kind not in explained_kinds or not one.waits))
    new_tables.notice(where, alerts)
    runner_notice.away(where, runner)
    runner_notice.problems(where, runner)
    runner_notice.starting(runner)
    throttle_section.notices(where)
    if waits_to_merge(lag) and runner.works and stale_since(runner, lag, now) is None and not no_mirrors.true_of(where):
        merge_now.button(where, [])


@autorefresh()
def status(where: Directory) -> None:
    """The status line, its time, and the last command."""
    name, cursor, now = where.root.name, home.fresh(), clock.utc_now()
    runner, lag = home.runner(where), home.ask(series.latest_lag, name)
    run = home.ask(runs.latest_run, name)
    live, progress = runner.works, home.ask(table_queries.progress, name)
    is_copying = copying(progress, live=live)
    reads = home.ask(chunk_queries.reads, name, run.run if run else None, limit=600) if is_copying else []
    totals, throttle = home.ask(series.epoch_totals, name), throttle_section.throttle(where)
    current = current_reads(home.reading_of(where), progress, now) if is_copying else []
    record = home.live_record(where)
    planning = planning_words(record) if record is not None else ""
    copy = copy_of(progress, reads, totals, now, live=live, throttle=throttle, current=current, planning=planning)
    is_current = stale_since(runner, lag, now) is None
    stale_lag = "" if is_current else lag_words(runner, lag, now)
    label = runner.state if live else runner.style.label
    position = committed_position(lag, totals, current=is_current)
    st.html(line_markup(status_line(copy, lag, label, runner.phase, stale_lag, position)))
    if is_copying:
        throttle_section.copy_line(where, run, copy, reads)
    sent_commands = controls.sent(name)
    answers = event_queries.answers(cursor, name, [one.id for one in sent_commands])
    health_strip.footer(
        now, run.run if run else None, commands.sentences(sent_commands, answers, controls.answers_shown(), now)
    )


def _tables(name: str) -> list[str]:
    """The tables that a section can be limited to."""
    return [plan.table for plan in home.ask(table_queries.plans, name)]


def body(where: Directory) -> None:
    """The sections. Only the open one runs."""
    name = where.root.name
    titles = [title for title in SECTIONS if title not in OPERATOR_SECTIONS or access.operator()]
    if unknown := selection.unbound("section", titles):
        st.info(words.escape(f"There is no section {unknown} here. Choose one below."), icon=":material/info:")
    place, chunk = st.empty(), selection.whole_number(chunk_section.CHUNK_FIELD)
    table_fields.take(name, chunk_section.CHUNK_FIELD)
    # Bound to the URL, tabs would keep the first one out of it.
    section_tabs = st.tabs(titles, key="section", on_change=selection.forget, args=("section",))
    tabs = dict(zip(titles, section_tabs, strict=True))
    draw = {
        "Overview": lambda: sections.overview(where),
        "Chunks": lambda: chunk_section.show(name),
        "Readers": lambda: sections.readers(name),
        "Watermarks": lambda: watermark_section.show(name, _tables(name)),
        "Plan": lambda: sections.plan(where),
        "Pace": lambda: throttle_section.section(where),
        "Tables": lambda: membership.section(where),
        "Destination": lambda: destination_section.section(where),
        "Events": lambda: event_section.show(name, _tables(name)),
        "Source": lambda: source_section.section(where),
        "Spec": lambda: spec_section.section(where),
    }
    for title, tab in tabs.items():
        if tab.open:
            with tab:
                draw[title]()
    if (
        chunk
        and tabs["Chunks"].open
        and table_fields.value(chunk_section.CHUNK_FIELD) != chunk.lstrip("0").rjust(1, "0")
    ):
        place.info(words.escape(f"The table has no chunk {chunk}."), icon=":material/info:")


def page() -> None:
    """The page."""
    spoken.heading("Live")
    directories = {where.root.name: where for where in home.directories()}
    if not directories:
        welcome.brief("Here you can watch a pipeline.")
        return
    title, buttons = st.columns([2, 3], vertical_alignment="center")
    with title:
        where = selection.pipeline(directories)
    if where is None:
        selection.unselected()
        return
    runner = home.runner(where)
    with buttons:
        controls.controls(where, runner, key="live", spark=True)
    spoken.state(f"{where.root.name}: {runner.style.label}")
    with st.container():  # always there: the parts below keep their positions, which their own reruns write to
        controls.refusal(where.root.name)
    top(where, runner.page_state)
    status(where)
    runner_notice.show(where, runner)
    queue_section.show(where)
    body(where)


page()
