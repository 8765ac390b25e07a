"""One table: its state and why, how fresh it is, its copy, changes, errors, schema and files."""

from contextlib import suppress

import streamlit as st

from app.common import (
    access,
    arrival,
    home,
    messages,
    no_mirrors,
    page_head,
    places,
    runner_notice,
    selection,
    table_acts,
)
from app.live import destination_section, merge_now
from app.table import table_sections
from app.table.view import table_page
from app.table.view.table_page import PageFacts
from engine.base import clock
from engine.base.errors import TidemarkError
from engine.explore.table_facts import removed_files
from engine.history import table_queries
from engine.pipeline.directory import Directory


def removed(where: Directory, facts: PageFacts) -> None:
    """The page of a table that was removed: what stays of it. No button acts on it."""
    files = None
    with suppress(TidemarkError):
        files = removed_files(where, facts.table)
    if parts := table_page.removed(facts, files):
        messages.note(*parts)
    events = {"pipeline": where.root.name, "section": "Events", "events-table": facts.table}
    with st.container(horizontal=True, gap="medium"):
        st.page_link(places.LIVE, label="Open the pipeline", query_params={"pipeline": where.root.name})
        st.page_link(places.LIVE, label="Events of this table", icon=":material/list:", query_params=events)
    table_sections.top(where, facts.table, (facts.runner.shown_state, facts.word, False), {})
    table_sections.flow_and_changes(where, facts.table)
    table_sections.errors(where, facts.table)
    table_sections.schema(where.root.name, facts.table)


def links(where: Directory, facts: PageFacts) -> None:
    """The pages that say more about this table, or act on it."""
    name, table, parked_chunk = where.root.name, facts.table, table_page.first_parked(facts)
    chunks = {"pipeline": name, "section": "Chunks", "table": table}
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        if facts.progress is not None and facts.progress.planned:
            st.page_link(places.LIVE, label="Chunk map", icon=":material/grid_on:", query_params=chunks)
        if parked_chunk is not None:
            first = {**chunks, "chunk": str(parked_chunk)}
            st.page_link(
                places.LIVE, label=f"Parked chunk {parked_chunk:,}", icon=":material/block:", query_params=first
            )
        events = {"pipeline": name, "section": "Events", "events-table": table}
        st.page_link(places.LIVE, label="Events of this table", icon=":material/list:", query_params=events)
        own, has_mirror = {"pipeline": name, "table": table}, not no_mirrors.true_of(where)
        if not no_mirrors.is_not_read_back(where):
            st.page_link(places.VERIFY, label="Verify this table", icon=":material/fact_check:", query_params=own)
        if access.operator():
            if has_mirror:
                explore = ":material/manage_search:"
                st.page_link(places.EXPLORE, label="Explore this table", icon=explore, query_params=own)
            st.button(
                "Redump this table",
                icon=":material/sync:",
                type="tertiary",
                key="redump-table",
                on_click=_redump,
                args=(name, table),
            )


def _redump(name: str, table: str) -> None:
    """Make the next run of the page switch to the redump form, which asks for a confirmation."""
    st.session_state[places.REDUMP_REQUEST] = {"pipeline": name, "part": "Table", "table": table}


def one_table(where: Directory, table: str) -> None:
    """The page of a table that the pipeline has."""
    name, runner = where.root.name, home.runner(where)
    facts = table_sections.facts_of(where, table, runner)
    if facts.removed:
        removed(where, facts)
        return
    links(where, facts)
    waits = table_page.waits_to_merge(facts, clock.utc_now())
    acts = table_acts.of_tables(where, table)
    table_sections.top(where, table, (runner.shown_state, facts.word, waits), acts)
    table_acts.buttons(where, acts, key="stop")
    if waits:
        merge_now.button(where, [table])
    runner_notice.notices(where)
    table_sections.flow_and_changes(where, table)
    table_sections.errors(where, table)
    table_sections.schema(name, table)
    destination_section.of_table(where, table)


def table_names(where: Directory) -> list[str]:
    """The tables of a pipeline."""
    return [one.table for one in home.ask(table_queries.progress, where.root.name)]


def page() -> None:
    """The page."""
    if places.REDUMP_REQUEST in st.session_state:
        st.switch_page(places.REDUMP, query_params={"part": "Table"})
    where = page_head.pipeline("Table", "Here you can see the state of each table.")
    if where is None:
        return
    names = table_names(where)
    if not names:
        messages.nothing("No table planned yet", "Tables appear here when the runner has planned their chunks.")
        st.page_link(places.LIVE, label="Open the pipeline", query_params={"pipeline": where.root.name})
        arrival.rerun_when(lambda: table_names(where))
        return
    left, _ = st.columns([2, 3], vertical_alignment="bottom")
    with left:
        table = selection.table(names, usual=names[0] if len(names) == 1 else None)
    if table is None:
        selection.no_table()
        return
    one_table(where, table)


page()
