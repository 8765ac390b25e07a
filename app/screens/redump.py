"""Redump: choose chunks, a range, keys or tables, count the affected rows, send the command, and follow it."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from app.common import (
    arrival,
    columns,
    controls,
    engine,
    home,
    meaning,
    messages,
    no_mirrors,
    page_head,
    places,
    runner_notice,
    selection,
    table_fields,
)
from app.common.autorefresh import autorefresh
from app.common.view import redump_form, words
from app.common.view.alert_list import refused_reads
from app.common.view.redump_form import DryRun, Request
from engine.base import clock
from engine.base.errors import TidemarkError
from engine.history import chunk_queries, redumps, table_queries
from engine.pipeline.directory import Directory

_EMPTY = {"part": "Chunks", "table": None}
_OWNED = ("chunks", "lower", "upper", "keys")
"""The fields whose values belong to a table."""
_DRY_RUN, _EXPECTED = "dry run", "expected rows"
_HELP = {
    "Chunks": "Chunks of the table's last copy, by their numbers on the chunk map.",
    "Range": "From the lower bound (included) to the upper bound (excluded), in the form that the plan shows. "
    "Empty means open.",
    "Keys": 'Primary keys, one per line; composite ones as JSON: ["de", 5]. Keys without a row are deleted and listed.',
    "Table": "The whole table.",
    "Everything": "All tables of the pipeline. This also repairs a pipeline whose position was purged.",
}


def _key(kind: str, of: str) -> str:
    """A session key."""
    return str((kind, of))


def plans_of(name: str) -> list[table_queries.NewestPlan]:
    """The plans of a pipeline's tables, without those that were removed."""
    removed_tables = {one.table for one in home.ask(table_queries.progress, name) if one.state == "removed"}
    return [plan for plan in home.ask(table_queries.plans, name) if plan.table not in removed_tables]


def request_form(where: Directory, plans: Sequence[table_queries.NewestPlan]) -> Request:
    """The form for the request."""
    name, parts = where.root.name, parts_of(where)
    selection.default("part", parts[0])
    if "part" in st.session_state:  # otherwise the field follows the URL
        st.session_state["part"] = part_of(where)
    choice = st.segmented_control(
        "Redump",
        parts,
        key="part",
        bind="query-params",
        required=True,
        help=meaning.of("redump", "chunk", "resnapshot", "ghost"),
    )
    part = choice or parts[0]
    if part != "Everything":
        left, right = st.columns([2, 3], gap="medium")
        with left:
            usual = plans[0].table if len(plans) == 1 else None
            table = selection.table([plan.table for plan in plans], usual=usual)
        for field in _OWNED:
            table_fields.settle(field, (name, table or ""))
        with right:
            _part(part, next((plan.chunk_key for plan in plans if plan.table == table), ""))
    st.caption(_HELP[part])
    return entered(where)


def parts_of(where: Directory) -> Sequence[str]:
    """What can be redumped of a pipeline; the first one is the usual."""
    return redump_form.WHOLE if no_mirrors.is_not_read_back(where) else redump_form.PARTS


def part_of(where: Directory) -> str:
    """What is redumped: the field's value, if the pipeline has such parts."""
    part, parts = str(st.session_state.get("part") or ""), parts_of(where)
    return part if part in parts else parts[0]


def entered(where: Directory) -> Request:
    """The current values of the form. A value that was entered last arrives with the click, before the rerun."""
    now = st.session_state
    part, table = part_of(where), now.get("table") or ""
    if part == "Range":
        return Request(part, table, lower=table_fields.entered("lower"), upper=table_fields.entered("upper"))
    if part == "Everything":
        return Request(part)
    field = {"Chunks": "chunks", "Keys": "keys"}.get(part)
    return Request(part, table, **({field: table_fields.entered(field)} if field else {}))


