"""Fields whose values belong to a table of a pipeline, such as numbers of chunks.

The values of one table must never reach another.

Streamlit's browser side sends the values of all fields with each run of a page, also with an autorefresh that was due
before the browser had received new ones. A field that keeps its key takes the old value, after its table was changed.
So a field gets another key whenever the page sets its value: old values then arrive under a key that no field has.

The address has each value, under the name of the field.
"""

from dataclasses import dataclass, replace
from itertools import count

import streamlit as st

from app.common import selection

FormOwner = tuple[str, str]
"""A pipeline and one of its tables; the table is empty while none is chosen."""
_ADDRESS = 2000
"""Characters of a value that an address can have. Longer ones are left out, because servers refuse long addresses."""
_NUMBERS = count()


@dataclass(frozen=True)
class _Value:
    pipeline: str
    table: str | None
    """None: the table that the page opens with."""
    text: str
    field: int


def take(pipeline: str, *names: str) -> None:
    """Give fields the values of the URL as the page was opened. Call it in each run, before `settle`."""
    if selection.opened():
        for name in names:
            url_values = st.query_params.get_all(name)
            _set(name, _Value(pipeline, None, url_values[-1] if url_values else "", next(_NUMBERS)))


def put(name: str, owner: FormOwner, text: str) -> None:
    """Set a value of a table. The whole page must run again."""
    _set(name, _Value(*owner, text, next(_NUMBERS)))


def settle(name: str, owner: FormOwner) -> str:
    """The value of a field for this table: empty if it belonged to another.

    Call it in each run, also if the field is not drawn.
    """
    entry = _value(name)
    if entry is not None and entry.table is None and entry.pipeline == owner[0]:
        _set(name, replace(entry, table=owner[1]))
    elif entry is not None and not entered(name):  # the same field: it may be filled in already
        _set(name, replace(entry, pipeline=owner[0], table=owner[1], text=""))
    elif entry is None or (entry.pipeline, entry.table) != owner:
        put(name, owner, "")
    return keep(name, value(name))


def key(name: str) -> str:
    """The key of the field with this name. Its default must be `value`."""
    entry = _value(name)
    return f"{name} {entry.field if entry else 'unset'}"


def value(name: str) -> str:
    """The value at the end of the last run."""
    entry = _value(name)
    return entry.text if entry else ""


def entered(name: str) -> str:
    """The value that was entered last: it arrives with a click, before the page runs again."""
    now = st.session_state.get(key(name), value(name))
    return "" if now is None else str(now)


def keep(name: str, text: str) -> str:
    """Keep what was entered, in the session and in the URL. Returns it."""
    entry = _value(name)
    if entry is not None and entry.text != text:
        _set(name, replace(entry, text=text))
    if text and len(text) <= _ADDRESS:
        selection.note(name, text)
    else:
        selection.forget_noted(name)
    return text


def _value(name: str) -> _Value | None:
    entry: _Value | None = st.session_state.get(_session(name))
    return entry


def _set(name: str, value: _Value) -> None:
    st.session_state[_session(name)] = value


def _session(name: str) -> str:
    return f"owned {name}"
