"""The section about the tables in the destination: files, sizes, costs, and a button that maintains them now."""

from collections.abc import Sequence
from datetime import timedelta

import pandas as pd
import streamlit as st

from app.common import access, columns, controls, home, jobs, meaning, messages, no_mirrors, places
from app.common.autorefresh import INTERVAL_S, autorefresh
from app.common.view import words
from app.live import request_section, sinks_section
from app.live.view import destination
from app.live.view.snippets import reading
from app.live.view.source_load import asked_rows
from engine.base import clock
from engine.base.errors import SpecError, TidemarkError
from engine.explore.destination_sizes import TableSizes, conditions
from engine.history import cost_queries, maintenance_queries
from engine.pipeline.directory import Directory
from engine.spec import settings
from engine.spec.catalog_settings import CatalogSettings

_DAY = timedelta(days=1)
_COLUMNS = {
    "Table": st.column_config.TextColumn(width="medium", pinned=True),
    "Page": columns.page(),
    "Mirror": columns.figure(meaning.of("mirror", also="The files of its newest version.")),
    "Files": columns.figure("Files of the mirror"),
    "Deleted rows": columns.figure(
        meaning.of(
            "deletion vector",
            "merge on read",
            also="Rows that deletion vectors delete; they go when their file is rewritten.",
        )
    ),
    "Change log": columns.figure(meaning.of("change log")),
    "Log files": columns.figure("Files of the change log"),
    "Old files": columns.figure(
        "Files that the newest version does not reference; a vacuum deletes them after the retention"
    ),
    "Iceberg": st.column_config.TextColumn(
        "Iceberg",
        help="The Iceberg tables over the same files, how many versions of the Delta tables they lack, and what the "
        "catalog has of them.",
    ),
    "Written": columns.figure("Bytes written to the mirror per byte of changes, in the last 24 hours"),
    "Merged": columns.figure("The last merge into the mirror, in the last 24 hours"),
    "Maintained": columns.figure("The last step of maintenance, in the last 24 hours"),
    "Due": st.column_config.TextColumn(
        "Due", help=meaning.of("maintenance", "compaction", also="What it would do now, apart from deleting old files.")
    ),
}


def section(where: Directory) -> None:
    """Sizes per table, read on request, since large logs take a while."""
    name = where.root.name
    _source_cost(name)
    sinks_section.section(where)
    if space := home.ask(maintenance_queries.latest_space, name):
        st.markdown(f"**Disk** {words.escape(destination.disk(space, clock.utc_now()))}")
    read = _conditions(where)
    if read is None:
        return
    spec, key, sizes = read
    request_section.section(where, spec, sizes)
    if not spec.sink.has_mirrors:
        st.caption(no_mirrors.instead(spec.sink))
        return
    if not sizes:
        messages.nothing("No table yet", "Tables appear here when the runner has planned them.")
        return
    now = clock.utc_now()
    works = {work.table: work for work in home.ask(maintenance_queries.work, name, now - _DAY)}
    st.dataframe(
        pd.DataFrame(
            [destination.row(one, works.get(one.table), now, places.table_address(name, one.table)) for one in sizes]
        ),
        hide_index=True,
        key="destination",
        column_config=_COLUMNS,
        placeholder=words.NOTHING,
        alt="Files and sizes per table",
    )
    st.caption(f"{destination.sums(sizes, works)} · {destination.read_at(jobs.ended_at(key), now)}")
    _reading(where, sizes, spec.sink.catalog)
    if access.operator():
        _maintain(where, [one.table for one in sizes])
    retention = "for ever" if spec.sink.changes_retention == "forever" else f"for {spec.sink.changes_retention}"
    schedule = (
        "by schedule: mirrors after 10 merges, everything every hour"
        if spec.sink.maintenance
        else "only on request (sink.maintenance = false)"
    )
    st.caption(
        f"The runner maintains tables {schedule}. Old files stay for {spec.sink.files_retention}, changes {retention}. "
        "Maintenance changes no row."
    )


