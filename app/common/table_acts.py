"""The buttons for a table that an operator must act on: it is stopped, or its mirror cannot be read."""

from collections.abc import Iterable, Mapping
from typing import Literal

import streamlit as st

from app.common import access, controls, data_light, home, messages
from app.common.view import words
from app.common.view.hints import comes_back
from engine.base import clock
from engine.history import table_queries
from engine.history.table_queries import TableProgress
from engine.pipeline.directory import Directory

CommandVerb = Literal["resume", "redump", "remove-table"]
"""The verb of a command."""
_MOST = 8
"""Tables with buttons: of more, each table's page has them."""
_RESNAPSHOT = (
    "The table is resnapshotted while the others stream on. Its mirror stays as it was until the copy is complete."
)
_BUTTONS: Mapping[CommandVerb, tuple[str, str, str, str]] = {
    "resume": (
        "Resnapshot",
        ":material/restart_alt:",
        f"Use it when the cause above is fixed. {_RESNAPSHOT}",
        "Resnapshot table",
    ),
    "redump": (
        "Resnapshot",
        ":material/restart_alt:",
        f"Use it if files of the mirror are gone. {_RESNAPSHOT}",
        "Resnapshot table",
    ),
    "remove-table": (
        "Remove",
        ":material/remove:",
        "The table is no longer captured, and no longer alerts. Its mirror and its change log stay as they are.",
        "Remove table",
    ),
}


def of_stop(hint: str | None) -> tuple[CommandVerb, ...]:
    """The acts that end the stop of a table. One that the source no longer has cannot be resnapshotted."""
    return ("remove-table",) if comes_back(hint or "") else ("resume", "remove-table")


def of_tables(where: Directory, only: str | None = None) -> dict[str, tuple[CommandVerb, ...]]:
    """The acts of each table that needs one, the stopped tables first. only: of this table."""
    verbs = {one.table: of_stop(one.hint) for one in stopped(where)}
    for one in data_light.tables_of(where, clock.utc_now()):
        if one.broken:
            verbs.setdefault(one.table, ("redump",))
    return {table: acts for table, acts in verbs.items() if only in (None, table)}


def stopped(where: Directory) -> list[TableProgress]:
    """The stopped tables."""
    return [one for one in home.ask(table_queries.progress, where.root.name) if one.state == "stopped"]


def unreadable(where: Directory, only: str | None = None) -> None:
    """A panel for each mirror that cannot be read. only: that of this table."""
    for one in data_light.tables_of(where, clock.utc_now()):
        if one.broken and only in (None, one.table):
            messages.three_parts(
                f"{one.table}: {one.broken.why}.",
                "Its rows cannot be compared.",
                one.broken.hint,
                above_buttons=access.operator(),
            )


def buttons(where: Directory, acts: Mapping[str, Iterable[CommandVerb]], *, key: str) -> None:
    """A row of buttons for each table, and one for all that can be resnapshotted. Nothing for a viewer."""
    if not access.operator():
        return
    resumable = [table for table, verbs in acts.items() if "resume" in verbs]
    if len(resumable) > 1:
        _ask(where, resumable, "resume", f"{key}-resume-all", label=f"Resnapshot {len(resumable)} tables")
    for table in list(acts)[:_MOST]:
        with st.container(horizontal=True, vertical_alignment="center", gap="small", key=f"{key}-{table}"):
            if len(acts) > 1:
                st.markdown(f"**{words.escape(table)}**", width="content")
            for act in acts[table]:
                _ask(where, [table], act, f"{key}-{act}-{table}")
    if (more := len(acts) - _MOST) > 0:
        st.caption(f"The pages of the other {more} tables have these buttons too.")


def _ask(where: Directory, tables: list[str], act: CommandVerb, key: str, *, label: str = "") -> None:
    """A button for an act on tables. label: instead of the act's own."""
    own_label, icon, meaning, confirm = _BUTTONS[act]
    text = f"**{words.escape(words.listing(tables, _MOST))}**  \n{meaning}"
    controls.ask(where, act, label or own_label, icon, text, label or confirm, key=key, arguments={"tables": tables})
