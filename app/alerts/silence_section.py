"""Silences: which are in force, their end by hand, and a form for a new one."""

from collections.abc import Mapping, Sequence

import streamlit as st

from app.common import access, controls, home
from app.common.view import words
from app.common.view.alert_list import silenced_words, unsilenced
from engine.alerting.silences import Silence, add_silence, end_silence, silences
from engine.base.errors import TidemarkError
from engine.journal.alert_kinds import ALERTS, alert_title
from engine.pipeline.directory import Directory

_ALL_KINDS = "All kinds"
_PROBLEM = "why a silence was refused"
_PERIODS = ("30m", "1h", "2h", "4h", "8h", "1d", "3d", "7d")
_SAID = {
    "30m": "30 minutes",
    "1h": "1 hour",
    "2h": "2 hours",
    "4h": "4 hours",
    "8h": "8 hours",
    "1d": "1 day",
    "3d": "3 days",
    "7d": "7 days",
}


def section(directories: Sequence[Directory]) -> None:
    """The silences of these pipelines. An operator can end them and add one."""
    in_force = [(where, one) for where in directories for one in silences(where)]
    if not in_force and not (directories and access.operator()):
        return
    head, button = st.columns([3, 1], vertical_alignment="center")
    head.subheader(f"Silences :gray[{len(in_force)}]" if in_force else "Silences", anchor=False)
    if directories and access.operator():
        with button, st.container(horizontal=True, horizontal_alignment="right"):
            _form({where.root.name: where for where in directories})
    if not in_force:
        st.caption(unsilenced([home.origin_of(where).alerts for where in directories]))
    for where, one in in_force:
        _line(where, one)


def _line(where: Directory, one: Silence) -> None:
    click = controls.clicks(f"silence {one.id}")
    with st.container(horizontal=True, vertical_alignment="center", key=f"silence-{one.id}"):
        text = f"**{words.escape(where.root.name)}** · {words.escape(one.what)} · {words.escape(silenced_words(one))}"
        st.markdown(f":material/notifications_off: {text}", width="stretch")
        if access.operator():
            st.button("End", key=f"end-{one.id}-{click}", on_click=_end, args=(where, one, click))


def _end(where: Directory, one: Silence, click: int) -> None:
    if not access.operator() or not controls.first_time(f"silence {one.id}", click):
        return
    try:
        end_silence(where, one.id, actor=access.actor())
    except (OSError, TidemarkError) as problem:
        st.toast(words.escape(f"The silence could not be ended: {problem}"), icon=":material/error:")


def _form(directories: Mapping[str, Directory]) -> None:
    click = controls.clicks("silence")
    with st.popover("Silence", icon=":material/notifications_off:", key="silence"):
        st.markdown(
            "Alerts stay visible. None is sent until the silence ends; alerts that still stand then are sent.",
            width=380,
        )
        st.selectbox("Pipeline to silence", list(directories), key=f"silence-pipeline-{click}")
        st.selectbox(
            "Kind",
            [_ALL_KINDS, *ALERTS],
            key=f"silence-kind-{click}",
            format_func=lambda kind: kind if kind == _ALL_KINDS else alert_title(kind),
        )
        st.text_input("Tables", key=f"silence-table-{click}", placeholder="All; or a glob such as shop.pay_*")
        st.selectbox("For", _PERIODS, index=2, key=f"silence-period-{click}", format_func=_SAID.__getitem__)
        st.text_input(
            "Reason for the silence", key=f"silence-reason-{click}", placeholder="Shown to others beside the alerts"
        )
        if problem := st.session_state.get(_PROBLEM):
            st.markdown(f":red[{words.escape(problem)}]")
        st.button(
            "Silence alerts",
            type="primary",
            key=f"silence-confirm-{click}",
            on_click=_add,
            args=(dict(directories), click),
        )


def _add(directories: Mapping[str, Directory], click: int) -> None:
    if not access.operator() or controls.clicks("silence") != click:
        return

    def given(name: str) -> str:
        return str(st.session_state.get(f"silence-{name}-{click}") or "").strip()

    kind = given("kind")
    try:
        add_silence(
            directories[given("pipeline")],
            given("period"),
            given("reason"),
            kind="" if kind == _ALL_KINDS else kind,
            table=given("table"),
            actor=access.actor(),
        )
    except (OSError, TidemarkError) as problem:
        st.session_state[_PROBLEM] = f"{problem}"
        return
    st.session_state.pop(_PROBLEM, None)
    controls.first_time("silence", click)
