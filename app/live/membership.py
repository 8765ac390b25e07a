"""The section in which an operator adds tables to a running pipeline, or removes some."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from app.common import controls, home, jobs, messages, source_queries
from app.common.autorefresh import autorefresh
from app.common.view import picking, words
from app.live.view import membership_form
from engine.base import clock
from engine.base.errors import TidemarkError
from engine.history import table_queries
from engine.pipeline.directory import Directory
from engine.spec import settings


def section(where: Directory) -> None:
    """The forms to add and to remove tables, side by side."""
    has = membership_form.captured(home.ask(table_queries.progress, where.root.name))
    left, right = st.columns(2, gap="large")
    with left, st.container(border=True):
        _add(where, has)
    with right, st.container(border=True):
        _remove(where, has)
    if home.live_record(where) is None:
        st.markdown(":orange[:material/schedule: No runner is alive. Commands wait in the inbox until the next start.]")
    st.caption(
        "A command adds or removes all of its tables or none. The other tables keep streaming. "
        "The spec does not change."
    )
    _watch(where, has)


@autorefresh()
def _watch(where: Directory, tables_on_page: list[str]) -> None:
    """Rerun the page if the tables of the pipeline have changed."""
    if membership_form.captured(home.ask(table_queries.progress, where.root.name)) != tables_on_page:
        st.rerun()


def _add(where: Directory, has: list[str]) -> None:
    name, click = where.root.name, controls.clicks(where.root.name)
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.markdown("**Add tables** :gray[they are copied while the others keep streaming]", width="content")
        reread = st.button("Reload", icon=":material/refresh:", type="tertiary", key=f"tables-read-{name}")
    try:
        spec = settings.load(where.spec)
        key = f"survey of {name} {spec.source.model_dump_json()}"
        if reread:
            jobs.forget(key)
        survey = jobs.result(key, "Reading the catalog", lambda: source_queries.surveyed(spec))
    except TidemarkError as problem:
        messages.error(problem)
        return
    if survey is None:
        return
    _age(key)
    offers = membership_form.offered(survey.tables, has)
    if not offers:
        st.markdown(f":gray[The pipeline captures every table that {words.escape(spec.source.user)} may read.]")
        return
    selected_tables = st.multiselect(
        "Tables of the source",
        list(offers),
        key=f"add-{name}-{click}",
        format_func=lambda table: membership_form.label(offers[table]),
        placeholder=f"{words.plural(len(offers), 'table')} not captured yet",
        help="Sizes are the server's estimates",
    )
    for table, badge in membership_form.faults([offers[one] for one in selected_tables], survey.risks):
        text = f"{table}: {badge.label}. {badge.meaning} {badge.fix}"
        st.markdown(f":{badge.tone}[{picking.ICONS[badge.tone]}] {words.escape(text)}")
    st.text_input("Reason", key=f"add-why-{name}-{click}", placeholder="Shown in the events and the history")
    st.button(
        f"Add {words.plural(len(selected_tables), 'table')}" if selected_tables else "Add tables",
        type="primary",
        icon=":material/add:",
        key=f"add-send-{name}-{click}",
        disabled=not selected_tables,
        on_click=_send,
        args=(where, click, "add-table", {"tables": selected_tables}, f"add-why-{name}-{click}"),
    )


@autorefresh()
def _age(key: str) -> None:
    """When the list was read: tables that appeared since are not in it."""
    if (at := jobs.ended_at(key)) is not None:
        ago = words.ago(at.timestamp(), clock.utc_now())
        st.caption(f"List of {words.time_of_day(at)}, read {ago}. Tables that appeared since are not in it: *Reload*.")


def _remove(where: Directory, has: list[str]) -> None:
    name, click = where.root.name, controls.clicks(where.root.name)
    st.markdown("**Remove tables** :gray[they are no longer captured]")
    if not has:
        st.markdown(":gray[The pipeline has no table.]")
        return
    selected_tables = st.multiselect(
        "Tables of the pipeline", has, key=f"remove-{name}-{click}", placeholder="Choose tables"
    )
    then = st.segmented_control(
        "Their mirror and change log",
        (membership_form.KEEP, membership_form.DROP),
        default=membership_form.KEEP,
        required=True,
        key=f"remove-then-{name}-{click}",
    )
    drop, sure = then == membership_form.DROP, True
    if drop:
        st.markdown(
            ":red[:material/delete_forever: This deletes their rows and history from the destination. "
            "The source is not touched.]"
        )
        typed = st.text_input(
            f"Type {name} to confirm", key=f"remove-sure-{name}-{click}", help="This cannot be undone"
        )
        sure = typed == name
    st.text_input("Reason", key=f"remove-why-{name}-{click}", placeholder="Shown in the events and the history")
    many = words.plural(len(selected_tables), "table") if selected_tables else "tables"
    if whole := len(selected_tables) == len(has):
        st.markdown(":orange[:material/warning: The last table cannot be removed. To end the pipeline, stop it.]")
    st.button(
        f"Remove {many} and delete the data" if drop else f"Remove {many}",
        icon=":material/delete_forever:" if drop else ":material/remove:",
        key=f"remove-send-{name}-{click}",
        disabled=whole or not (selected_tables and sure),
        on_click=_send,
        args=(where, click, "remove-table", {"tables": selected_tables, "drop": drop}, f"remove-why-{name}-{click}"),
    )


def _send(where: Directory, click: int, verb: str, arguments: Mapping[str, Any], reason_key: str) -> None:
    if controls.first_time(where.root.name, click):
        controls.post(where, verb, st.session_state.get(reason_key), arguments)
