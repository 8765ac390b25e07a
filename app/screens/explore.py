"""Explore: SQL over mirrors and change logs, one key through time, and a table as the source was at a time."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from io import BytesIO
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import streamlit as st

from app.common import access, arrival, home, meaning, messages, no_mirrors, page_head, places, selection
from app.common.view import words, zone
from app.common.view.hints import for_console
from app.explore import saved
from app.explore.view import queries, row_life
from app.explore.view.queries import KnownTable
from engine.base import clock
from engine.base.errors import NewerFormatError, TidemarkError
from engine.base.wording import sentences
from engine.decode.schema import TM_REDUMP, TM_TS
from engine.history import chunk_queries, redumps, series, table_queries
from engine.pipeline.directory import Directory
from engine.spec import settings
from engine.spec.sink_settings import TableFormat, require_format, table_formats_of

if TYPE_CHECKING:
    from engine.decode.schema import Table
    from engine.explore.queries import QueryResult

_SQL, _ANSWER, _AT, _LIFE, _FORMAT = "sql", "answer", "as it was at", "life of a row", "format"
_ICEBERG = "Iceberg"
_STEPS = 50
"""Steps of a row's life that are drawn."""


@dataclass(frozen=True)
class KeptAnswer:
    """An answer, as the session keeps it."""

    question: tuple[object, ...]
    """The pipeline and what was chosen on the page. The answer is shown as long as they are the same."""
    sql: str
    answer: "QueryResult"
    notices: tuple[str, ...] = ()
    """The tables of the query that were not copied then."""


@dataclass(frozen=True)
class Life:
    """The life of a row, as the session keeps it."""

    key: tuple[str, ...]
    answer: KeptAnswer | None
    """The answer it is of."""
    steps: list[row_life.RowChange] | None
    """None if the answer has only the first changes."""


WAYS = ("SQL", "One key through time", "As the source was at")


def ask(where: Directory, tables: list["Table"], sql: str, *question: object, in_step: bool = False) -> None:
    """Run a query and keep the answer in the session. question: what was chosen on the page. in_step: of a landing."""
    from engine.explore.copy_notices import copy_notices
    from engine.explore.queries import answer, landing_of, named_in

    try:
        with st.spinner("Reading the destination", show_time=True):
            sink, table_format = settings.load(where.spec).sink, _table_format()
            sink.require_mirrors("Explore")
            named_tables = named_in(sql, tables)
            for table in named_tables:
                require_format(sink, table_format, table.database, table.name)
            notices = copy_notices(where, [table.full_name for table in named_tables])
            result = answer(landing_of(sink, table_format, in_step=in_step), tables, sql)
        st.session_state[_ANSWER] = KeptAnswer((where.root.name, table_format, *question), sql, result, tuple(notices))
    except TidemarkError as problem:
        st.session_state.pop(_ANSWER, None)
        messages.error(problem)


def _current_answer(where: Directory, *question: object) -> KeptAnswer | None:
    """The answer to what is chosen on the page now; None if it was not asked."""
    kept_answer: KeptAnswer | None = st.session_state.get(_ANSWER)
    asked_on_page = where.root.name, _table_format(), *question
    return kept_answer if kept_answer is not None and kept_answer.question == asked_on_page else None


def _table_format() -> TableFormat:
    """Whose readers' view is queried."""
    return "iceberg" if st.session_state.get(_FORMAT) == _ICEBERG else "delta"


