"""What all steps of a new pipeline share: the way through them, fields that are kept at once, and the foot of the page."""

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from app.parts import home, places
from app.parts.wizard import drafts
from app.view import words
from app.view.draft import STEPS, Draft, Found, Outcome, state_of
from engine import clock

LOOKS = {
    "ok": ("green", ":material/check_circle:", "done"),
    "warn": ("orange", ":material/warning:", "done, with something to know"),
    "fail": ("red", ":material/error:", "in the way of a launch"),
    "open": ("gray", ":material/radio_button_unchecked:", "not done yet"),
}

FOOT = "place of the foot"
"""Where the session has the container of `foot`: its place stays while a step has more or fewer parts than before."""


def taken() -> list[str]:
    """The names of the pipelines that are there."""
    return [where.root.name for where in home.directories()]


def go(draft: Draft, step: str) -> None:
    """Leave for a step; its address can be kept."""
    st.switch_page(places.NEW, query_params={"draft": draft.id, "step": step})


def states(draft: Draft) -> list[str]:
    """The state of each step."""
    return [state_of(draft, step) for step in STEPS]


def way(draft: Draft, current: str) -> None:
    """All steps in one row, each with its state, each a button that goes there."""
    for number, (step, column) in enumerate(zip(STEPS, st.columns(len(STEPS), gap="xsmall"), strict=True), 1):
        colour, icon, meaning = LOOKS[state_of(draft, step)]
        chosen = step == current
        if column.button(
            step if chosen or colour == "gray" else f":{colour}[{step}]",
            icon=icon,
            key=f"step-{step}",
            type="primary" if chosen else "secondary",
            width="stretch",
            help=f"Step {number} of {len(STEPS)}: {meaning}",
        ):
            go(draft, step)
    st.space("xsmall")


def found_at(at: str) -> str:
    """When a step found out what it did."""
    return words.date_time(clock.parse_utc(at))


def found_before(finding: Found | None, otherwise: str) -> None:
    """What a test found when it was made last; `otherwise` as long as it was not."""
    if finding is None:
        st.caption(otherwise)
        return
    colour, icon, _ = LOOKS[finding.outcome]
    st.markdown(f":{colour}[{icon}] {words.escape(finding.text)}  \n:small[:gray[found {found_at(finding.at)}]]")


def foot(draft: Draft, step: str, *, ready: bool = True, why: str = "") -> None:
    """Back and on, and where the draft is kept. why: what the next step would miss."""
    number = STEPS.index(step)
    with (
        st.session_state[FOOT],
        st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute", key="foot"),
    ):
        back = st.button("Back", icon=":material/arrow_back:", key="back", disabled=number == 0)
        kept = (
            f"Draft kept {words.date_time(clock.parse_utc(draft.changed))}" if draft.changed else "Nothing to keep yet"
        )
        st.caption(f"{kept}. Leave whenever you like: it goes on from here.", width="content", text_alignment="center")
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


def note(draft: Draft, step: str, outcome: Outcome, text: str) -> Draft:
    """Keep what a step found out, unless it is known already."""
    found = draft.finding(step)
    if found and (found.outcome, found.text) == (outcome, text):
        return draft
    at = clock.utc_text()
    return drafts.change(draft.id, lambda now: now.note(step, outcome, text, at))


def synced(base: str, value: Any, keep: Callable[[str], None]) -> str:
    """The key of a widget whose default is `value`: another key, and so a new widget, when the draft was changed elsewhere.

    keep: keeps what the widget with that key shows; also its callback. Streamlit drops a callback when a drawing is broken off
    before the widget's turn (two fields filled quickly, on a slow machine), so what was typed and not kept is kept here. The
    default alone says what is shown: a value set in the session state is told to the browser once, and a widget that is drawn
    later (in a closed expander) would send its own default as a change.
    """
    version = st.session_state.get(f"{base} version", 0)
    key = f"{base} {version}"
    if key in st.session_state:
        shown, agreed = st.session_state[key], st.session_state.get(f"{base} agreed", value)
        if shown != agreed and value == agreed:
            st.session_state[f"{base} agreed"] = shown
            keep(key)
            st.rerun()
        if value not in (agreed, shown) or (shown == agreed and value != shown):
            version += 1
            st.session_state[f"{base} version"] = version
    st.session_state[f"{base} agreed"] = value
    return f"{base} {version}"


def controlled(draft: Draft, path: Sequence[str], value: Any) -> dict[str, Any]:
    """The key and the callback of a widget that shows a value of the spec and keeps each change on disk at once.

    The draft is the truth: a change that came from elsewhere (a saved connection, another browser) is shown too.
    """
    key = synced(f"{draft.id} {'.'.join(path)}", value, lambda key: _keep(draft.id, tuple(path), key))
    return {"key": key, "on_change": _keep, "args": (draft.id, tuple(path), key)}


def _keep(identity: str, path: tuple[str, ...], key: str) -> None:
    value = st.session_state[key]
    if isinstance(value, str):
        value = value.strip() or None
    drafts.change(identity, lambda draft: draft.put(*path, value=value))


def text(label: str, draft: Draft, *path: str, **more: Any) -> str:
    """A text of the spec; empty removes it."""
    value = str(draft.get(*path, default=""))
    return st.text_input(label, value, **controlled(draft, path, value), **more) or ""


def number(label: str, draft: Draft, *path: str, default: float, **more: Any) -> float:
    """A number of the spec; floats stay floats, whole numbers whole."""
    value = type(default)(draft.get(*path, default=default))
    return st.number_input(label, value=value, **controlled(draft, path, value), **more)


def choice(label: str, draft: Draft, options: dict[str, str], *path: str, default: str, **more: Any) -> str:
    """One of several values of the spec, each with a sentence."""
    value = draft.get(*path, default=default)
    shown = options if value in options else {**options, value: value}
    names = list(shown)
    return st.selectbox(
        label,
        names,
        index=names.index(value),
        format_func=lambda one: shown[one],
        **controlled(draft, path, value),
        **more,
    )
