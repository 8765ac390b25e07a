"""Copy on write or merge on read: the comparison and the choices on the plan step."""

from collections.abc import Mapping, Sequence
from functools import partial

import pandas as pd
import streamlit as st

from app.common import columns, meaning
from app.common.view import words
from app.common.view.draft import Draft
from app.wizard import drafts, frame
from app.wizard.target import MIRROR_HELP, MIRRORS
from app.wizard.view import mirror_choice
from engine.base.errors import TidemarkError
from engine.decode.schema import Table
from engine.plan.chunks import Plan
from engine.source.change_rates import ChangeRates
from engine.spec.sink_settings import Sink

_AS_ALL = ""
_LABEL = "Merging into the mirror"
_COLUMNS = {
    "Table": st.column_config.TextColumn(pinned=True),
    **{name: columns.figure(width=74) for name in ("Inserts/s", "Updates/s", "Deletes/s")},
    **{
        name: columns.figure("Bytes written, and how old the mirror gets", 150)
        for name in ("Copy on write", "Merge on read")
    },
    "Chosen": st.column_config.TextColumn(width=100),
    "Recommended": st.column_config.TextColumn(width=100),
    "Why": columns.sentences(),
}


def compare(tables: Sequence[Table], plans: Mapping[str, Plan | TidemarkError], rates: ChangeRates, sink: Sink) -> None:
    """One row per table with the costs of both ways."""
    lines = mirror_choice.mirror_lines(tables, plans, rates, sink)
    if not lines:
        return
    st.markdown(
        "**Mirrors** :gray[the cost of merging changes, either way]",
        help=meaning.of("mirror", "merge on read", "deletion vector"),
    )
    st.dataframe(
        pd.DataFrame([mirror_choice.mirror_row(line) for line in lines]),
        hide_index=True,
        height=400 if len(lines) > 10 else "auto",
        row_height=columns.height(mirror_choice.mirror_row(line)["Why"] for line in lines),
        column_config=_COLUMNS,
        placeholder=words.NOTHING,
        alt="Costs of merging per table",
    )
    st.caption(f"{words.escape(mirror_choice.measured(rates))}  \n{words.escape(mirror_choice.readers())}")


def choose_all(draft: Draft) -> None:
    """The way for all tables without a choice of their own."""
    frame.choice(_LABEL, draft, MIRRORS, "sink", "mirror", default="auto", help=MIRROR_HELP)


def choose(draft: Draft, table: Table) -> None:
    """The way for one table."""
    path = ("sink", "tables", table.full_name, "mirror")
    now = draft.get(*path, default=_AS_ALL)
    key = frame.synced(f"{draft.id} mirror of {table.full_name}", now, partial(_keep, draft.id, path))
    names = [_AS_ALL, *MIRRORS]
    st.selectbox(
        _LABEL,
        names,
        index=names.index(now) if now in names else 0,
        format_func=lambda one: MIRRORS.get(one, "As all tables"),
        key=key,
        on_change=_keep,
        args=(draft.id, path, key),
        help="A table without a key has no mirror" if not table.key else MIRROR_HELP,
        disabled=not table.key,
    )


def _keep(identity: str, path: tuple[str, ...], key: str) -> None:
    value = st.session_state[key] or None
    drafts.change(identity, lambda draft: draft.put(*path, value=value))
