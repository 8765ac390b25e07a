"""The sections of a table's page. Each has its own autorefresh."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

import pandas as pd
import streamlit as st

from app.common import (
    access,
    columns,
    data_light,
    home,
    meaning,
    messages,
    no_mirrors,
    runner_notice,
    table_acts,
)
from app.common.autorefresh import INTERVAL_S, autorefresh
from app.common.table_acts import CommandVerb
from app.common.view import words
from app.common.view.progress import others_work
from app.common.view.runner_view import Runner
from app.live import health_strip, throttle_section
from app.table.view import table_events, table_page
from app.table.view.table_page import PageFacts
from engine.base import clock
from engine.base.errors import TidemarkError
from engine.history import event_queries, runs, series, table_details, table_queries
from engine.pipeline.directory import Directory
from engine.spec import settings
from engine.spec.sink_settings import Sink

_WINDOWS = {"hour": timedelta(hours=1), "24 hours": timedelta(hours=24)}
_ENTRIES = "Entries of the change log: an update counts as two, and redumped rows count as well."
_EVENTS = 200


def facts_of(where: Directory, table: str, runner: Runner) -> PageFacts:
    """What is known of the table, at most a second old."""
    name, cursor, now = where.root.name, home.fresh(), clock.utc_now()
    plan = next(iter(home.ask(table_queries.plans, name, table)), None)
    copied_at, pace = home.ask(table_queries.copied_at, name, table), throttle_section.pace(where)
    tables = home.ask(table_queries.progress, name)
    return PageFacts(
        table=table,
        runner=runner,
        lag=home.ask(series.latest_lag, name),
        recent=series.lag_series(cursor, name, now - timedelta(seconds=60), 2000),
        state=home.ask(table_details.state, name, table),
        progress=next((one for one in tables if one.table == table), None),
        counts=home.ask(table_details.chunk_counts, name, table),
        flow=home.ask(table_details.flow, name, table, copied_at),
        copied=copied_at,
        no_mirror=_no_mirror(where, plan),
        is_in_database=no_mirrors.is_database(where),
        paused=pace.snapshot or table in pace.tables,
        max_merge_delay_s=_max_merge_delay_s(where),
        others=others_work(tables),
        broken=data_light.broken(where, table, now),
    )


def _no_mirror(where: Directory, plan: table_queries.NewestPlan | None) -> str:
    if no_mirrors.true_of(where):
        return "the destination keeps none"
    return "the table has no key" if plan is not None and not plan.chunk_key else ""


def _max_merge_delay_s(where: Directory) -> float:
    try:
        return settings.load(where.spec).sink.max_merge_delay_s
    except TidemarkError:
        return float(Sink.model_fields["max_merge_delay_s"].default)


@autorefresh()
def top(
    where: Directory, table: str, state_on_page: tuple[str, str | None, bool], acts: dict[str, tuple[CommandVerb, ...]]
) -> None:
    """The strip, and why the table stopped or its mirror cannot be read.

    If a state changes, the whole page runs again: its links depend on it. acts: the buttons below.
    """
    data_light.read_facts(where, clock.utc_now())
    runner, now = home.runner(where), clock.utc_now()
    facts = facts_of(where, table, runner)
    page_state = (runner.shown_state, facts.word, table_page.waits_to_merge(facts, now))
    needed_acts = {} if facts.removed else table_acts.of_tables(where, table)
    if page_state != state_on_page or needed_acts != acts:
        st.rerun()
    current = facts.runner.works and not home.lacking_settings(where)
    if facts.removed:
        health_strip.draw(table_page.layers(facts, now))
        messages.freshness(now)
        return
    health_strip.draw((*table_page.layers(facts, now), data_light.table_layer(where, table, now, current=current)))
    if parts := table_page.stopped(facts):
        messages.three_parts(*parts, above_buttons=access.operator())
    else:
        table_acts.unreadable(where, table)
    runner_notice.blocked_reads(where, table)
    runner_notice.refused_reads(where, table)
    messages.freshness(now)


@autorefresh()
def flow_and_changes(where: Directory, table: str) -> None:
    """How far the changes have come, and how many there were, by kind."""
    name, cursor, now = where.root.name, home.fresh(), clock.utc_now()
    facts = facts_of(where, table, home.runner(where))
    left, right = st.columns([1, 1], gap="medium")
    with left:
        st.markdown(
            f"**From the source to the {facts.shown_by}**",
            help=meaning.of("change log", "mirror", "epoch", "committed", "lag"),
        )
        st.table(dict(table_page.flow_rows(facts, now)), border="horizontal", hide_header=True)
    until = table_page.numbers_until(facts, now)
    rows_of_changes = [
        table_page.change_row(
            table_page.window_label(label, until, now), table_details.changes(cursor, name, table, until - span)
        )
        for label, span in _WINDOWS.items()
    ]
    first = words.date_time(runs.first_started(cursor, name))
    rows_of_changes.append(table_page.change_row(f"Since {first}", home.ask(table_details.changes, name, table)))
    with right:
        st.markdown("**Changes** :gray[committed, by kind]")
        st.dataframe(
            pd.DataFrame(rows_of_changes),
            hide_index=True,
            key="table-changes",
            column_config={
                "Entries": columns.figure(_ENTRIES),
                **columns.figures("Inserts", "Updates", "Deletes", "Redumped"),
            },
            placeholder=words.NOTHING,
            alt="Changes by kind",
        )


@autorefresh(5 * INTERVAL_S)
def errors(where: Directory, table: str) -> None:
    """The table's errors, newest first; before them, that its mirror cannot be read now."""
    name = where.root.name
    st.markdown("**Errors** :gray[newest first]")
    events = event_queries.events(home.fresh(), name, table_events.ERRORS, table=table, limit=_EVENTS)
    fault = data_light.broken(where, table, clock.utc_now())
    rows = table_events.broken_rows(fault) + table_events.error_rows(events, table)
    _list(rows, "table-errors", {"Who acts": 100, "What": 900}, "Errors of the table, newest first")


@autorefresh(5 * INTERVAL_S)
def schema(name: str, table: str) -> None:
    """Schema changes, resnapshots and states, newest first."""
    st.markdown("**Schema and copies** :gray[newest first]", help=meaning.of("schema change", "resnapshot", "redump"))
    events = event_queries.events(home.fresh(), name, table_events.SCHEMA, table=table, limit=_EVENTS)
    widths = {"What": 150, "Statement": 360, "Why": 360}
    _list(table_events.schema_rows(events), "table-schema", widths, "Schema changes and copies, newest first")


def _list(rows: Sequence[Mapping[str, object]], key: str, widths: Mapping[str, int], alt: str) -> None:
    """Events with their times. widths: of the text columns, in pixels."""
    if not rows:
        st.caption("None in the journal.")
        return
    st.dataframe(
        pd.DataFrame(rows),
        hide_index=True,
        key=key,
        height=320 if len(rows) > 8 else "auto",
        column_config={
            **columns.time("Time", 150),
            **{name: st.column_config.TextColumn(width=width) for name, width in widths.items()},
        },
        placeholder=words.NOTHING,
        alt=alt,
    )
