"""Alerts of all pipelines: what fires, what to do, what is over, and the rules."""

from collections.abc import Sequence
from contextlib import suppress

import pandas as pd
import streamlit as st

from app.alerts import alert_acts, route_test, silence_section
from app.alerts.resolved_alerts import resolved_alerts
from app.common import access, columns, home, meaning, messages, new_tables, places, welcome
from app.common.autorefresh import autorefresh
from app.common.view import alert_list, words
from app.common.view.alert_list import Firing
from app.common.view.hints import for_console
from engine.alerting.acknowledgements import acknowledge, occurrence
from engine.base import clock
from engine.base.errors import TidemarkError
from engine.history import series
from engine.pipeline.directory import Directory
from engine.spec import settings
from engine.spec.alert_settings import Alerts

_ALL = "All pipelines"
_WHEN = "An alert appears here once its cause has lasted as long as the rules below say."
_MOST = 40
"""Cards on the page; more would make it slow."""
_CHOICE, _NAME = "alerts of", "the operator's name"


@autorefresh()
def firing(name: str | None) -> None:
    """The alerts that have not cleared. name: of one pipeline, or of all if None."""
    now = clock.utc_now()
    alerts = [(where, one) for where in _directories(name) for one in _of(where)]
    alerts.sort(key=lambda pair: alert_list.order(pair[1]))
    current = [pair for pair in alerts if pair[1].known_at is None]
    last_known = [pair for pair in alerts if pair[1].known_at is not None]
    _cards("Firing", current)
    if not current:
        more = "Those below cannot clear without a runner." if last_known else _WHEN
        messages.nothing("No alert is firing", more, ":material/notifications_none:")
    if last_known:
        _cards("Last known", last_known)
    acknowledged_count = sum(not one.waits for _, one in alerts)
    notes = [f"{words.plural(acknowledged_count, 'alert')} acknowledged"] if acknowledged_count else []
    if max(len(current), len(last_known)) > _MOST:
        notes.append(f"{len(alerts)} in all; choose a pipeline to see the others")
    messages.freshness(now, extra=" · ".join(notes))


def _cards(title: str, alerts: Sequence[tuple[Directory, Firing]]) -> None:
    st.subheader(f"{title} :gray[{len(alerts)}]" if alerts else title, anchor=False)
    for where, one in alerts[:_MOST]:
        _card(where, one)


def _of(where: Directory) -> list[Firing]:
    alerts = home.firing(where)
    if any(one.known_at is None for one in alerts):  # with the present values
        return home.firing(where, lag=home.ask(series.latest_lag, where.root.name))
    return alerts


def _card(where: Directory, one: Firing) -> None:
    """One alert: what, where, since when, the numbers, and what to do."""
    mark = occurrence(one.standing)
    with st.container(border=True, key=f"alert-{where.root.name}-{mark}", gap="xsmall"):
        head, *facts, button = st.columns([3, 1.8, 1.1, 1.6, 1, 1.6], vertical_alignment="center")
        with head, st.container(gap="xxsmall"):
            st.markdown(f":{one.colour}-badge[:material/notifications_active: {words.escape(one.title)}]")
            with st.container(horizontal=True, gap="small"):
                _links(one)
        value = f"{one.value}, now {one.now}" if one.now else one.value
        labelled = (
            ("Since", words.date_time(one.since)),
            ("For", alert_list.lasted(one, clock.utc_now())),
            ("Value" if one.now else "When raised", value),
            ("Threshold", one.threshold),
        )
        for column, (label, text) in zip(facts, labelled, strict=True):
            column.markdown(f":small[:gray[{label}]]  \n**{words.escape(text)}**")
        with button, st.container(horizontal=True, horizontal_alignment="right"):
            if one.waits and access.operator():
                _ask(where, one, f"{where.root.name}-{mark}")
        do = for_console(one.do, above_buttons=alert_acts.has_table_buttons(where, one))
        if one.known_at is not None:
            st.markdown(
                f":gray[:material/history: Last known at {words.escape(words.date_time(one.known_at))}."
                " It may be over: nothing can clear it now.]"
            )
        st.markdown(f"{words.escape(one.message)}  \n**What to do** {words.escape(do)}")
        if one.kind == new_tables.KIND and one.waits:
            new_tables.buttons(where, one, key=f"appeared-{where.root.name}")
        alert_acts.buttons(where, one, key=f"act-{where.root.name}-{mark}")
        if one.acknowledged is not None:
            st.markdown(
                f":small[:gray[:material/done: {words.escape(alert_list.acknowledged_words(one.acknowledged))}]]"
            )
        if one.silence is not None:
            text = words.escape(alert_list.silenced_words(one.silence))
            st.markdown(f":small[:orange[:material/notifications_off: {text}]]")


def _links(one: Firing) -> None:
    name = words.escape(one.pipeline)
    st.page_link(places.LIVE, label=f"**{name}**", query_params={"pipeline": one.pipeline}, width="content")
    if one.table and not set("*?[") & set(one.table):
        query = {"pipeline": one.pipeline, "table": one.table}
        st.page_link(places.TABLE, label=words.escape(one.table), query_params=query, width="content")


