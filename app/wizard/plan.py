"""Step 4: how each table is split and why, and how long the copy takes. Chunk size and chunk key can be changed."""

import os
from functools import partial

import pandas as pd
import streamlit as st

from app.common import columns, jobs, meaning, messages, source_queries
from app.common.view import factor, words
from app.common.view.draft import Draft, StepOutcome
from app.wizard import drafts, frame, mirrors
from app.wizard.view import planning
from engine.base import clock
from engine.base.errors import TidemarkError
from engine.decode.schema import Table
from engine.explore.declared_types import declared_types
from engine.plan.chunks import Plan
from engine.spec.case_folding import spec_on
from engine.spec.settings import Spec

_OWN = ""
_COLUMNS = {
    "Table": st.column_config.TextColumn(pinned=True),
    "Strategy": st.column_config.TextColumn(
        help="even: equal steps of the key; uneven: the server walks the key; one: a single chunk",
        width=70,
    ),
    "Factor": columns.figure(meaning.of("distribution factor"), 64),
    "Chunks": columns.figure(meaning.of("chunk"), 64),
    "Rows": columns.figure(width=60),
    "Size": columns.figure(width=70),
    "Rows a chunk": columns.figure("Expected; no chunk gets more than twice as large", 96),
    "Time": columns.figure("Expected, with all readers", 70),
    "Set": st.column_config.TextColumn(help="The table has its own chunk size or chunk key", width=54),
    "Why": columns.sentences(),
}
_UNSET = ("Table", "Strategy", "Chunks", "Rows a chunk", "Time", "Why", "Rows", "Size", "Key", "Factor")


@st.cache_resource
def _planned(key: str) -> source_queries.PlanCache:  # noqa: ARG001 - the key of the cache
    return source_queries.PlanCache()


def page(draft: Draft) -> None:
    """The plan is made automatically; an edit of one table plans only that table again."""
    if not draft.get("source", "tables"):
        messages.nothing("No table is chosen", "Choose tables first. Then the plan appears here.")
        if st.button("Choose tables", type="primary", key="choose"):
            frame.go(draft, "Tables")
        frame.foot(draft, "Plan")
        return
    base = source_queries.key_of(draft, draft.get("source", "tables"), draft.get("source", "invalid_dates"))
    key = f"plan {source_queries.key_of(draft, draft.fingerprint('Plan'))}"
    title, button = st.columns([4, 1], vertical_alignment="center")
    title.markdown("**Plan** :gray[how each table is split into chunks, from statistics and the two ends of each key]")
    with button, st.container(horizontal_alignment="right"):
        if st.button("Plan again", icon=":material/refresh:", key="plan-again", disabled=jobs.running(key)):
            _planned.clear(base)
            jobs.forget(key)
            st.rerun()
    try:
        spec = source_queries.spec_of(draft)
        plan_cache = jobs.result(
            key,
            "Planning",
            partial(source_queries.plan, spec, _planned(base)),
            "Reads the smallest and the largest value of each key. The first time, it also measures the speed of "
            "50,000 rows and counts the changes in the last minutes of the binlog.",
        )
        if plan_cache is not None:
            draft = _show_plan(draft, spec, plan_cache)
            st.caption(f"Planned {jobs.ended(key)}")
    except TidemarkError as problem:
        frame.error(problem)
        draft = frame.note(draft, "Plan", "fail", problem.message)
    frame.foot(draft, "Plan")


def _show_plan(draft: Draft, spec: Spec, cache: source_queries.PlanCache) -> Draft:
    spec = spec_on(spec, cache.names)
    plans = {table.full_name: cache.plans[source_queries.rules_key(table, spec.snapshot)] for table in cache.tables}
    readers = planning.readers_of(spec, os.cpu_count() or 1)
    lines = planning.lines(cache.tables, plans, spec.snapshot, cache.speed, readers, spec.throttle, spec.sink)
    sums = planning.sums(lines, cache.speed, readers, spec.throttle)
    st.markdown(f"**{words.escape(sums)}**")
    st.caption(
        "A free reader takes the next chunks by snapshot.priority, then from the table with the fewest chunks in "
        "progress. The time is estimated from the speed measured just now, on the first rows of the largest table."
    )
    pick = f"{draft.id} planned-table"
    names = [line.table for line in lines]
    left, right = st.columns([7, 3], gap="medium")
    with left:
        table = st.dataframe(
            pd.DataFrame([planning.row(line) for line in lines]),
            hide_index=True,
            key=f"{draft.id} plan-rows {len(lines)}",
            height=400 if len(lines) > 10 else "auto",
            row_height=columns.height(line.why for line in lines),
            column_config=_COLUMNS,
            column_order=None if any(line.own for line in lines) else _UNSET,
            on_select="rerun",
            selection_mode="single-row",
            placeholder=words.NOTHING,
            alt="Plan per table",
        )
        _select_row(pick, f"{pick} row", names, [int(row) for row in table["selection"]["rows"]])
        _factors(lines, spec)
    with right:
        by_name = {table.full_name: table for table in cache.tables}
        _editor(draft, spec, [by_name[name] for name in names], plans, pick)
    if cache.changes is not None and spec.sink.has_mirrors:
        mirrors.compare(cache.tables, plans, cache.changes, spec.sink)
    failed_tables = [line.table for line in lines if line.plan is None]
    outcome: StepOutcome = "warn" if failed_tables else "ok"
    return frame.note(
        draft, "Plan", outcome, f"{', '.join(failed_tables[:3])} cannot be planned." if failed_tables else sums
    )


