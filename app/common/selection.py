"""The pipeline and the table of a page.

Both are always in the URL, even if there is only one, so that a link keeps its meaning. A URL that names no pipeline,
or one that does not exist, opens none: an operator must never land on another pipeline, whose tables may have the same
names. A page that is opened from another page of the same tab keeps the pipeline.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal
from urllib.parse import parse_qs

import streamlit as st
from streamlit.navigation.page import StreamlitPage
from streamlit.runtime.scriptrunner import get_script_run_ctx

from app.common import messages
from engine.pipeline.directory import Directory

_PIPELINE, _LAST, _TABLE, _UNKNOWN = "pipeline", "last pipeline", "table", "unknown in the address"
_SECTION, _EVENT = "section", "event"
_PAGE, _OPENED, _NOTED = "page of the last run", "page was just opened", "values for the address"


def keep_address() -> None:
    """Give a page the pipeline and the table of the link that led to it. Call it before anything else in each run.

    Streamlit 1.67 drops a link's parameter if the previous page has a field of that name, and empties the URL. The
    browser sends the parameters of the previous page and then those of the link; the server takes both for those of the
    previous page (`QueryParams.populate_from_query_string`). The session may still have the values of the previous
    page. The fields of this page do not take them.
    """
    run, state = get_script_run_ctx(), st.session_state
    state[_NOTED] = {}
    state[_OPENED] = run is not None and state.get(_PAGE) != run.page_script_hash
    if run is None or not state[_OPENED]:
        return
    state[_PAGE] = run.page_script_hash
    _unknown().clear()
    state.pop(_EVENT, None)
    query = parse_qs(run.query_string)
    for name in (_PIPELINE, _TABLE):
        before, values = state.pop(name, None), query.get(name, [])
        # One value may be that of the page before, which stays behind: its table is not the one to redump. *Back* and
        # *Forward* send the address alone.
        sent = len(values) > 1 or values[:1] != [before] or run.is_history_navigation
        if name not in st.query_params and values and sent:
            st.query_params[name] = values[-1]
    _seed()


def found_page(page: StreamlitPage) -> None:
    """Note the page that an address led to: before `st.navigation`, the first run of a session does not know it."""
    st.session_state[_PAGE] = page._script_hash  # noqa: SLF001 - Streamlit has no public name for it


def _seed() -> None:
    """Let new fields take their values from the present URL.

    Otherwise they take them from the URL with which the page was opened.
    """
    run = get_script_run_ctx()
    if run is not None:
        with run.session_state.query_params() as query_params:
            query_params.set_initial_query_params_from_current()


def opened() -> bool:
    """Whether this is the first run of the page, so that the URL has the values and the session has none."""
    return bool(st.session_state.get(_OPENED))


def note(key: str, value: object = None) -> None:
    """Keep a value in the URL (`copy_link.complete`).

    value: by default that of the field with this key, at the end of the run.
    """
    st.session_state.setdefault(_NOTED, {})[key] = value
    _keep(key)


def forget_noted(key: str) -> None:
    """Remove a value from the URL."""
    st.session_state.setdefault(_NOTED, {}).pop(key, None)
    st.query_params.pop(key, None)


def keep_noted() -> None:
    """Let Streamlit know the values too: it replaces the whole URL when it changes a part of it."""
    for key in st.session_state.get(_NOTED, {}):
        _keep(key)


def _keep(key: str) -> None:
    run, values = get_script_run_ctx(), noted().get(key)
    if run is not None and values is not None:
        with run.session_state.query_params() as query_params:
            query_params.set_with_no_forward_msg(key, values[0] if len(values) == 1 else values)


def noted() -> dict[str, list[str]]:
    """The values to keep in the URL."""
    values: dict[str, Any] = {}
    for key, value in st.session_state.get(_NOTED, {}).items():
        values[key] = st.session_state.get(key) if value is None else value
    return {
        key: [str(one) for one in value] or [""] if isinstance(value, list | tuple) else [str(value)]
        for key, value in values.items()
        if value is not None
    }


def pipeline(directories: Mapping[str, Directory]) -> Directory | None:
    """Select a pipeline; None if the URL does not say which. Then `unselected` says why."""
    before = st.session_state.get(_LAST)
    usual = before if before in directories else next(iter(directories)) if len(directories) == 1 else None
    name = _url_field("Pipeline", _PIPELINE, list(directories), usual, label_visibility="collapsed")
    if name is None:
        return None
    if before not in (None, name) and not opened():  # the table was one of the pipeline before
        st.session_state[_TABLE] = None
        close_event()
        _unknown().pop(_TABLE, None)
    st.session_state[_LAST] = name
    return directories[name]


def unselected() -> None:
    """Why no pipeline is selected."""
    unknown = _unknown().get(_PIPELINE)
    why = f"There is no pipeline {unknown}. It may have been removed." if unknown else "No pipeline is selected."
    messages.nothing("Choose a pipeline", why)


def table(names: Sequence[str], *, usual: str | None) -> str | None:
    """Select a table; None if the URL names one that is not there.

    usual: if the URL names none; None: the operator must choose.
    """
    return _url_field("Table", _TABLE, names, usual)


def named(
    label: str, key: str, everything: str, names: Sequence[str], *, width: int | Literal["stretch"] = "stretch"
) -> str | None:
    """A filter by name; None means everything.

    If the URL has a name that does not exist, the page says so until one is chosen.

    everything: the choice that stands for all names.
    """
    url_value = st.query_params.get(key) if opened() or key not in st.session_state else None
    if url_value:
        exists = url_value in (everything, *names)
        st.session_state[key] = url_value if exists else everything
        _unknown().update({} if exists else {key: url_value})
    default(key, everything)
    choices = [everything, *names]
    choice = st.selectbox(label, choices, key=key, bind="query-params", on_change=forget, args=(key,), width=width)
    if unknown := _unknown().get(key):
        messages.nothing(f"There is no {label.lower()} {unknown}", f"It may have been removed. This is {everything}.")
    return None if choice == everything else choice


def forget(key: str) -> None:
    """Forget the unknown value that the URL had for a field. Call it when another value is chosen."""
    _unknown().pop(key, None)


def default(key: str, value: Any) -> None:
    """Set the value of a field that is bound to the URL, unless the session or the URL has one.

    Call it before the field.

    A default of the field itself does not do: Streamlit leaves a value that equals it out of the URL, even one that was
    chosen. Streamlit leaves out a value that nobody has chosen too. `note` adds it, so that a link keeps its meaning if
    the default changes.
    """
    note(key)
    if key not in st.session_state and key not in st.query_params:
        st.session_state[key] = value


def unbound(key: str, names: Sequence[str]) -> str | None:
    """Set the value of a field that cannot be bound to the URL, by default the first name.

    Returns an unknown value of the URL.
    """
    state = st.session_state
    if key not in state:
        url_value = st.query_params.get(key)
        if url_value and url_value not in names:
            _unknown()[key] = url_value
        state[key] = url_value if url_value in names else names[0]
    note(key)
    return _unknown().get(key)


def several(key: str, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The chosen values: those in `names`, then the others.

    They come from the URL when the page is opened, and from the session afterwards. The session has them under `key`,
    which no field may have.
    """
    if opened():
        st.session_state[key] = list(dict.fromkeys(st.query_params.get_all(key)))
    choices: list[str] = [one for one in st.session_state.get(key, []) if one]
    return [one for one in choices if one in names], [one for one in choices if one not in names]


