"""Shared by the steps of the wizard: the row of steps, fields that are saved at once, and the foot of the page."""

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from app.common import home, messages, places
from app.common.view import words
from app.common.view.draft import STEPS, Draft, StepFinding, StepOutcome, outdated, state_of, why_open
from app.common.view.hints import for_wizard
from app.wizard import drafts
from engine.base import clock
from engine.base.errors import TidemarkError

STYLES = {
    "ok": ("green", ":material/check_circle:", "done"),
    "warn": ("orange", ":material/warning:", "done, with a warning"),
    "fail": ("red", ":material/error:", "prevents a launch"),
    "open": ("gray", ":material/radio_button_unchecked:", "not done yet"),
}

FOOT = "foot container"
"""The session key of the container of `foot`. The container keeps its position while the number of elements in a step
changes."""


def pipeline_names() -> list[str]:
    """The names of the existing pipelines."""
    return [where.root.name for where in home.directories()]


def error(problem: TidemarkError, draft: Draft | None = None) -> None:
    """Show an error of the engine, with the labels of fields instead of settings.

    draft: the one that the source was asked with.
    """
    sends_password = draft is None or draft.sends_password
    messages.three_parts(problem.message, problem.detail, for_wizard(problem.hint, sent=sends_password))


def go(draft: Draft, step: str) -> None:
    """Switch to a step, which has its own URL."""
    st.switch_page(places.NEW, query_params={"draft": draft.id, "step": step})


def states(draft: Draft) -> list[str]:
    """The state of each step."""
    return [state_of(draft, step) for step in STEPS]


def way(draft: Draft, current: str) -> None:
    """One button per step, with the state of the step."""
    for number, (step, column) in enumerate(zip(STEPS, st.columns(len(STEPS), gap="xsmall"), strict=True), 1):
        state = state_of(draft, step)
        colour, icon, meaning = STYLES[state]
        if state == "open":
            meaning = why_open(draft, step)
        elif finding := draft.finding(step):
            meaning = f"{meaning}: {finding.text}"
        is_current = step == current
        if column.button(
            step if is_current or colour == "gray" else f":{colour}[{step}]",
            icon=icon,
            key=f"step-{step}",
            type="primary" if is_current else "secondary",
            width="stretch",
            help=f"Step {number} of {len(STEPS)}: {words.escape(meaning)}",
        ):
            go(draft, step)
    with st.container():  # keeps its position, so that the step below stays when the line comes and goes
        if line := outdated(draft):
            st.caption(f":orange[:material/history:] {words.escape(line)}")
    st.space("xsmall")


def finding_time(at: str) -> str:
    """The time of a finding."""
    return words.date_time(clock.parse_utc(at))


def earlier_finding(finding: StepFinding | None, otherwise: str) -> None:
    """The last finding of a test, or `otherwise` if there is none."""
    if finding is None:
        st.caption(otherwise)
        return
    colour, icon, _ = STYLES[finding.outcome]
    st.markdown(f":{colour}[{icon}] {words.escape(finding.text)}  \n:small[:gray[tested {finding_time(finding.at)}]]")


def foot(draft: Draft, step: str, *, ready: bool = True, why: str = "") -> None:
    """The buttons to the previous and the next step, and when the draft was saved.

    why: what is missing for the next step.
    """
    number = STEPS.index(step)
    with (
        st.session_state[FOOT],
        st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute", key="foot"),
    ):
        back = st.button("Back", icon=":material/arrow_back:", key="back", disabled=number == 0)
        save_note = (
            f"Draft saved {words.date_time(clock.parse_utc(draft.changed))}" if draft.changed else "Nothing to save yet"
        )
        st.caption(
            f"{save_note}. You can leave at any time and continue here later.", width="content", text_alignment="center"
        )
        on = False
        if number + 1 < len(STEPS):
            following = STEPS[number + 1]
            on = st.button(
                f"Continue to {following.lower() if following != 'Spark' else following}",
                type="primary",
                icon=":material/arrow_forward:",
                icon_position="right",
                key="continue",
                disabled=not ready,
                help=why or None,
            )
    if back:
        go(draft, STEPS[number - 1])
    if on:
        go(draft, STEPS[number + 1])


def note(draft: Draft, step: str, outcome: StepOutcome, text: str) -> Draft:
    """Save a step's finding, unless it is unchanged."""
    finding = draft.finding(step)
    if finding and (finding.outcome, finding.text) == (outcome, text):
        return draft
    at = clock.utc_text()
    return drafts.change(draft.id, lambda now: now.note(step, outcome, text, at))


def synced(base: str, value: Any, keep: Callable[[str], None]) -> str:
    """The key of a widget whose default is `value`.

    The key changes, which makes a new widget, if the draft was changed elsewhere.

    keep: saves the value of the widget with a given key; it is also the widget's callback. Streamlit drops a callback
    if a run of the page is interrupted before it reaches the widget (two fields filled quickly, on a slow machine), so
    a value that was entered but not saved is saved here. The value is passed as the default rather than through the
    session state, which is sent to the browser only once: a widget that appears later (in a closed expander) would send
    its own default as a change.
    """
    version = st.session_state.get(f"{base} version", 0)
    key = f"{base} {version}"
    if key in st.session_state:
        widget_value, agreed = st.session_state[key], st.session_state.get(f"{base} agreed", value)
        if widget_value != agreed and value == agreed:
            st.session_state[f"{base} agreed"] = widget_value
            keep(key)
            st.rerun()
        if value not in (agreed, widget_value) or (widget_value == agreed and value != widget_value):
            version += 1
            st.session_state[f"{base} version"] = version
    st.session_state[f"{base} agreed"] = value
    return f"{base} {version}"


def controlled(draft: Draft, path: Sequence[str], value: Any) -> dict[str, Any]:
    """The key and the callback of a widget that shows a value of the spec and saves each change at once.

    The widget follows the draft: it also shows a change that was made elsewhere (a saved connection, another browser).
    """
    key = synced(f"{draft.id} {'.'.join(path)}", value, lambda key: _keep(draft.id, tuple(path), key))
    return {"key": key, "on_change": _keep, "args": (draft.id, tuple(path), key)}


def _keep(identity: str, path: tuple[str, ...], key: str) -> None:
    value = st.session_state[key]
    if isinstance(value, str):
        value = value.strip() or None
    drafts.change(identity, lambda draft: draft.put(*path, value=value))


def text(label: str, draft: Draft, *path: str, **more: Any) -> str:
    """A text field for a value of the spec; empty text removes the value."""
    value = str(draft.get(*path, default=""))
    return st.text_input(label, value, **controlled(draft, path, value), **more) or ""


def number(label: str, draft: Draft, *path: str, default: float, **more: Any) -> float:
    """A number field for a value of the spec; it keeps the type of the default."""
    value = type(default)(draft.get(*path, default=default))
    return st.number_input(label, value=value, **controlled(draft, path, value), **more)


def choice(label: str, draft: Draft, options: dict[str, str], *path: str, default: str, **more: Any) -> str:
    """A choice between values of the spec. options: the label of each value."""
    value = draft.get(*path, default=default)
    labels = options if value in options else {**options, value: value}
    names = list(labels)
    new_value: str = st.selectbox(
        label,
        names,
        index=names.index(value),
        format_func=lambda one: labels[one],
        **controlled(draft, path, value),
        **more,
    )
    return new_value