def _part(part: str, key: str) -> None:
    if part == "Chunks":
        _text(st.text_input, "Chunks", "chunks", placeholder="3, 7–9")
    elif part == "Range":
        lower, upper = st.columns(2)
        _text(lower.text_input, f"From {key}".rstrip(), "lower", placeholder="open")
        _text(upper.text_input, "Up to, without", "upper", placeholder="open")
    elif part == "Keys":
        _text(st.text_area, "Keys", "keys", height=120, placeholder="17\n18")


def _text(draw: Callable[..., str | None], label: str, field: str, **options: Any) -> None:
    """A field whose value belongs to the table."""
    table_fields.keep(field, draw(label, table_fields.value(field), key=table_fields.key(field), **options) or "")


def counted(where: Directory, request: Request) -> DryRun | None:
    """The dry run of this request, if it was made."""
    last_count: tuple[Request, DryRun] | None = st.session_state.get(_key(_DRY_RUN, where.root.name))
    return last_count[1] if last_count is not None and last_count[0] == request else None


def count(where: Directory, request: Request, plan: table_queries.NewestPlan | None) -> DryRun | None:
    """Make the dry run; None, with the reason shown, if the request is incomplete or it fails. plan: of its table."""
    numeric = plan is not None and plan.distribution_factor is not None
    if fault := redump_form.missing(request, numeric=numeric):
        st.info(fault, icon=":material/edit:")
        return None
    try:
        with st.spinner("Counting the affected rows"):
            document = json.dumps(redump_form.document(request))
            answer = engine.ask("redump", where.spec, ["--request", "-", "--dry-run"], stdin=document)
            dry_run = DryRun.from_json(answer)
    except TidemarkError as problem:
        messages.error(problem)
        return None
    st.session_state[_key(_DRY_RUN, where.root.name)] = request, dry_run
    return dry_run


def affected(where: Directory, dry_run: DryRun, key: str) -> None:
    """The affected tables, rows and ranges."""
    reads = home.ask(chunk_queries.reads, where.root.name, limit=2000)
    seconds = redump_form.expected_s(dry_run.tables, reads)
    left, right = st.columns([6, 1], vertical_alignment="center")
    left.markdown(f"**Affected** {words.escape(redump_form.sentence(dry_run.tables, seconds))}")
    if right.button("Count again", icon=":material/refresh:", type="tertiary", key="count"):
        st.session_state.pop(_key(_DRY_RUN, where.root.name))
        st.rerun()
    st.dataframe(
        pd.DataFrame(redump_form.affected_rows(dry_run.tables)),
        hide_index=True,
        key="affected",
        column_config={
            "How": st.column_config.TextColumn(width="large"),
            **columns.figures("Rows read again", "Rows in the mirror", "Size of the mirror"),
        },
        placeholder=words.NOTHING,
        alt="Affected rows per table",
    )
    if ranges := redump_form.ranges(dry_run.tables, key):
        more = f"\n… and {len(ranges) - 5:,} more" if len(ranges) > 5 else ""
        st.code("\n".join(ranges[:5]) + more, language=None)


def send_form(where: Directory, request: Request, dry_run: DryRun) -> None:
    """The reason and the button. A redump of everything must be confirmed with the pipeline's name."""
    name = where.root.name
    able = any(one.way not in redump_form.NOT_READ for one in dry_run.tables)
    sure = True
    with st.container(border=True):
        st.text_input("Reason", key="why", placeholder="Shown in the events and the history")
        if request.part == "Everything":
            name_entered = st.text_input(
                f"Type {name} to confirm", key="sure", help="All tables will be read again, which cannot be undone"
            )
            sure = name_entered == name
        st.button(
            "Redump",
            type="primary",
            icon=":material/sync:",
            key=f"send-{controls.clicks(name)}",
            disabled=not (able and sure),
            on_click=_send,
            args=(where, controls.clicks(name), request, dry_run),
        )


def _send(where: Directory, click: int, request: Request, dry_run: DryRun) -> None:
    """Send the request that was counted. If it was changed with the click, it is counted first."""
    name, now = where.root.name, st.session_state
    if entered(where) != request or not controls.first_time(name, click):
        return
    identity = controls.post(where, "redump", now.get("why"), dry_run.arguments)
    rows = [one.rows for one in dry_run.tables]
    st.session_state[_key(_EXPECTED, identity)] = None if None in rows else sum(rows)


