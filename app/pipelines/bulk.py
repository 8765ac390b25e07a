"""Pause, start or resume several pipelines, which the operator has chosen by name."""

from collections.abc import Mapping

import streamlit as st

from app.common import access, controls, home
from app.common.autorefresh import autorefresh
from app.common.view import words
from app.pipelines.view import bulk_acts
from engine.pipeline.directory import Directory

_CLICKS, _DONE = "several pipelines", "result for several pipelines"  # no pipeline has a name with a space


def draw(names: list[str]) -> None:
    """The form. It begins empty, also when the page is opened from an address."""
    if not access.operator():
        return
    with st.expander("Pause or start several", icon=":material/checklist:"):
        selected_names = st.multiselect(
            "Pipelines", names, key=f"bulk-{controls.clicks(_CLICKS)}", placeholder="Choose them by name"
        )
        if selected_names:
            st.session_state.pop(_DONE, None)
            _choices(tuple(selected_names), controls.clicks(_CLICKS))
        for sentence in st.session_state.get(_DONE, ()):
            st.markdown(words.escape(sentence))


def _runners(names: tuple[str, ...]) -> Mapping[str, Directory]:
    directories = {where.root.name: where for where in home.directories()}
    return {name: directories[name] for name in names if name in directories}


@autorefresh(1.0)
def _choices(names: tuple[str, ...], click: int) -> None:
    """What would happen now, and a button for each possibility.

    After a click, the whole page runs again, with an empty form.
    """
    if controls.clicks(_CLICKS) != click:
        st.rerun()
    acts = bulk_acts.acts({name: home.glance(where) for name, where in _runners(names).items()})
    if any(act.verb == "pause" for act in acts):
        st.text_input("Reason", key=f"bulk-reason-{click}", placeholder="Shown in the events and the history")
    for act in acts:
        left, right = st.columns([3, 2], vertical_alignment="center")
        left.markdown(f":small[{words.escape(' '.join(act.sentences))}]")
        right.button(
            act.button,
            type="primary" if len(acts) == 1 else "secondary",
            key=f"bulk-{act.verb}-{click}",
            on_click=_do,
            args=(click, act.verb, act.names),
            width="stretch",
        )


def _do(click: int, verb: str, names: tuple[str, ...]) -> None:
    """Send the command to the pipelines named on the button, unless their state has changed since."""
    reason = st.session_state.get(f"bulk-reason-{click}", "")
    if not controls.first_time(_CLICKS, click) or not access.operator():
        return
    sentences, names_done = [], []
    for name, where in _runners(names).items():
        if not bulk_acts.can(verb, runner := home.glance(where)):
            sentences.append(f"{name} is {runner.style.label} now, and stays as it is.")
        elif verb == "start" and (problem := controls.launch(where)) is not None:
            sentences.append(f"{name} was not started: {problem.message}")
        else:
            if verb != "start":
                controls.post(where, verb, reason)
            names_done.append(name)
    sentences += [f"{name} was removed." for name in names if name not in _runners(names)]
    opening = {"pause": "Pause sent to", "start": "Started", "resume": "Resume sent to"}[verb]
    st.session_state[_DONE] = [*([f"{opening} {', '.join(names_done)}."] if names_done else []), *sentences]
