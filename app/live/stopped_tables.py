"""The buttons that end the stop of a table: resume it once its cause is fixed, or take it out of the pipeline."""

from collections.abc import Sequence

import streamlit as st

from app.common import access, controls
from app.common.view import words
from engine.pipeline.directory import Directory

_MOST = 8
"""Tables with buttons: of more, each table's page has them."""
_RESUME = (
    "Use it when the cause above is fixed. The table is resnapshotted while the others stream on. Its mirror stays as "
    "it was until the copy is complete."
)
_REMOVE = "The table is no longer captured, and no longer alerts. Its mirror and its change log stay as they are."


def buttons(where: Directory, tables: Sequence[str], *, key: str) -> None:
    """A row for each of the stopped tables. Nothing for a viewer."""
    if not access.operator():
        return
    for table in tables[:_MOST]:
        with st.container(horizontal=True, vertical_alignment="center", gap="small", key=f"{key}-{table}"):
            if len(tables) > 1:
                st.markdown(f"**{words.escape(table)}**", width="content")
            _ask(where, table, "resume", f"{key}-resume-{table}")
            _ask(where, table, "remove-table", f"{key}-remove-{table}")
    if (more := len(tables) - _MOST) > 0:
        st.caption(f"The pages of the other {more} stopped tables have these buttons too.")


_BUTTONS = {
    "resume": ("Resnapshot", ":material/restart_alt:", _RESUME, "Resnapshot table"),
    "remove-table": ("Remove", ":material/remove:", _REMOVE, "Remove table"),
}


def _ask(where: Directory, table: str, verb: str, key: str) -> None:
    label, icon, meaning, confirm = _BUTTONS[verb]
    said = f"**{words.escape(table)}**  \n{meaning}"
    controls.ask(where, verb, label, icon, said, confirm, key=key, arguments={"tables": [table]})
