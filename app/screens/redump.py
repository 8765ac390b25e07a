"""Read again what is published: what, what it reaches, why, and how it goes."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import streamlit as st

from app.parts import columns, controls, engine, home, messages, places
from app.parts.autorefresh import refreshing
from app.view import redump_form, words
from app.view.redump_form import Wish
from engine import clock
from engine.directory import Directory
from engine.errors import TidemarkError
from engine.history import chunk_queries as chunks
from engine.history import redumps
from engine.history import table_queries as tables

_REACHED, _EXPECTED, _PART = "reached", "expected rows", "redump-part"
_HELP = {
    "Chunks": "Chunks of the table's last copy, by their numbers on the chunk map.",
    "Range": "From the lower bound on, up to but without the upper one, as the plan shows them; empty is an open end.",
    "Keys": 'Rows by primary key, one a line; of several columns as JSON: ["de", 5]. What does not exist is deleted and listed.',
    "Table": "All of the table.",
    "Everything": "Every table of the pipeline. It also heals a pipeline that lost its position.",
}


def wish_of(plans: Sequence[tables.Plan]) -> Wish:
    """The form."""
    part = st.segmented_control(
        "Read again", redump_form.PARTS, default="Chunks", key="part", bind="query-params", required=True
    )
    if part != "Everything":
        left, right = st.columns([2, 3], gap="medium")
        table = left.selectbox("Table", [plan.table for plan in plans], key="table", bind="query-params")
        with right:
            _part(part or "Chunks", next((plan.chunk_key for plan in plans if plan.table == table), ""))
    st.caption(_HELP[part or "Chunks"])
    return typed()


def typed() -> Wish:
    """What the form says now: what was typed last comes with a click, before the page is drawn anew."""
    now = st.session_state
    part, table = now.get("part") or "Chunks", now.get("table") or ""
    if part == "Range":
        return Wish(part, table, lower=now.get("lower") or "", upper=now.get("upper") or "")
    if part == "Everything":
        return Wish(part)
    field = {"Chunks": "chunks", "Keys": "keys"}.get(part)
    return Wish(part, table, **({field: now.get(field) or ""} if field else {}))


def _part(part: str, key: str) -> None:
    if part == "Chunks":
        st.text_input("Chunks", key="chunks", bind="query-params", placeholder="3, 7–9")
    elif part == "Range":
        lower, upper = st.columns(2)
        lower.text_input(f"From {key}".rstrip(), key="lower", bind="query-params", placeholder="open")
        upper.text_input("Up to, without", key="upper", bind="query-params", placeholder="open")
    elif part == "Keys":
        st.text_area("Keys", key="keys", height=120, placeholder="17\n18")


def reached(where: Directory, wish: Wish) -> dict[str, Any] | None:
    """What the wish reaches; None, with the reason shown, when it cannot be asked for."""
    if fault := redump_form.missing(wish):
        st.info(fault, icon=":material/edit:")
        return None
    known: tuple[Wish, dict[str, Any]] | None = st.session_state.get((_REACHED, where.root.name))
    if known is None or known[0] != wish:
        try:
            with st.spinner("Counting what it reaches"), TemporaryDirectory() as folder:
                keys = Path(folder) / "keys"
                keys.write_text(wish.keys, encoding="utf-8")
                words_of_it = redump_form.arguments(wish, str(keys))
                known = wish, engine.ask("redump", where.spec, [*words_of_it, "--dry-run"])
        except TidemarkError as problem:
            messages.error(problem)
            return None
        st.session_state[_REACHED, where.root.name] = known
    return known[1]


def blast(where: Directory, found: dict[str, Any], key: str) -> None:
    """The blast radius in numbers."""
    reads = home.ask(chunks.reads, where.root.name, limit=2000)
    seconds = redump_form.expected_s(found["tables"], reads)
    left, right = st.columns([6, 1], vertical_alignment="center")
    left.markdown(f"**It reaches** {words.escape(redump_form.sentence(found['tables'], seconds))}")
    if right.button("Count anew", icon=":material/refresh:", type="tertiary", key="look"):
        st.session_state.pop((_REACHED, where.root.name))
        st.rerun()
    st.dataframe(
        pd.DataFrame(redump_form.reach_rows(found["tables"])),
        hide_index=True,
        key="reach",
        column_config={
            "How": st.column_config.TextColumn(width="large"),
            **columns.figures("Rows read again", "Rows in the mirror", "Size of the mirror"),
        },
        alt="What is read again, by table",
    )
    if told := redump_form.ranges(found["tables"], key):
        more = f"\n… and {len(told) - 5:,} more" if len(told) > 5 else ""
        st.code("\n".join(told[:5]) + more, language=None)


def sending(where: Directory, wish: Wish, found: dict[str, Any]) -> None:
    """The reason, and the button; everything needs the pipeline's name as well."""
    name = where.root.name
    able = any(one["way"] != "refused" for one in found["tables"])
    sure = True
    with st.container(border=True):
        st.text_input("Reason", key="why", placeholder="Shown in the events and the history")
        if wish.part == "Everything":
            typed = st.text_input(
                f"Type {name} to confirm", key="sure", help="Every table is read again; that cannot be taken back"
            )
            sure = typed == name
        st.button(
            "Read again",
            type="primary",
            icon=":material/sync:",
            key=f"send-{controls.clicks(name)}",
            disabled=not (able and sure),
            on_click=_send,
            args=(where, controls.clicks(name), wish, found),
        )


