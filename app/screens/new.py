"""A new pipeline in seven steps, which can be resumed at any time, or as TOML."""

from collections.abc import Callable
from dataclasses import replace

import streamlit as st

from app.common import messages, places
from app.common.view import words
from app.common.view.draft import STEPS, Draft
from app.wizard import as_toml, connect, drafts, frame, launch, plan, preflight, tables, target
from engine.base import clock
from engine.base.errors import TidemarkError

_PAGES: dict[str, Callable[[Draft], None]] = {
    "Connect": connect.page,
    "Preflight": preflight.page,
    "Tables": tables.page,
    "Plan": plan.page,
    "Destination": target.destination,
    "Spark": target.spark,
    "Launch": launch.page,
}
_TOML = "TOML"


def page() -> None:
    """The step and the draft in the URL."""
    identity = st.query_params.get("draft")
    if not identity:
        saved_drafts = drafts.saved_drafts()
        if saved_drafts:
            _resume(saved_drafts)
            return
        identity = st.session_state.setdefault("fresh draft", drafts.new_id())
    elif not drafts.is_id(identity):
        _resume(drafts.saved_drafts(), unknown=identity)
        return
    try:
        draft = drafts.load(identity)
    except TidemarkError as problem:
        st.title("New pipeline", anchor=False)
        messages.error(problem)
        return
    step = st.query_params.get("step") or draft.step
    if step not in (*STEPS, _TOML):
        _title(draft, step)
        frame.way(draft, step)
        messages.nothing(f"There is no step {step}", "Choose a step above.")
        return
    st.query_params.update({"draft": draft.id, "step": step})
    if draft.changed and step in STEPS and draft.step != step:
        draft = drafts.change(draft.id, lambda now: replace(now, step=step))
    _title(draft, step)
    if step == _TOML:
        as_toml.page(draft)
        return
    frame.way(draft, step)
    body, st.session_state[frame.FOOT] = st.container(), st.container()
    with body:
        _PAGES[step](draft)
    if frame.states(drafts.load(draft.id)) != frame.states(draft):
        st.rerun()  # show the new finding in the row of steps at once


def _title(draft: Draft, step: str) -> None:
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        name = f" :gray[{words.escape(draft.name)}]" if draft.name else ""
        st.title(f"New pipeline{name}", anchor=False, width="content")
        with st.container(horizontal=True, width="content", vertical_alignment="center"):
            if drafts.saved_drafts() and st.button(
                "All drafts", icon=":material/drafts:", key="drafts", type="tertiary"
            ):
                st.session_state.pop("fresh draft", None)
                st.switch_page(places.NEW, query_params={})
            label, icon, to = (
                ("Back to the steps", ":material/steps:", draft.step)
                if step == _TOML
                else ("Edit as TOML", ":material/code:", _TOML)
            )
            if st.button(label, icon=icon, key="as-toml"):
                frame.go(draft, to)


def _resume(saved_drafts: list[Draft], unknown: str = "") -> None:
    """The list of drafts. unknown: the draft of the address, if there can be none of this name."""
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        st.title("New pipeline", anchor=False, width="content")
        if st.button("Start a new draft", type="primary", icon=":material/add:", key="begin"):
            st.switch_page(places.NEW, query_params={"draft": drafts.new_id(), "step": STEPS[0]})
    if unknown:
        messages.nothing(f"There is no draft {unknown}", "Choose a draft, or start a new one.")
    st.markdown("**Drafts** :gray[not launched yet; continue where you stopped]")
    for draft in saved_drafts:
        with st.container(border=True, key=f"draft-{draft.id}"):
            name, where, step, age, buttons = st.columns([2, 3, 2, 2, 2.2], vertical_alignment="center")
            name.markdown(f"**{words.escape(draft.name or 'unnamed')}**")
            where.markdown(
                f":gray[{words.escape(str(draft.get('source', 'user')))}"
                f"@{words.escape(str(draft.get('source', 'host')))}]"
            )
            step.markdown(f"at step {STEPS.index(draft.step) + 1}. {draft.step}")
            seconds = (clock.utc_now() - clock.parse_utc(draft.changed)).total_seconds()
            age.markdown(f":gray[{words.duration(seconds)} ago]")
            with buttons, st.container(horizontal=True, horizontal_alignment="right"):
                if st.button("Resume", key=f"resume-{draft.id}", icon=":material/play_arrow:"):
                    frame.go(draft, draft.step)
                with st.popover("", icon=":material/delete:", help="Discard this draft"):
                    st.markdown("This deletes the draft. Pipelines are not affected.")
                    st.button(
                        "Discard draft",
                        type="primary",
                        key=f"discard-{draft.id}",
                        on_click=drafts.discard,
                        args=(draft.id,),
                    )
    messages.freshness(clock.utc_now(), extra=words.plural(len(saved_drafts), "draft"))


page()