def draw_answer(where: Directory, *question: object) -> None:
    """The answer to what is chosen on the page now, and buttons to download it."""
    kept_answer = _current_answer(where, *question)
    if kept_answer is None:
        return
    sql, result = kept_answer.sql, kept_answer.answer
    for notice in kept_answer.notices:
        st.warning(words.escape(notice), icon=":material/hourglass_empty:")
    left, right = st.columns([3, 2], vertical_alignment="center")
    left.caption(words.escape(queries.note(result.rows.num_rows, result.seconds, more=result.more)))
    with right, st.container(horizontal=True, horizontal_alignment="right"):
        st.download_button(
            "CSV", lambda: result.rows.to_pandas().to_csv(index=False), "answer.csv", "text/csv", key="csv"
        )
        st.download_button(
            "Parquet", lambda: _parquet(result), "answer.parquet", "application/vnd.apache.parquet", key="pq"
        )
    st.dataframe(
        queries.exact(result.rows),
        hide_index=True,
        key="answer-rows",
        height=460 if result.rows.num_rows > 11 else "auto",
        column_config={name: st.column_config.NumberColumn(format="plain") for name in queries.floats(result.rows)},
        placeholder="NULL",
        alt="Answer",
    )
    with st.expander("The query", icon=":material/code:"):
        st.code(sql, language="sql")


def _parquet(result: "QueryResult") -> bytes:
    into = BytesIO()
    pq.write_table(result.rows, into)
    return into.getvalue()


def _change(change: Callable[[], None]) -> None:
    """Change the saved queries, and show an error if the file is of a newer version."""
    try:
        change()
    except NewerFormatError as problem:
        st.toast(
            words.escape(sentences(problem.message, for_console(problem.hint))),
            icon=":material/error:",
            duration="long",
        )


def by_sql(where: Directory, tables: list["Table"], table: KnownTable) -> None:
    """A query by hand, from an example or a saved query."""
    choices = queries.choices(table, saved.load())

    def take() -> None:
        st.session_state[_SQL] = choices.get(st.session_state.get("query") or "", st.session_state.get(_SQL))

    selection.default(_SQL, next(iter(choices.values())))
    st.selectbox(
        "Start from", list(choices), key="query", index=None, on_change=take, placeholder="An example, or a saved query"
    )
    tip = "DuckDB SQL. Ctrl+Enter submits the text."
    sql = st.text_area("SQL", key=_SQL, bind="query-params", height=170, help=tip) or ""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        run = st.button("Run", type="primary", icon=":material/play_arrow:", key="run", shortcut="Ctrl+Enter")
        with st.popover("Save", icon=":material/bookmark:"):
            name = st.text_input("Name", key="save-as", placeholder="Today's orders")
            if st.button("Save query", key="save"):
                if name and sql.strip():
                    saved.save(str(name).strip(), sql)
                    st.rerun()
                st.toast("Not saved: enter a name and a query.", icon=":material/edit:")
        query_name = (st.session_state.get("query") or "").removeprefix("★ ")
        if query_name in saved.load() and st.button(
            "Delete saved", icon=":material/delete:", type="tertiary", key="forget"
        ):
            _change(lambda: saved.forget(query_name))
            st.rerun()
    if run:
        ask(where, tables, sql, "SQL")
    draw_answer(where, "SQL")


def by_key(where: Directory, tables: list["Table"], table: "Table") -> None:
    """Every change of one row."""
    from engine.explore.queries import history_sql

    if not table.key:
        messages.nothing("This table has no key", "Its rows cannot be identified. The change log has all of them.")
        return
    columns = st.columns(max(len(table.key), 3))
    values = [columns[n].text_input(name, key=f"key-{n}", bind="query-params") for n, name in enumerate(table.key)]
    key = queries.key_of(values)
    if (
        st.button("Show its history", type="primary", icon=":material/history:", key="by-key", disabled=key is None)
        and key
    ):
        ask(where, tables, history_sql(table, key), table, key)
        st.session_state[_LIFE] = _life_of(where, table, key)
    _draw_life(where, table, key)
    draw_answer(where, table, key)


def _life_of(where: Directory, table: "Table", key: tuple[str, ...]) -> Life:
    """The row's life, from the answer that the session now has."""
    answer: KeptAnswer | None = st.session_state.get(_ANSWER)
    if answer is None:  # the query failed, and its error is shown
        return Life(key, None, None)
    columns, result = [column.name for column in table.columns], answer.answer
    rows, requests = result.rows.to_pylist(), {}
    if any(row[TM_REDUMP] for row in rows):
        requests = {
            one.id: row_life.asked_by(one) for one in redumps.redumps(home.fresh(), where.root.name, limit=10_000)
        }
    read = _read_of(where.root.name, table, key, rows[0][TM_TS] if rows else None)
    expires = settings.load(where.spec).sink.changes_retention_s is not None
    life = row_life.steps(rows, columns, more=result.more, read=read, redumps=requests, expires=expires)
    return Life(key, answer, life)


