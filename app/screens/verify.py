"""Verify: whether the mirrors equal the source, since when, which rows differ, and their repair."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from app.common import (
    access,
    arrival,
    columns,
    controls,
    data_light,
    engine,
    home,
    jobs,
    messages,
    no_mirrors,
    page_head,
    places,
    runner_notice,
    selection,
    table_acts,
)
from app.common.autorefresh import autorefresh
from app.common.table_acts import CommandVerb
from app.common.view import verification, words
from app.common.view.verification import VerifiedTable
from app.verify.view import part_map
from app.verify.view.part_map import PartTile
from engine.base import clock
from engine.base.errors import TidemarkError
from engine.base.json_records import records_from
from engine.pipeline.directory import Directory
from engine.pipeline.table_verdict import STATES
from engine.pipeline.verification_records import Details
from engine.pipeline.verifications import read_audit, read_details

_PATIENCE_S = 6 * 3600.0
_CELLS = 2000
_REPORT = "report.html"
_FIRST = ("State", "Table", "Page")


@autorefresh()
def overview(where: Directory, acts_on_page: dict[str, tuple[CommandVerb, ...]], wait_on_page: str) -> None:
    """The numbers of the pipeline. No word is green while the mirrors do not follow the source.

    acts_on_page: the buttons below; wait_on_page: why they wait. If that is otherwise now, the page runs again.
    """
    now, runner = clock.utc_now(), home.runner(where)
    tables = data_light.tables_of(where, now)
    if not tables:
        messages.nothing("No table planned yet", "A table can be verified when it has been copied.")
        return
    light = data_light.layer_of(where, now, current=runner.works and not home.lacking_settings(where))
    able = [one for one in tables if one.state != "unverifiable"]
    oldest = min((one.at for one in able if one.at), default=None)
    comparable = sum(one.verdict.comparable for one in tables)
    cells = st.columns(4)
    cells[0].metric("Verified tables", f"{sum(one.state == 'verified' for one in tables):,} of {comparable:,}")
    complete = oldest is not None and all(one.at for one in able)
    age = words.duration(round((now - oldest).total_seconds())) if complete and oldest else words.NOTHING
    cells[1].metric(
        "Oldest verification", age, help="The part that was compared longest ago; — if some part never was."
    )
    rows = sum(one.differences for one in tables)
    compared_rows = sum(one.summary.rows for one in tables if one.summary)
    # Before anything is compared, 0 would pass for a verdict.
    cells[2].metric("Rows that differ", f"{rows:,}" if rows or compared_rows else words.NOTHING)
    cells[3].metric("Compared rows", words.count(compared_rows))
    st.markdown(f":{light.colour}[**{words.escape(light.headline)}**] :gray[{words.escape(' · '.join(light.details))}]")
    table_acts.unreadable(where)
    if table_acts.of_tables(where) != acts_on_page or verification.wait(runner) != wait_on_page:
        st.rerun()
    settings = data_light.verify_settings(where)
    st.caption(verification.schedule(settings))
    st.caption(verification.audits(settings, read_audit(where), now))
    messages.freshness(now)


@autorefresh()
def tables(where: Directory) -> None:
    """The tables and their states."""
    verified_tables = data_light.tables_of(where, clock.utc_now())
    table_rows = [
        {**row, "Page": places.table_address(where.root.name, one.table)}
        for one, row in zip(verified_tables, verification.table_rows(verified_tables), strict=True)
    ]
    st.dataframe(
        pd.DataFrame(table_rows),
        hide_index=True,
        key="verified-tables",
        column_order=(*_FIRST, *(name for name in table_rows[0] if name not in _FIRST)),
        height=420 if len(table_rows) > 11 else "auto",
        column_config={
            "Page": columns.page(),
            "State": columns.states([*STATES, *(one.label for one in verified_tables)]),
        }
        | columns.time("Compared")
        | columns.figures("Rows", "Parts", "Version", "Took"),
        placeholder=words.NOTHING,
        alt="The tables and whether they are verified",
    )


def _job(where: Directory) -> str:
    return f"verify {where.root.name}"


def _run(where: Directory, words_of: list[str]) -> dict[str, Any]:
    where.verifications.mkdir(parents=True, exist_ok=True)
    report = ["--report", str(where.verifications / _REPORT)]
    return engine.ask("verify", where.spec, [*words_of, *report], timeout_s=_PATIENCE_S)


def _start(where: Directory, words_of: list[str], key: str, click: int) -> None:
    if controls.first_time(key, click) and access.operator():
        jobs.forget(_job(where))
        jobs.start(_job(where), partial(_run, where, words_of))


def actions(where: Directory, one: VerifiedTable | None, rows: int, wait: str) -> None:
    """Buttons that verify the pipeline or the table, or repair its rows; the running job, and the report.

    They come before the lists, whose cells are stops of the Tab key. rows: rows of the table that are known to differ.
    wait: why nothing can be compared now, so that the buttons are disabled; empty if something can.
    """
    name, busy, table = where.root.name, jobs.running(_job(where)), one.table if one else None
    able = one is not None and one.verdict.comparable
    with st.container(horizontal=True, vertical_alignment="center"):
        if access.operator():
            for label, words_of, key in (
                ("Verify all tables", [], "all"),
                ("Verify this table", ["--table", table or ""], "table"),
            ):
                if key == "all" or able:
                    click = controls.clicks(f"verify {key} {name}")
                    st.button(
                        label,
                        icon=":material/fact_check:",
                        key=f"verify-{key}-{name}-{click}",
                        disabled=busy or bool(wait),
                        on_click=_start,
                        args=(where, words_of, f"verify {key} {name}", click),
                    )
        if table and rows:
            _repair(where, table, rows, wait)
        report = where.verifications / _REPORT
        if access.operator() and report.exists():  # it has the rows
            st.download_button(
                "Download the report",
                report.read_bytes(),
                f"{name}-verification.html",
                "text/html",
                icon=":material/download:",
                help="Of the last verification from this page: a page to print, with a checksum of itself.",
            )
    if wait and access.operator():
        st.caption(words.escape(wait))
    if jobs.exists(_job(where)):
        try:
            answer = jobs.result(_job(where), "Comparing with the source", partial(_run, where, []))
        except TidemarkError as problem:
            messages.error(problem)
            return
        if answer is not None:
            _outcome(where, records_from(verification.ComparedTable, answer["tables"]), jobs.ended(_job(where)))


@autorefresh()
def _outcome(where: Directory, results: Sequence[verification.ComparedTable], ended: str) -> None:
    """What the verification from this page found, as long as no newer result replaces it."""
    tables_now = data_light.tables_of(where, clock.utc_now())
    for colour, text in verification.outcome(results, ended, tables_now):
        st.markdown(f":{colour}[{words.escape(text)}]")


def differences(one: VerifiedTable, details: Details) -> None:
    """The rows that differ, and both sides of one of them."""
    table, rows = one.table, details.differences
    st.subheader(f"Rows that differ :gray[{len(rows):,}]" if rows else "Rows that differ", anchor=False)
    if not rows:
        st.caption(verification.none_differ(one))
        return
    if not access.operator():
        st.caption("Operators see the rows.")
        return
    st.dataframe(
        pd.DataFrame(verification.difference_rows(details)),
        hide_index=True,
        key=f"differences-{table}",
        height=320 if len(rows) > 8 else "auto",
        column_config={"Likely cause": columns.sentences()},
        row_height=columns.height(row.cause for row in rows),
        placeholder=words.NOTHING,
        alt="The rows that differ",
    )
    keys = _keys(details)
    if st.session_state.get("key") not in keys:
        st.session_state["key"] = st.query_params.get("key") if st.query_params.get("key") in keys else keys[0]
    selection.note("key")
    left, _ = st.columns([2, 3])
    selected_key = left.selectbox("Row", keys, key="key", help="The key of the row to look at.")
    for row in (row for row in rows if verification.key_text(row) == selected_key):
        st.markdown(f"**{words.escape(row.kind.capitalize())}** :gray[{words.escape(row.cause)}]")
        st.table(pd.DataFrame(verification.side_by_side(row)).set_index("Column"))


def _keys(details: Details) -> list[str]:
    return list(dict.fromkeys(verification.key_text(row) for row in details.differences))


def _repair(where: Directory, table: str, rows: int, wait: str) -> None:
    if not access.operator():
        return
    name = where.root.name
    click = controls.clicks(f"repair {name}")
    # Another key closes the popover when the repair begins.
    label, place = f"Repair {words.plural(rows, 'row')}", f"repair-rows-{name}-{click}"
    busy = jobs.running(_job(where)) or bool(wait)
    with st.popover(label, icon=":material/build:", disabled=busy, key=place):
        st.markdown(
            "The table is compared again. Rows that differ are redumped: read from the source, and written to the "
            f"mirror. {words.plural(rows, 'row')} of {words.escape(table)} differed. Then they are verified again.",
            width=420,
        )
        st.text_input("Reason", key=f"reason-{name}-{click}", placeholder="For the journal; optional")
        st.button(
            "Repair and verify",
            type="primary",
            key=f"repair-{name}-{click}",
            on_click=_start_repair,
            args=(where, table, click),
        )


def _start_repair(where: Directory, table: str, click: int) -> None:
    """Start the repair. The reason may arrive with the click, after the button was drawn."""
    name, actor = where.root.name, access.actor()
    reason = str(st.session_state.get(f"reason-{name}-{click}") or "")
    why = " ".join(filter(None, (reason, f"(by {actor})" if actor else "")))
    words_of = ["--table", table, "--repair", *(["--reason", why] if why else [])]
    _start(where, words_of, f"repair {name}", click)


def parts(details: Details) -> None:
    """The map of the table's parts, by age; those with differences are red."""
    cells = verification.part_cells(details.parts, _CELLS)
    if len(cells) < 2:
        return
    st.subheader("Parts by age", anchor=False)
    now_s = clock.unix_s()
    tiles = [
        PartTile(label, rows, None if at is None else max(now_s - at, 0.0), count) for label, rows, at, count in cells
    ]
    st.html(part_map.markup(tiles))
    st.caption("A tile is a part of the table, usually a chunk. Darker: compared longer ago.")