def _send(where: Directory, click: int, wish: Wish, found: dict[str, Any]) -> None:
    """Send what was counted; a wish that was changed with the click is counted first."""
    name, now = where.root.name, st.session_state
    if typed() != wish or not controls.first_time(name, click):
        return
    identity = controls.post(where, "redump", now.get("why"), found["arguments"])
    rows = [one["rows"] for one in found["tables"]]
    st.session_state[_EXPECTED, identity] = None if None in rows else sum(rows)


@refreshing()
def going(where: Directory) -> None:
    """The commands of this browser as they go, and all of them as a table."""
    name, cursor, now = where.root.name, home.fresh(), clock.utc_now()
    found = redumps.redumps(cursor, name)
    answered = {one.id for one in found}
    mine = {sent.id for sent in controls.sent(name) if sent.verb == "redump"}
    waiting = [sent for sent in controls.sent(name) if sent.verb == "redump" and sent.id not in answered]
    for sent in waiting:
        age = words.duration((now - sent.at).total_seconds())
        runner = home.runner(where)
        then = (
            "the runner has not answered yet" if runner.alive else "no runner is there: the next start carries it out"
        )
        st.markdown(f":blue[:material/send: Sent {age} ago; {then}]")
    for one in found:
        if one.state == "under way" or one.id in mine:
            colour, text, share = redump_form.progress(one, st.session_state.get((_EXPECTED, one.id)))
            st.markdown(f":{colour}[:material/sync: {words.escape(text)}]")
            if share is not None and one.state == "under way":
                st.progress(share)
    st.markdown("**Read again before** :gray[newest first]")
    if not found:
        messages.nothing("Nothing was read again yet", "Each command leaves a line here: who, why, and what it found.")
        return
    st.dataframe(
        pd.DataFrame(redump_form.past_rows(found)),
        hide_index=True,
        key="past",
        column_config={
            **columns.time("Asked"),
            "Ghosts": st.column_config.NumberColumn(help="Rows that only the mirror had"),
            "Rows": st.column_config.NumberColumn(format="localized"),
            **columns.figures("Keys missing", "Took"),
        },
        alt="Commands to read again, newest first",
    )
    messages.freshness(now)


def page() -> None:
    """The whole page."""
    st.session_state.update(st.session_state.pop(places.WISH, {}))
    found = {where.root.name: where for where in home.directories()}
    if not found:
        messages.nothing("No pipelines yet", "What is published can be read again here.")
        if st.button("New pipeline", type="primary", icon=":material/add:"):
            st.switch_page(places.NEW, query_params={})
        return
    title, choice = st.columns([3, 2], vertical_alignment="bottom")
    title.title("Re-dump", anchor=False)
    with choice:
        where = found[home.choose(list(found))]
    plans = home.ask(tables.plans, where.root.name)
    if not plans:
        messages.nothing("No table planned yet", "What is not copied yet cannot be read again.")
        return
    wish = wish_of(plans)
    answer = reached(where, wish)
    if answer is not None:
        key = next((plan.chunk_key for plan in plans if plan.table == wish.table), "")
        blast(where, answer, key)
        sending(where, wish, answer)
    going(where)


page()
