"""The history: all runs with their outcome, duration and totals, and a comparison of runs."""

import json
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

import pandas as pd
import streamlit as st

from app.common import arrival, columns, home, meaning, messages, selection
from app.common.charts import plot
from app.common.view import words
from app.history.view import compare
from app.history.view.past import PastRun, past
from app.live import timeline_section
from engine.base import clock
from engine.base.redaction import clean
from engine.history import chunk_queries, runs

_COMPARED = "compare"
"""The runs that are compared, in the session and in the URL."""
_COLUMNS = {
    **{name: st.column_config.NumberColumn(format="localized") for name in ("Rows", "Chunks", "Changes", "Errors")},
    "Run": st.column_config.TextColumn(help=meaning.of("run")),
    "Rows/s": st.column_config.NumberColumn(format="localized", help="Over the time in which chunks were read"),
    "Why": st.column_config.TextColumn(width=240),
}

st.title("History", anchor=False)


def page() -> None:
    """The list of runs, newest first."""
    cursor = home.fresh()
    names = sorted({run.pipeline for run in runs.runs(cursor, limit=5000)})
    if not names:
        messages.nothing("No runs yet", "Each run of a pipeline appears here, with its totals and its outcome.")
        arrival.rerun_when(lambda: runs.runs(home.fresh(), limit=1))
        return
    only = selection.named("Pipeline", "pipeline", "all pipelines", names, width=320)
    alive = {where.root.name for where in home.directories() if home.live_record(where)}
    lines = past(runs.runs(cursor, only), runs.run_totals(cursor, only), alive, clock.utc_now())
    rows = [
        {
            "Started": one.started,
            "Pipeline": one.pipeline,
            "Outcome": one.outcome,
            "Duration": words.duration(one.duration_s),
            "Rows": one.rows,
            "Rows/s": None if one.rows_s is None else round(one.rows_s),
            "Chunks": one.chunks,
            "Changes": one.changes,
            "Errors": one.errors,
            "Why": one.reason,
            "Run": one.run,
        }
        for one in lines
    ]
    ids = [one.id for one in lines]
    compared_ids, unknown = selection.several(_COMPARED, ids)
    # The table begins again with other rows, so a position never means another run.
    key = f"runs {hash(tuple(ids))}"
    st.dataframe(
        pd.DataFrame(rows),
        hide_index=True,
        key=key,
        height=420 if len(rows) > 11 else "auto",
        column_config=_COLUMNS | columns.time("Started"),
        on_select=partial(_select, key, ids),
        selection_mode="multi-row",
        selection_default={"selection": {"rows": [ids.index(one) for one in compared_ids]}},
        placeholder=words.NOTHING,
        alt="Runs, newest first",
    )
    selection.note(_COMPARED, compared_ids)
    messages.freshness(clock.utc_now(), extra=words.plural(len(rows), "run"))
    if unknown:
        st.info(words.escape(f"Not in this list: {', '.join(unknown)}."), icon=":material/info:")
    if compared_ids:
        selected_runs = [lines[ids.index(one)] for one in compared_ids[: compare.MOST]]
        _comparison(selected_runs)
        if len(selected_runs) == 1:
            _timeline(selected_runs[0])
    elif len(rows) > 1:
        st.caption(f"Select up to {compare.MOST} runs in the first column to compare them.")


def _select(key: str, ids: Sequence[str]) -> None:
    """Keep the runs that were selected in the table. ids: of its rows."""
    st.session_state[_COMPARED] = [ids[row] for row in st.session_state[key]["selection"]["rows"]]


def _spec_of(line: PastRun) -> str | None:
    """The spec of a run, redacted again, since the journal of an earlier version may have been redacted less."""
    text = runs.spec_of(home.fresh(), line.pipeline, line.run)
    return None if text is None else json.dumps(clean(json.loads(text)))


def _timeline(line: PastRun) -> None:
    """What the run did when."""
    where = next((one for one in home.directories() if one.root.name == line.pipeline), None)
    timeline_section.past(line.pipeline, line.started, line.started + timedelta(seconds=line.duration_s), where)


def _comparison(lines: list[PastRun]) -> None:
    """The comparison of the selected runs."""
    reads = {line.run: home.ask(chunk_queries.reads, line.pipeline, line.run, limit=20_000) for line in lines}
    st.subheader("Compared", anchor=False)
    left, right = st.columns(2, gap="medium")
    with left:
        measures, same = compare.folded(compare.measures(lines, reads))
        st.dataframe(
            pd.DataFrame(measures),
            hide_index=True,
            key="measures",
            height="content",
            placeholder=words.NOTHING,
            alt="Measures of each run",
        )
        if len(lines) > 1:
            equal = f" The same in all: {', '.join(same)}." if same else ""
            st.caption(words.escape(f"Compared with {compare.names(lines)[compare.baseline(lines)]}.{equal}"))
    with right:
        st.markdown("**Throughput** :gray[rows copied per second]")
        if any(reads.values()):
            plot(compare.figure(lines, reads), "compared", "Rows copied per second by each run")
        else:
            st.caption("None of these runs read a chunk.")
        st.markdown("**Differences in configuration**")
        spec_differences = compare.differences(lines, [_spec_of(line) for line in lines])
        if spec_differences:
            st.dataframe(
                pd.DataFrame(spec_differences),
                hide_index=True,
                key="differences",
                placeholder=words.NOTHING,
                alt="Settings that differ",
            )
        else:
            st.caption("Select a second run to compare." if len(lines) == 1 else "None: the specs are the same.")


page()