def _select_row(pick: str, last_rows: str, names: list[str], rows: list[int]) -> None:
    """A row that was just selected becomes the table in the editor. Otherwise the editor's own selection stays."""
    if rows and st.session_state.get(last_rows) != rows and rows[0] < len(names):
        st.session_state[pick] = names[rows[0]]
    st.session_state[last_rows] = rows


def _factors(lines: list[planning.PlannedTable], spec: Spec) -> None:
    lower, upper = spec.snapshot.even_factor_lower, spec.snapshot.even_factor_upper
    figure_plans = planning.figure_plans(lines, lower, upper, clock.utc_now())
    if not figure_plans:
        st.caption("No table has a numeric key with a known distribution factor.")
        return
    rest = sum(1 for line in lines if line.plan and line.plan.factor) - len(figure_plans)
    tail = f"; {words.plural(rest, 'smaller table')} not shown" if rest else ""
    st.markdown(
        f"**Distribution factor** :gray[between {lower:g} and {upper:g}, the key is split evenly{tail}]",
        help=meaning.of("distribution factor", "chunk key"),
    )
    st.html(factor.figure(figure_plans, lower, upper))


def _editor(draft: Draft, spec: Spec, tables: list[Table], plans: dict[str, Plan | TidemarkError], pick: str) -> None:
    with st.container(border=True):
        st.markdown("**All tables**")
        path = ("snapshot", "chunk_rows")
        rows = draft.get(*path, default=None) or None
        key = frame.synced(f"{draft.id} rows of all tables", rows, partial(_keep, draft.id, path))
        st.number_input(
            "Rows a chunk",
            min_value=1,
            value=rows,
            step=1000,
            key=key,
            placeholder="automatic: by size",
            on_change=_keep,
            args=(draft.id, path, key),
            help="Empty: as many as fit into 16 MiB by the average row length. More chunks balance better, "
            "fewer cost less.",
        )
        if spec.sink.has_mirrors:
            mirrors.choose_all(draft)
        with st.expander("Bounds of the distribution factor"):
            frame.number("Lower", draft, "snapshot", "even_factor_lower", default=0.05, min_value=0.0, format="%g")
            frame.number("Upper", draft, "snapshot", "even_factor_upper", default=1000.0, min_value=0.0, format="%g")
    with st.container(border=True):
        st.markdown("**One table**")
        by_name = {table.full_name: table for table in tables}
        if st.session_state.get(pick) not in by_name:
            st.session_state[pick] = next(iter(by_name))
        name = st.selectbox("Table", list(by_name), key=pick, help="Or select a row of the plan")
        _one(draft, spec, by_name[name], plans[name])
        _types(spec, by_name[name])


def _types(spec: Spec, table: Table) -> None:
    """What the columns become in a database."""
    try:
        types = declared_types(spec, [table])
    except TidemarkError as problem:
        messages.error(problem)
        return
    if not types:
        return
    with st.expander(f"Types in {words.escape(types[0].place)}"):
        rows = [{"Column": one.column, "On the source": one.source, "There": one.declared} for one in types]
        st.dataframe(
            pd.DataFrame(rows), hide_index=True, placeholder=words.NOTHING, alt="Types of the columns in the database"
        )


def _one(draft: Draft, spec: Spec, table: Table, plan: Plan | TidemarkError) -> None:
    path = ("snapshot", "tables", table.full_name)
    rows = draft.get(*path, "chunk_rows", default=None)
    usual = spec.snapshot.chunk_rows
    key = frame.synced(f"{draft.id} rows of {table.full_name}", rows, partial(_keep, draft.id, (*path, "chunk_rows")))
    st.number_input(
        "Rows a chunk",
        min_value=0,
        value=rows,
        step=1000,
        key=key,
        placeholder=f"as all tables: {f'{usual:,}' if usual else 'by size'}",
        on_change=_keep,
        args=(draft.id, (*path, "chunk_rows"), key),
        help="Empty: as all tables",
    )
    options = planning.keys_for(table)
    now = spec.snapshot.rules(table.database, table.name).key or _OWN
    key = frame.synced(f"{draft.id} key of {table.full_name}", now, partial(_keep_key, draft.id, table.full_name))
    names = list(dict.fromkeys([_OWN, *options, now]))
    st.selectbox(
        "Chunk key",
        names,
        index=names.index(now),
        format_func=lambda one: one or planning.own_key_label(table),
        key=key,
        on_change=_keep_key,
        args=(draft.id, table.full_name, key),
        help=meaning.of("chunk key", also="Columns that have an index and ordered values."),
        disabled=not options and now == _OWN,
    )
    if isinstance(plan, Plan):
        low = f"{plan.chunk_key[0]} from {plan.minimum} to {plan.maximum}" if plan.minimum is not None else ""
        st.markdown(f":small[:gray[{words.escape(plan.reason)}]]")
        if low:
            st.markdown(f":small[:gray[{words.escape(low)}]]")
    else:
        frame.error(plan)
    if spec.sink.has_mirrors:
        mirrors.choose(draft, table)


def _keep(identity: str, path: tuple[str, ...], key: str) -> None:
    drafts.change(identity, lambda draft: draft.put(*path, value=st.session_state[key]))


def _keep_key(identity: str, table: str, key: str) -> None:
    value = st.session_state[key] or None

    def set_key(draft: Draft) -> Draft:
        draft = draft.put("snapshot", "chunk_key", table, value=None)
        return draft.put("snapshot", "tables", table, "key", value=value)

    drafts.change(identity, set_key)
