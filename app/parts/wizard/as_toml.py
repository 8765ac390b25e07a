"""The draft as the file that the command line takes, for those who would rather write."""

import tomllib
from dataclasses import replace

import streamlit as st

from app.parts import home, messages
from app.parts.wizard import drafts, frame
from app.view.draft import Draft, name_fault
from app.view.template import toml
from engine import settings
from engine.errors import SpecError


def page(draft: Draft) -> None:
    """Text on the left, what the engine says of it on the right. Only what is valid is kept: the rest might hold a secret."""
    known, kept = f"{draft.id} toml known", toml(draft.spec, draft.written)
    number, last = st.session_state.get(known, (0, kept))
    if last != kept:  # it was changed elsewhere: what is written here gives way
        number += 1
    st.session_state[known] = number, kept
    key = f"{draft.id} toml {number}"
    left, right = st.columns([3, 2], gap="large")
    with left:
        st.html(
            "<style>textarea[aria-label='pipeline.toml'] {font-family: 'Source Code Pro', monospace; font-size: 0.8rem}</style>"
        )
        text = st.text_area("pipeline.toml", kept, key=key, height=560) or ""
    with right:
        st.caption(
            "Checked when you leave the text or press Ctrl+Enter. A key that is not known is refused, and the nearest known one is "
            "named."
        )
        valid = _checked(draft, text, known)
        if st.button(
            "Review and launch", type="primary", icon=":material/arrow_forward:", key="review", disabled=not valid
        ):
            frame.go(draft, "Launch")


def _checked(draft: Draft, text: str, known: str) -> bool:
    """Whether it can be launched; a valid spec is kept in the draft."""
    try:
        spec = settings.parse(text, home.home() / "pipeline.toml")
    except SpecError as problem:
        messages.error(problem)
        st.caption("The text stays in this browser until it is valid; the draft is as it was.")
        return False
    values = tomllib.loads(text)
    written = toml(values, text)
    number, kept = st.session_state[known]
    if written != kept:
        drafts.change(draft.id, lambda now: replace(now, spec=values, written=written))
        st.session_state[known] = number, written
    if fault := name_fault(spec.name, frame.taken()):
        messages.three_parts(fault, "It is left as it is.", amber=True)
        return False
    try:
        settings.password(spec.source)
    except SpecError as problem:
        messages.three_parts(problem.message, problem.detail or "It cannot be launched yet.", problem.hint, amber=True)
        return True
    st.success("The spec is valid.", icon=":material/check_circle:")
    return True