def _read_of(name: str, table: "Table", key: tuple[str, ...], before: datetime | None) -> chunk_queries.RowRead | None:
    """The read of the row's chunk.

    The index alone can find it if the table is split by its key, and the key is a number.
    """
    plan = next(iter(table_queries.plans(home.fresh(), name, table.full_name)), None)
    if plan is None or plan.distribution_factor is None or [plan.chunk_key] != list(table.key):
        return None
    return chunk_queries.read_of(home.fresh(), name, table.full_name, key[0], before)


def _draw_life(where: Directory, table: "Table", key_on_page: tuple[str, ...] | None) -> None:
    """The changes of the row as differences, if the answer that is shown is its history."""
    life: Life | None = st.session_state.get(_LIFE)
    kept_answer = _current_answer(where, table, key_on_page)
    if life is None or kept_answer is None or kept_answer is not life.answer:
        return
    key, steps = life.key, life.steps
    if steps is None:
        messages.nothing(
            "Too many changes", "The row has more changes than an answer may have. Ask for its newest ones by SQL."
        )
        return
    if not steps:
        messages.nothing("No such row", "Neither the mirror nor the change log has a row with this key.")
        return
    with st.container(border=True):
        st.markdown(f"**{words.escape(row_life.summary(steps))}**")
        for step in steps[-_STEPS:]:
            st.markdown(row_life.markdown(step))
    if len(steps) > _STEPS:
        st.caption(f"The newest {_STEPS} of {len(steps):,} steps; all changes are in the table below.")
    if access.operator() and st.button("Redump this key", icon=":material/sync:", key="redump-key"):
        keys = key[0] if len(key) == 1 and not key[0].startswith("[") else json.dumps(list(key), ensure_ascii=False)
        request = {"pipeline": where.root.name, "part": "Keys", "table": table.full_name, "keys": keys}
        st.session_state[places.REDUMP_REQUEST] = request
        # Fields that are bound to widgets on this page cannot be in the URL; the form takes them from the session.
        st.switch_page(places.REDUMP, query_params={"part": "Keys"})


def by_time(where: Directory, tables: list["Table"], table: "Table") -> None:
    """The state of the table at a time."""
    from engine.explore.queries import as_of_sql, await_published, landing_of, merged_seq

    if not table.key:
        messages.nothing("This table has no key", "Its state at a time cannot be computed from the change log alone.")
        return
    cursor, name = home.fresh(), where.root.name
    lag = series.latest_lag(cursor, name)
    copied_at = table_queries.copied_at(cursor, name, table.full_name)
    span = queries.span(copied_at, lag.ts if lag else None, lag.lag_s if lag else None)
    if span is None:
        st.info(queries.refused(clock.utc_now(), None), icon=":material/hourglass_empty:")
        return
    st.caption(f"Known from {words.date_time(span[0])} to {words.date_time(span[1])}, by the source's clock.")
    try:
        at = _chosen_time((name, table.full_name), max(span[0] + timedelta(seconds=1), span[1] - timedelta(minutes=1)))
    except ValueError as fault:
        st.warning(words.escape(str(fault)), icon=":material/warning:")
        return
    if unknown := queries.refused(at, span):
        st.warning(unknown, icon=":material/warning:")
    elif st.button("Show the table as it was", type="primary", icon=":material/update:", key="by-time"):
        try:
            with st.spinner("Waiting for the destination to catch up with the ledger", show_time=True):
                sink = settings.load(where.spec).sink
                await_published(where, sink, table)
                sql = as_of_sql(table, at, merged_seq(where, landing_of(sink, _table_format(), in_step=True), table))
        except TidemarkError as problem:
            messages.error(problem)
            return
        ask(where, tables, sql, table, at, in_step=True)
    draw_answer(where, table, at)