def _source_cost(name: str) -> None:
    """What reading has cost the source, beside the costs of the destination."""
    now = clock.utc_now()
    spans = {"Last hour": timedelta(hours=1), "Last 24 hours": _DAY}
    rows = asked_rows(
        {label: cost_queries.source_cost(home.fresh(), name, now - span) for label, span in spans.items()}
    )
    with st.expander("Asked of the source", icon=":material/database:"):
        if not rows:
            st.caption("Nothing in the last 24 hours.")
            return
        st.dataframe(
            pd.DataFrame(rows),
            hide_index=True,
            key="asked",
            placeholder=words.NOTHING,
            alt="Bytes and seconds asked of the source",
        )
        st.caption(
            "Computed from the journal, without asking the source. Seconds add up over all readers, and include "
            "decoding and throttle pauses. Bytes of chunks are those of their compressed files. The binlog is read "
            "completely, including the changes of other tables."
        )


def _reading(where: Directory, sizes: Sequence[TableSizes], catalog: CatalogSettings | None) -> None:
    """Where a mirror is, and code that reads it."""
    mirrors = {one.table: one.mirror for one in sizes if one.mirror is not None}
    if not mirrors:
        return
    with st.expander("Read a mirror", icon=":material/code:"):
        table = st.selectbox("Mirror", list(mirrors), key=f"read-mirror-{where.root.name}")
        st.caption(f"{words.escape(table)} is here: {words.escape(mirrors[table])}")
        iceberg = next((one.formats[0] for one in sizes if one.formats and one.table == table), None)
        name = iceberg.catalog.name if iceberg is not None and iceberg.catalog is not None else ""
        snippets = reading(mirrors[table], "" if iceberg is None else iceberg.place, catalog, name)
        for tab, (language, code) in zip(st.tabs(list(snippets)), snippets.values(), strict=True):
            tab.code(code, language=language)


def _conditions(where: Directory, *tables: str) -> tuple[settings.Spec, str, list[TableSizes]] | None:
    """The spec, the key of the job, and the sizes of these tables, or of all.

    Draws a heading with a button that reads again. None while the job runs, or if it failed; the page shows which.
    """
    name = where.root.name
    try:
        spec = settings.load(where.spec)
    except TidemarkError as problem:
        messages.error(problem)
        return None
    key = f"destination of {name} {' '.join(tables)} {spec.sink.model_dump_json()}"
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.markdown(f"**Destination** :gray[{words.escape(no_mirrors.place(spec.sink))}]", width="content")
        if st.button("Reload", icon=":material/refresh:", type="tertiary", key=f"destination-read-{name}-{tables}"):
            jobs.forget(key)
    try:
        sizes = jobs.result(key, "Reading the Delta logs", lambda: conditions(spec, where, tables))
    except SpecError:  # the ledger does not have the table
        sizes = []
    except TidemarkError as problem:
        messages.error(problem)
        return None
    return None if sizes is None else (spec, key, sizes)


@autorefresh(5 * INTERVAL_S)
def of_table(where: Directory, table: str) -> None:
    """Files and sizes of one table. They are read again when its Delta logs have a newer version."""
    name, now = where.root.name, clock.utc_now()
    read = _conditions(where, table)
    if read is None:
        return
    spec, key, sizes = read
    if not spec.sink.has_mirrors:
        st.caption(no_mirrors.instead(spec.sink))
        return
    current = bool(sizes) and sizes[0].current
    if not current:
        jobs.renew(key, lambda: conditions(spec, where, (table,)))
    if not sizes:
        st.caption("The pipeline writes no files for this table: its copy has not begun, or the table was removed.")
        return
    works = {work.table: work for work in home.ask(maintenance_queries.work, name, now - _DAY)}
    st.dataframe(
        pd.DataFrame([destination.row(one, works.get(one.table), now) for one in sizes]),
        hide_index=True,
        key="table-destination",
        column_config=_COLUMNS,
        placeholder=words.NOTHING,
        alt="Files and sizes of the table",
    )
    st.caption(destination.read_at(jobs.ended_at(key), now, current=current))


def _maintain(where: Directory, tables: list[str]) -> None:
    name, click = where.root.name, controls.clicks(where.root.name)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        selected_tables = st.multiselect(
            "Tables to maintain", tables, key=f"maintain-{name}-{click}", placeholder="All tables"
        )
        st.button(
            f"Maintain {words.plural(len(selected_tables), 'table')} now" if selected_tables else "Maintain all now",
            icon=":material/mop:",
            key=f"maintain-send-{name}-{click}",
            on_click=_send,
            args=(where, click, selected_tables),
        )


def _send(where: Directory, click: int, tables: list[str]) -> None:
    if controls.first_time(where.root.name, click):
        controls.post(where, "maintain", "", {"tables": tables})