def page() -> None:
    """The page."""
    where = page_head.pipeline("Verify", "Here you can see whether their mirrors equal the source.")
    if where is None:
        return
    runner_notice.notices(where)
    if no_mirrors.is_not_read_back(where):
        no_mirrors.explain("No mirrors to verify")
        return
    acts, wait = table_acts.of_tables(where), verification.wait(home.runner(where))
    overview(where, acts, wait)
    table_acts.buttons(where, acts, key="act")
    all_tables = data_light.tables_of(where, clock.utc_now())
    if not all_tables:
        arrival.rerun_when(lambda: data_light.tables_of(where, clock.utc_now()))
        return
    left, _ = st.columns([2, 3])
    with left:
        table = selection.table([one.table for one in all_tables], usual=all_tables[0].table)
    details = None if table is None else read_details(where, table)
    verified_table = next((one for one in all_tables if one.table == table), None)
    actions(where, verified_table, len(_keys(details)) if details else 0, wait)
    tables(where)
    if table is None or verified_table is None or details is None:
        selection.no_table()
        return
    differences(verified_table, details)
    parts(details)
    state_on_page = _page_state(where, table)
    arrival.rerun_when(lambda: _page_state(where, table) != state_on_page)


def _page_state(where: Directory, table: str) -> tuple[list[str], list[str]]:
    """What the lists below say of a table: without its age, which the overview shows."""
    now = [verification.none_differ(one) for one in data_light.tables_of(where, clock.utc_now()) if one.table == table]
    return now, _keys(read_details(where, table))


page()