def _ask(where: Directory, one: Firing, key: str) -> None:
    """A button that asks for the operator's name and a note."""
    with st.popover("Acknowledge", icon=":material/done:", key=f"acknowledge-{key}"):
        st.markdown(
            "The alert stays listed, but no longer counts. If it clears and comes back, it counts again.", width=380
        )
        actor = access.actor()
        if actor:
            st.markdown(f":gray[As {words.escape(actor)}]")
        else:
            usual = st.session_state.get(_NAME, "")
            st.text_input("Your name", usual, key=f"actor-{key}", placeholder="Default: the user of the console")
        st.text_input("Note", key=f"note-{key}", placeholder="Optional")
        st.button(
            "Acknowledge alert", type="primary", key=f"confirm-{key}", on_click=_confirmed, args=(where, one, key)
        )


def _confirmed(where: Directory, one: Firing, key: str) -> None:
    if not access.operator():
        return
    name = st.session_state.get(f"actor-{key}") or ""
    if name:
        st.session_state[_NAME] = name
    try:
        acknowledge(where, one.standing, actor=access.actor() or name, note=st.session_state.get(f"note-{key}") or "")
    except (OSError, TidemarkError) as problem:
        st.toast(words.escape(f"The acknowledgement could not be saved: {problem}"), icon=":material/error:")


@autorefresh()
def silenced(name: str | None) -> None:
    """The silences in force, and the form for a new one."""
    silence_section.section(_directories(name))


@autorefresh()
def resolved(name: str | None) -> None:
    """The alerts that are over."""
    st.subheader("Resolved", anchor=False)
    where = {one.root.name: one for one in home.directories()}
    rows = alert_list.resolved_rows(
        resolved_alerts(name),
        lambda pipeline, alert: home.acknowledgement(where[pipeline], alert) if pipeline in where else None,
    )
    if not rows:
        st.caption("No alert has cleared in the time that the journals cover.")
        return
    st.dataframe(
        pd.DataFrame(rows),
        hide_index=True,
        key="resolved",
        height=420 if len(rows) > 11 else "auto",
        column_config=columns.time("Cleared")
        | columns.time("Since")
        | columns.figures("Duration", "Value", "Threshold"),
        placeholder=words.NOTHING,
        alt="Alerts that are over, the newest first",
    )


def rules(name: str | None) -> None:
    """The thresholds and durations of the specs, all kinds of alerts, and the test of a route."""
    st.subheader("Rules", anchor=False)
    alert_rules: dict[str, Alerts] = {}
    rows: list[dict[str, str]] = []
    for where in _directories(name):
        with suppress(TidemarkError):  # the Live page shows the error
            own = alert_rules[where.root.name] = settings.load(where.spec).alerts
            failing = alert_list.failing_routes(one.standing for one in home.firing(where))
            rows += alert_list.threshold_rows(where.root.name, own, failing)
    fields = Alerts.model_fields
    st.markdown(f"**Duration** {fields['for_s'].description} **Repeated every** {fields['repeat_s'].description}")
    st.dataframe(
        pd.DataFrame(rows),
        hide_index=True,
        key="thresholds",
        column_config={label: columns.figure(text) for label, text in _rule_texts().items()},
        placeholder=words.NOTHING,
        alt="Thresholds and durations of each pipeline",
    )
    with st.expander("When each alert fires and clears", icon=":material/rule:"):
        st.table(pd.DataFrame(alert_list.kind_rows()).set_index("Alert"))
    if access.operator():
        route_test.section(alert_rules, access.actor() or st.session_state.get(_NAME, ""))


def _rule_texts() -> dict[str, str]:
    """What each threshold and duration means, by the heading of its column."""
    texts = {name: field.description or "" for name, field in Alerts.model_fields.items()}
    return {
        "Lag above": meaning.of("lag", also=texts["lag_s"]),
        "Lag in bytes above": meaning.of("lag", also=texts["lag_bytes"]),
        "Retention left below": meaning.of("retention left", also=texts["runway_s"]),
        "Mirror behind above": texts["mirror_behind_s"],
        "Disk full within": texts["disk_filling_s"],
        "Duration": texts["for_s"],
        "Repeated every": texts["repeat_s"],
    }


def _directories(name: str | None) -> list[Directory]:
    return [where for where in home.directories() if name in (None, where.root.name)]


def _choose() -> None:
    """Put the chosen pipeline into the URL, which decides what is shown."""
    choice = st.session_state[_CHOICE]
    if choice == _ALL:
        st.query_params.pop("pipeline", None)
    else:
        st.query_params["pipeline"] = choice


def page() -> None:
    """The page."""
    title, choice = st.columns([2, 1], vertical_alignment="center")
    title.title("Alerts", anchor=False)
    names = [where.root.name for where in home.directories()]
    if not names:
        welcome.brief("Their alerts appear here.")
        return
    url_name = st.query_params.get("pipeline")
    name = url_name if url_name in names else None
    # Unlike other pages, this one does not keep the pipeline of the page before: the badge counts the alerts of all.
    st.session_state[_CHOICE] = name or _ALL
    choice.selectbox("Pipeline", [_ALL, *names], key=_CHOICE, on_change=_choose, label_visibility="collapsed")
    if url_name is not None and name is None:
        messages.nothing(
            f"There is no pipeline {url_name}", "It may have been removed. These are the alerts of all pipelines."
        )
    firing(name)
    silenced(name)
    resolved(name)
    rules(name)


page()