def _chosen_time(of: tuple[str, str], usual: datetime) -> datetime:
    """The time chosen for this table.

    The instant stays the same in another time zone. Raises ValueError as `zone.read`.
    """
    key, url_time = str((_AT, *of)), st.query_params.get("at") if selection.opened() else None
    if url_time:
        try:
            st.session_state[key] = clock.parse_utc(url_time)
        except ValueError:
            st.warning(words.escape(f"The time in the address, {url_time}, is not a time."), icon=":material/warning:")
    instant: datetime = st.session_state.setdefault(key, usual.replace(microsecond=0))
    local, fields = zone.local(instant), f"{' '.join(of)} {zone.name()}"
    local_day, local_time = local.date(), f"{local:%H:%M:%S}"
    left, right, _ = st.columns([1, 1, 2])
    day = left.date_input(zone.heading("Day"), local_day, key=f"at-day {fields}")
    text = right.text_input(zone.heading("Time"), local_time, key=f"at-time {fields}", placeholder="15:30:17")
    if (day, text) != (local_day, local_time):  # an unchanged time is not parsed, since it may exist twice
        instant = st.session_state[key] = zone.read(str(day), text or "")
    selection.note("at", clock.utc_text(instant))
    return instant


def _choose_format(where: Directory) -> None:
    """Whose readers' view is queried, if the tables have several formats."""
    try:
        formats = table_formats_of(settings.load(where.spec).sink)
    except TidemarkError:
        return  # a query says so
    if "iceberg" not in formats:
        st.session_state.pop(_FORMAT, None)
        return
    selection.default(_FORMAT, "Delta")
    st.segmented_control(
        "As readers of",
        ("Delta", _ICEBERG),  # the address has the labels
        key=_FORMAT,
        bind="query-params",
        required=True,
        help="The files are the same. Which of them a table has, and which rows are deleted, each format says itself.",
    )


def page() -> None:
    """The page."""
    where = page_head.pipeline("Explore", "Here you can query published tables.")
    if where is None:
        return
    if no_mirrors.true_of(where):
        no_mirrors.explain("No mirrors to query")
        return
    from engine.explore.queries import published_tables, quoted

    try:
        tables = published_tables(where)
    except TidemarkError as problem:
        messages.error(problem)
        return
    if not tables:
        messages.nothing("Nothing is published yet", "Tables appear here when the pipeline has started to copy them.")
        arrival.rerun_when(lambda: published_tables(where))
        return
    by_name = {table.full_name: table for table in tables}
    left, right = st.columns([2, 3], vertical_alignment="bottom")
    with left:
        name = selection.table(list(by_name), usual=next(iter(by_name)))
    with right, st.container(horizontal=True, vertical_alignment="bottom"):
        selection.default("way", "SQL")
        way = st.segmented_control(
            "Ask by",
            WAYS,
            key="way",
            bind="query-params",
            required=True,
            help=meaning.of("mirror", "change log", "change"),
        )
        _choose_format(where)
    if name is None:
        messages.nothing("Choose a table", "The table in the address is not published by this pipeline.")
        return
    published = by_name[name]
    schema = quoted(published.database)
    table = KnownTable(
        name,
        f"{schema}.{quoted(published.name)}",
        f"{schema}.{quoted(f'{published.name}__changes')}",
        tuple(published.key),
        tuple(column.name for column in published.columns),
    )
    st.caption(words.escape(queries.columns_note(table)))
    if len(table.columns) > queries.MOST_COLUMNS:
        with st.expander(f"All {len(table.columns):,} columns"):
            st.caption(words.escape(", ".join(table.columns)))
    places.link_to_table(where.root.name, name)
    if way == "One key through time":
        by_key(where, tables, published)
    elif way == "As the source was at":
        by_time(where, tables, published)
    else:
        by_sql(where, tables, table)


page()
