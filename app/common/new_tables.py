"""Tables that have appeared, match the spec and are not captured: what they are, with *Add* and *Ignore*."""

from collections.abc import Iterable

import streamlit as st

from app.common import access, controls, home
from app.common.view import words
from app.common.view.alert_list import Firing
from engine.alerting.acknowledgements import acknowledge
from engine.base.errors import TidemarkError
from engine.history import event_queries
from engine.pipeline.directory import Directory

KIND = "new_tables"
_MOST = 10
"""Tables that are named."""


def explained_kinds(where: Directory) -> set[str]:
    """The kind of alert that the notice already explains; empty if there is no such table."""
    return {KIND} if home.ask(event_queries.appeared, where.root.name) else set()


def notice(where: Directory, alerts: Iterable[Firing]) -> None:
    """The tables and the buttons, until an operator has added or ignored them."""
    for one in alerts:
        if one.kind == KIND and one.waits and (names := home.ask(event_queries.appeared, where.root.name)):
            more = f" and {len(names) - _MOST:,} more" if len(names) > _MOST else ""
            what = f"{words.plural(len(names), 'table')} appeared on the source: {', '.join(names[:_MOST])}{more}"
            meaning = "The spec selects them, but the pipeline does not capture them."
            st.info(f"**{words.escape(what)}**  \n{meaning}", icon=":material/playlist_add:")
            buttons(where, one, key="appeared")


def buttons(where: Directory, one: Firing, *, key: str) -> None:
    """*Add* captures all of them, *Ignore* acknowledges the alert. Nothing for a viewer."""
    names = home.ask(event_queries.appeared, where.root.name)
    if not names or not access.operator():
        return
    click = controls.clicks(where.root.name)
    many = f"Add {words.plural(len(names), 'table')}"
    with st.container(horizontal=True, gap="small"):
        st.button(
            many,
            icon=":material/add:",
            key=f"{key}-add-{click}",
            help="They are copied while the others stream on. To choose some of them: *Live*, *Tables*.",
            on_click=controls.send_once,
            args=(where, click, "add-table", "", {"tables": list(names)}),
        )
        st.button(
            "Ignore",
            icon=":material/visibility_off:",
            key=f"{key}-ignore-{click}",
            help="Acknowledges the alert; it counts again when others appear. "
            "`source.tables` can exclude them for good.",
            on_click=_ignore,
            args=(where, click, one),
        )


def _ignore(where: Directory, click: int, one: Firing) -> None:
    if not access.operator() or not controls.first_time(where.root.name, click):
        return
    try:
        acknowledge(where, one.standing, actor=access.actor(), note="ignored")
    except (OSError, TidemarkError) as problem:
        st.toast(words.escape(f"That could not be saved: {problem}"), icon=":material/error:")
