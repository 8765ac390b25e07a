"""The draft as an editable TOML file."""

import tomllib
from dataclasses import replace

import streamlit as st

from app.common import home, messages
from app.common.view.draft import Draft, name_fault
from app.common.view.template import toml
from app.wizard import drafts, frame
from engine.base.errors import SpecError
from engine.spec import settings


def page(draft: Draft) -> None:
    """The text on the left, its validation on the right. Invalid text is not saved, because it may contain a secret."""
    version_key, current = f"{draft.id} toml known", toml(draft.spec, draft.written)
    number, last = st.session_state.get(version_key, (0, current))
    if last != current:  # it was changed elsewhere, which replaces the text here
        number += 1
    st.session_state[version_key] = number, current
    key = f"{draft.id} toml {number}"
    left, right = st.columns([3, 2], gap="large")
    with left:
        st.html(
            "<style>textarea[aria-label='pipeline.toml'] {font-family: 'Source Code Pro', monospace; "
            "font-size: 0.8rem}</style>"
        )
        text = st.text_area("pipeline.toml", current, key=key, height=560) or ""
    with right:
        st.caption(
            "Checked when you leave the field or press Ctrl+Enter. For an unknown key, "
            "the message suggests the nearest known one."
        )
        valid = _checked(draft, text, version_key)
        if st.button(
            "Review and launch", type="primary", icon=":material/arrow_forward:", key="review", disabled=not valid
        ):
            frame.go(draft, "Launch")


def _checked(draft: Draft, text: str, state_key: str) -> bool:
    """Whether the text is a spec that can be launched. A valid spec is saved in the draft."""
    try:
        spec = settings.parse(text, home.home() / "pipeline.toml")
    except SpecError as problem:
        messages.error(problem)
        st.caption("The text stays in this browser until it is valid. The draft is unchanged.")
        return False
    values = tomllib.loads(text)
    new_text = toml(values, text)
    number, current = st.session_state[state_key]
    if new_text != current:
        drafts.change(draft.id, lambda now: replace(now, spec=values, written=new_text))
        st.session_state[state_key] = number, new_text
    if fault := name_fault(spec.name, frame.pipeline_names()):
        messages.three_parts(fault, "That pipeline is unchanged.", amber=True)
        return False
    try:
        settings.password(spec.source)
    except SpecError as problem:
        messages.three_parts(problem.message, problem.detail or "It cannot be launched yet.", problem.hint, amber=True)
        return True
    st.success("The spec is valid.", icon=":material/check_circle:")
    return True