def whole_number(key: str) -> str | None:
    """Remove a value that is not a whole number from the URL, because Streamlit would round it.

    Returns the value of the URL with which the page was opened.
    """
    url_value = st.query_params.get(key) if opened() else None
    if url_value and not url_value.isdecimal():
        st.query_params.pop(key)
        _seed()
    return url_value or None


def event() -> str | None:
    """The event that the URL names, or that was clicked (`run_timeline.name_of`); None without one."""
    name: str | None = st.session_state.setdefault(_EVENT, st.query_params.get(_EVENT)) or None
    if name is not None:
        note(_EVENT, name)
    return name


def open_event(name: str) -> None:
    """Choose an event, and the section that shows it. The whole page must run again."""
    st.session_state[_EVENT], st.session_state[_SECTION] = name, "Events"
    st.query_params[_EVENT] = name


def open_section(section: str, table: str) -> None:
    """Choose a section, and a table in it. The whole page must run again."""
    st.session_state[_TABLE], st.session_state[_SECTION] = table, section


def close_event() -> None:
    """Choose no event."""
    st.session_state[_EVENT] = ""
    st.query_params.pop(_EVENT, None)


def no_table() -> None:
    """Why no table is selected."""
    unknown = _unknown().get(_TABLE)
    why = f"This pipeline has no table {unknown}." if unknown else "No table is selected."
    messages.nothing("Choose a table", why)


def _url_field(label: str, key: str, names: Sequence[str], usual: str | None, **options: Any) -> str | None:
    """A field that is bound to the URL. It has no default, because Streamlit keeps a default out of the URL."""
    note(key)
    state, unknown = st.session_state, _unknown()
    if state.get(key) in names:
        unknown.pop(key, None)
    else:
        # What was selected may be gone by now. Streamlit removes unknown values from the URL.
        value = state.get(key) or (None if key in state else st.query_params.get(key)) or unknown.get(key)
        if value is not None and value not in names:
            unknown[key], value, usual = value, None, None
        state[key] = value or usual
    placeholder = usual or f"Choose a {label.lower()}"
    choice: str | None = st.selectbox(
        label, list(names), index=None, key=key, bind="query-params", placeholder=placeholder, **options
    )
    return choice or usual  # an emptied field keeps its value


def _unknown() -> dict[str, str]:
    """The values in the URL that do not exist, by parameter, until others are chosen."""
    values: dict[str, str] = st.session_state.setdefault(_UNKNOWN, {})
    return values


def reset_form(empty: Mapping[str, str | None], keys: Sequence[str], names: Sequence[str]) -> None:
    """Empty a form that changes data, unless its values were entered, or are in the URL, for the selected pipeline.

    Call it before anything is drawn. empty: the values of the empty fields. keys: fields of `table_fields`, which lose
    the values of a URL that names no pipeline. names: all pipelines.
    """
    state, query = st.session_state, st.query_params
    selected = state.get(_PIPELINE) or query.get(_PIPELINE)
    nowhere = selected not in names
    if not nowhere and state.get(_LAST, selected) == selected:
        return
    if nowhere:
        for field in (*empty, *keys):
            query.pop(field, None)
    for field, value in empty.items():
        if not (opened() and field in query):  # otherwise the URL follows the field
            state[field] = value
    if nowhere:
        _seed()
