"""The section in which an operator gives a pipeline more tables, or takes some from it, while the others stream on."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from app.parts import controls, home, jobs, messages, source_queries
from app.parts.autorefresh import refreshing
from app.view import membership_form, picking, words
from engine import settings
from engine.directory import Directory
from engine.errors import TidemarkError
from engine.history import tables


def section(where: Directory) -> None:
    """Left what may be added, right what may be removed."""
    has = membership_form.captured(home.ask(tables.progress, where.root.name))
    left, right = st.columns(2, gap="large")
    with left, st.container(border=True):
        _add(where, has)
    with right, st.container(border=True):
        _remove(where, has)
    if not (home.record_of(where) or {}).get("alive"):
        st.markdown(
            ":orange[:material/schedule: No runner lives: what is sent waits, and is carried out by the next start.]"
        )
    st.caption(
        "All that one command names is added or removed, or nothing of it; the other tables stream on. The spec is not changed."
    )
    _watch(where, has)


@refreshing()
def _watch(where: Directory, drawn: list[str]) -> None:
    """Draw the page anew when the pipeline has other tables than those shown."""
    if membership_form.captured(home.ask(tables.progress, where.root.name)) != drawn:
        st.rerun()


def _add(where: Directory, has: list[str]) -> None:
    name, click = where.root.name, controls.clicks(where.root.name)
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.markdown("**Add tables** :gray[they are copied while the others stream on]", width="content")
        anew = st.button("Read again", icon=":material/refresh:", type="tertiary", key=f"tables-read-{name}")
    try:
        spec = settings.load(where.spec)
        key = f"survey of {name} {spec.source.model_dump_json()}"
        if anew:
            jobs.forget(key)
        seen = jobs.result(key, "Reading the catalogue", lambda: source_queries.surveyed(spec))
    except TidemarkError as problem:
        messages.error(problem)
        return
    if seen is None:
        return
    offered = membership_form.offered(seen.tables, has)
    if not offered:
        st.markdown(f":gray[The pipeline has every table that {words.escape(spec.source.user)} may read.]")
        return
    chosen = st.multiselect(
        "Tables of the source",
        list(offered),
        key=f"add-{name}-{click}",
        format_func=lambda table: membership_form.label(offered[table]),
        placeholder=f"{words.plural(len(offered), 'table')} that the pipeline does not have",
        help=f"The server's estimates, read {jobs.ended(key)}",
    )
    for table, badge in membership_form.faults([offered[one] for one in chosen], seen.risks):
        told = f"{table}: {badge.label}. {badge.meaning} {badge.fix}"
        st.markdown(f":{badge.tone}[{picking.ICONS[badge.tone]}] {words.escape(told)}")
    st.text_input("Reason", key=f"add-why-{name}-{click}", placeholder="Shown in the events and the history")
    st.button(
        f"Add {words.plural(len(chosen), 'table')}" if chosen else "Add tables",
        type="primary",
        icon=":material/add:",
        key=f"add-send-{name}-{click}",
        disabled=not chosen,
        on_click=_send,
        args=(where, click, "add-table", {"tables": chosen}, f"add-why-{name}-{click}"),
    )


def _remove(where: Directory, has: list[str]) -> None:
    name, click = where.root.name, controls.clicks(where.root.name)
    st.markdown("**Remove tables** :gray[they are captured no more]")
    if not has:
        st.markdown(":gray[The pipeline has no table.]")
        return
    chosen = st.multiselect("Tables of the pipeline", has, key=f"remove-{name}-{click}", placeholder="None")
    then = st.segmented_control(
        "What is published of them",
        (membership_form.KEEP, membership_form.DROP),
        default=membership_form.KEEP,
        required=True,
        key=f"remove-then-{name}-{click}",
    )
    drop, sure = then == membership_form.DROP, True
    if drop:
        st.markdown(
            ":red[:material/delete_forever: Rows and history in the lake are gone then; the source is not touched.]"
        )
        typed = st.text_input(
            f"Type {name} to confirm", key=f"remove-sure-{name}-{click}", help="It cannot be taken back"
        )
        sure = typed == name
    st.text_input("Reason", key=f"remove-why-{name}-{click}", placeholder="Shown in the events and the history")
    many = words.plural(len(chosen), "table") if chosen else "tables"
    if whole := len(chosen) == len(has):
        st.markdown(":orange[:material/warning: The last table cannot be removed; to end the pipeline, stop it.]")
    st.button(
        f"Remove {many} and delete the data" if drop else f"Remove {many}",
        icon=":material/delete_forever:" if drop else ":material/remove:",
        key=f"remove-send-{name}-{click}",
        disabled=whole or not (chosen and sure),
        on_click=_send,
        args=(where, click, "remove-table", {"tables": chosen, "drop": drop}, f"remove-why-{name}-{click}"),
    )


def _send(where: Directory, click: int, verb: str, arguments: Mapping[str, Any], reason_key: str) -> None:
    if controls.first_time(where.root.name, click):
        controls.post(where, verb, st.session_state.get(reason_key), arguments)
