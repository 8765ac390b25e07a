"""The table picker as a component.

Search, folding and focus stay in the browser; each click is reported to Python once.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import streamlit as st

_HERE = Path(__file__).parent
_TREE = st.components.v2.component(
    "tidemark_table_tree",
    html='<div id="tree"></div>\n',
    css=(_HERE / "table_tree.css").read_text(encoding="utf-8"),
    js=(_HERE / "table_tree.js").read_text(encoding="utf-8"),
)
Click = tuple[str, Any, bool]
"""`("tables", [[database, table], …], chosen)`, `("database", name, chosen)` or `("glob", glob, included)`."""


def table_tree(
    databases: Sequence[tuple[str, list[list[Any]]]],
    open_table: str,
    *,
    any_case: bool,
    key: str,
    on_clicks: Callable[[list[Click]], None],
    on_show: Callable[[str], None],
) -> None:
    """The tree. any_case: whether globs disregard case. on_clicks: called with the new clicks.

    on_show: called with the full name of a table whose details to show.
    """
    handled_clicks: dict[str, int] = st.session_state.setdefault(f"{key} handled", {})

    def clicked() -> None:
        report = (st.session_state.get(key) or {}).get("clicks") or {"mount": "", "log": []}
        new = [entry for entry in report["log"] if entry[0] > handled_clicks.get(report["mount"], 0)]
        if new:
            handled_clicks[report["mount"]] = new[-1][0]
            on_clicks([(kind, names, bool(on)) for _, kind, names, on in new])

    def asked() -> None:
        if name := (st.session_state.get(key) or {}).get("shown"):
            on_show(name)

    data = {"databases": databases, "ack": handled_clicks, "open": open_table, "any_case": any_case}
    _TREE(key=key, data=data, on_clicks_change=clicked, on_shown_change=asked)
