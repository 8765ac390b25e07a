"""The watermark windows of chunks over the binlog, widest first."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from app.common import columns, controls, home, meaning, messages, places, selection
from app.common.autorefresh import INTERVAL_S, autorefresh
from app.common.charts import plot
from app.common.view import words
from app.live import chunk_section
from app.live.view import binlog
from engine.history import chunk_queries
from engine.history.chunk_queries import Window

_CHUNK = "chunk of the clicked window"


def show(name: str, names: list[str]) -> None:
    """The section. names: of the tables."""
    left, right = st.columns([2, 1], vertical_alignment="bottom")
    with left:
        table = selection.named("Table", "windows-table", "all tables", names)
    selection.default("windows-shown", 20)
    most = right.segmented_control(
        "Windows shown",
        [20, 40, 80],
        key="windows-shown",
        bind="query-params",
        required=True,
        help=meaning.of("watermark", "backfill"),
    )
    if table is not None:
        places.link_to_table(name, table)
    _windows(name, table, most or 20)


@autorefresh(5 * INTERVAL_S)
def _windows(name: str, table: str | None, most: int) -> None:
    if chunk := st.session_state.pop(_CHUNK, None):
        chunk_section.open_chunk(name, *chunk)
        st.rerun()
    windows = chunk_queries.windows(home.fresh(), name, table=table, limit=most)
    if not windows:
        messages.nothing("No watermark yet", "The window of a chunk is known when the chunk has been read.")
        return
    st.caption(
        "From the low to the high watermark of each chunk. Changes in between are merged into the chunk (backfill), so "
        "that it is exact at its high watermark. A window of width 0 is an exact snapshot."
    )
    st.markdown(words.escape(binlog.note(len(windows), most, table)))
    # The number of clicks is a part of the figure's key, because an autorefresh may bring the same click again.
    of, click = f"windows {name}", controls.clicks(f"windows {name}")
    key = f"windows-{click}"

    def clicked() -> None:
        points = st.session_state[key]["selection"]["points"]
        if points and controls.first_time(of, click):
            st.session_state[_CHUNK] = binlog.chunk_of(points[0])

    plot(binlog.figure(windows), key, f"Watermark windows, the widest {words.size(windows[0].gap_bytes)}", clicked)
    _rows(name, windows)


def _rows(name: str, windows: Sequence[Window]) -> None:
    """The same windows as a table, whose links open the chunks too."""
    rows = [
        {**row, "Chunk map": places.chunk_address(name, row["Table"], row["Chunk"])} for row in binlog.rows(windows)
    ]
    with st.expander(f"{words.plural(len(rows), 'window')} as a table", icon=":material/list:"):
        st.dataframe(
            pd.DataFrame(rows),
            hide_index=True,
            key=f"windows-of-{name}",
            height=320 if len(rows) > 8 else "auto",
            column_config={**columns.figures("Gap", "Changes"), "Chunk map": columns.chunk()},
            placeholder=words.NOTHING,
            alt="Watermark windows, widest first",
        )
