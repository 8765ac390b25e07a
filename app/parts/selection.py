"""The pipeline and the table of a page. Both are always in the URL, even if there is only one: an address keeps its meaning.

An address that names no pipeline, or one that does not exist, opens none: an operator must never be led to another pipeline, whose
tables may have the same names. Who comes from another page of the same tab keeps the pipeline.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from app.parts import messages
from engine.directory import Directory

_PIPELINE, _LAST, _TABLE, _UNKNOWN = "pipeline", "last pipeline", "table", "unknown in the address"
_PAGE = "page of the last run"


def keep_address() -> None:
    """Give a page the pipeline and the table of the link that led to it. Call it before anything else in each run.

    Streamlit 1.67 drops a link's parameter if the page before has a field of that name, and empties the URL: its browser side
    sends that page's parameters and then the link's, its server side takes both for that page's
    (`QueryParams.populate_from_query_string`). The session may still have the values of that page, which the fields of this one do
    not take.
    """
    run, state = get_script_run_ctx(), st.session_state
    if run is None or state.get(_PAGE) == run.page_script_hash:
        return
    state[_PAGE] = run.page_script_hash
    asked = parse_qs(run.query_string)
    for name in (_PIPELINE, _TABLE):
        state.pop(name, None)
        if len(values := asked.get(name, [])) > 1 and name not in st.query_params:
            st.query_params[name] = values[-1]


def pipeline(found: Mapping[str, Directory]) -> Directory | None:
    """Select a pipeline; None if the URL does not say which. Then `unselected` says why."""
    before = st.session_state.get(_LAST)
    usual = before if before in found else next(iter(found)) if len(found) == 1 else None
    name = _chosen("Pipeline", _PIPELINE, list(found), usual, label_visibility="collapsed")
    if name is None:
        return None
    if before not in (None, name):  # the table was one of the pipeline before
        st.session_state[_TABLE] = None
        _unknown().pop(_TABLE, None)
    st.session_state[_LAST] = name
    return found[name]


def unselected() -> None:
    """Why no pipeline is selected."""
    unknown = _unknown().get(_PIPELINE)
    why = f"There is no pipeline {unknown}. It may have been removed." if unknown else "The address names no pipeline."
    messages.nothing("Choose a pipeline", why)


def table(names: Sequence[str], *, usual: str | None) -> str | None:
    """Select a table; None if the URL names one that is not there. usual: if the URL names none; None: the operator must choose."""
    return _chosen("Table", _TABLE, names, usual)


def default(key: str, value: Any) -> None:
    """Set the value of a field that is bound to the URL, unless the session or the URL has one. Call it before the field.

    Not as the field's own default: Streamlit keeps a value equal to it out of the URL, also one that was chosen.
    """
    if key not in st.session_state and key not in st.query_params:
        st.session_state[key] = value


def no_table() -> None:
    """Why no table is selected."""
    unknown = _unknown().get(_TABLE)
    why = f"This pipeline has no table {unknown}." if unknown else "The address names no table."
    messages.nothing("Choose a table", why)


def _chosen(label: str, key: str, names: Sequence[str], usual: str | None, **options: Any) -> str | None:
    """A field that is bound to the URL. It has no default, because Streamlit keeps a default out of the URL."""
    state, unknown = st.session_state, _unknown()
    if state.get(key) in names:
        unknown.pop(key, None)
    else:
        # What was selected may be gone by now. Streamlit removes unknown values from the URL.
        asked = state.get(key) or (None if key in state else st.query_params.get(key)) or unknown.get(key)
        if asked is not None and asked not in names:
            unknown[key], asked, usual = asked, None, None
        state[key] = asked or usual
    placeholder = usual or f"Choose a {label.lower()}"
    chosen: str | None = st.selectbox(
        label, list(names), index=None, key=key, bind="query-params", placeholder=placeholder, **options
    )
    return chosen or usual  # an emptied field keeps its value


def _unknown() -> dict[str, str]:
    """The values in the URL that do not exist, by parameter, until others are chosen."""
    found: dict[str, str] = st.session_state.setdefault(_UNKNOWN, {})
    return found


def reset_form(empty: Mapping[str, str | None], names: Sequence[str]) -> None:
    """Empty a form that changes data, unless its values were entered, or are in the URL, for the selected pipeline.

    Call it before anything is drawn. empty: the values of the empty fields. names: all pipelines.
    """
    selected = st.session_state.get(_PIPELINE) or st.query_params.get(_PIPELINE)
    nowhere = selected not in names
    if nowhere or st.session_state.get(_LAST, selected) != selected:
        for field, value in empty.items():
            if nowhere:  # otherwise the URL follows the field
                st.query_params.pop(field, None)
            st.session_state[field] = value