@autorefresh()
def commands(where: Directory, tables: Sequence[str]) -> None:
    """The progress of running redumps and of those sent from this browser, and a table of all of them."""
    name, cursor, now = where.root.name, home.fresh(), clock.utc_now()
    past_redumps = redumps.redumps(cursor, name)
    answered_ids = {one.id for one in past_redumps}
    mine = {sent.id for sent in controls.sent(name) if sent.verb == "redump"}
    waiting = [sent for sent in controls.sent(name) if sent.verb == "redump" and sent.id not in answered_ids]
    for sent in waiting:
        age = words.duration((now - sent.at).total_seconds())
        runner = home.runner(where)
        then = (
            "the runner has not answered yet" if runner.alive else "no runner is alive; the next start carries it out"
        )
        st.markdown(f":blue[:material/send: Sent {age} ago; {then}]")
    refused = [str(one.table) for one in refused_reads(home.alerts_of(where))]
    runner_notice.refused_reads(where)
    for one in past_redumps:
        if one.state == "under way" or one.id in mine:
            colour, text, share = redump_form.progress(
                one, st.session_state.get(_key(_EXPECTED, one.id)), redump_form.refused_tables(one, tables, refused)
            )
            st.markdown(f":{colour}[:material/sync: {words.escape(text)}]")
            if share is not None and one.state == "under way":
                st.progress(share)
            if one.state == "done":
                query = redump_form.verify_query(one, name, tables)
                st.page_link(
                    places.VERIFY, label="Verify what was redumped", icon=":material/fact_check:", query_params=query
                )
    st.markdown("**Past redumps** :gray[newest first]")
    if not past_redumps:
        messages.nothing("No redump yet", "Each redump appears here, with its reason and its result.")
        return
    st.dataframe(
        pd.DataFrame(
            redump_form.past_rows(
                past_redumps, lambda one: places.address("verify", **redump_form.verify_query(one, name, tables))
            )
        ),
        hide_index=True,
        key="past",
        column_config={
            **columns.time("Asked"),
            "Verify": columns.verify(),
            "Ghosts": st.column_config.NumberColumn(help=meaning.of("ghost")),
            "Rows": st.column_config.NumberColumn(format="localized"),
            **columns.figures("Keys missing", "Took"),
        },
        placeholder=words.NOTHING,
        alt="Redumps, newest first",
    )
    messages.freshness(now)


def page() -> None:
    """The page."""
    handed_over = st.session_state.pop(places.REDUMP_REQUEST, {})
    st.session_state.update({field: text for field, text in handed_over.items() if field not in _OWNED})
    if not handed_over:
        selection.reset_form(_EMPTY, _OWNED, [where.root.name for where in home.directories()])
    where = page_head.pipeline("Redump", "Here you can redump published tables.")
    if where is None:
        return
    table_fields.take(where.root.name, *_OWNED)
    for field in _OWNED:
        if field in handed_over:
            table_fields.put(field, (where.root.name, handed_over["table"]), handed_over[field])
    plans = plans_of(where.root.name)
    if not plans:
        messages.nothing("No table planned yet", "A table can be redumped when it has been planned.")
        arrival.rerun_when(lambda: plans_of(where.root.name))
        return
    names = [plan.table for plan in plans]
    runner_notice.notices(where)
    request = request_form(where, plans)
    if request.table:
        places.link_to_table(where.root.name, request.table)
    elif request.part != "Everything":
        selection.no_table()
        commands(where, names)
        return
    plan = next((plan for plan in plans if plan.table == request.table), None)
    answer, body = counted(where, request), None
    if answer is None:
        body = st.empty()  # the rows and the button of the previous request disappear at once
        with body.container():
            answer = count(where, request, plan)
    if answer is not None:
        with st.container() if body is None else body.container():
            affected(where, answer, plan.chunk_key if plan is not None else "")
            send_form(where, request, answer)
    commands(where, names)


page()
