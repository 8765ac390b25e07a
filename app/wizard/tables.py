"""Step 3: choose tables. A tree, the globs with their matches, columns and risks of a table, and totals."""

import os
from functools import partial

import pandas as pd
import streamlit as st

from app.common import jobs, messages, source_queries
from app.common.view import picking, words
from app.common.view.draft import Draft
from app.wizard import drafts, frame
from app.wizard.table_tree import Click, table_tree
from app.wizard.view.planning import readers_of
from engine.base.errors import TidemarkError
from engine.source.survey import Surveyed
from engine.spec.case_folding import spec_on
from engine.spec.globs import NameRule
from engine.spec.settings import ProjectionRules, Spec

_GLOBS, _DETAILS = "Globs", "Columns and risks"


def page(draft: Draft) -> None:
    """The catalog is read once per connection. Searching and clicking send no queries."""
    key = f"survey {source_queries.key_of(draft)}"
    try:
        spec = source_queries.spec_of(draft)
        catalog = jobs.result(key, "Reading the catalog", lambda: source_queries.surveyed(spec))
    except TidemarkError as problem:
        frame.error(problem)
        if st.button("Try again", icon=":material/refresh:", key="try-again"):
            jobs.forget(key)
            st.rerun()
        frame.foot(draft, "Tables")
        return
    if catalog is not None:
        _head(key, catalog.tables)
        if catalog.tables:
            _chooser(draft, spec, catalog)
        else:
            messages.nothing(
                "This account sees no table",
                f"Grant {spec.source.user} SELECT on the tables to capture (the preflight shows the statements), "
                "then reload.",
            )
    has_tables = bool(draft.get("source", "tables"))
    frame.foot(draft, "Tables", ready=has_tables, why="" if has_tables else "Choose at least one table.")


def _head(key: str, tables: list[Surveyed]) -> None:
    left, right = st.columns([4, 1], vertical_alignment="center")
    databases = len({one.table.database for one in tables})
    many = f"{words.plural(len(tables), 'table')} in {words.plural(databases, 'database')}"
    note = f"{many}; rows and sizes are the server's estimates, read {jobs.ended(key)}"
    left.markdown(f"**Tables** :gray[{words.escape(note)}]")
    with right, st.container(horizontal_alignment="right"):
        if st.button("Reload", icon=":material/refresh:", key="reload", help="Reads the catalog again"):
            jobs.forget(key)
            st.rerun()


def _chooser(draft: Draft, spec: Spec, catalog: source_queries.Catalog) -> None:
    tables = catalog.tables
    everything = [(one.table.database, one.table.name) for one in tables]
    written_globs: list[str] = draft.get("source", "tables", default=[])
    rule, globs = catalog.names, catalog.names.globs(written_globs)
    spec = spec_on(spec, rule)
    every = (
        {one.table.full_name: spec.projection_rules(one.table.database, one.table.name) for one in tables}
        if spec.tables
        else {}
    )
    projections = {name: rules for name, rules in every.items() if rules.model_fields_set}
    shown_key, side_key = f"{draft.id} shown-table", f"{draft.id} side"
    left, right = st.columns([7, 3], gap="medium")
    with left:
        table_tree(
            picking.tree(tables, catalog.risks, globs, projections),
            st.session_state.get(shown_key, ""),
            any_case=rule.folds,
            key=f"{draft.id} tree",
            on_clicks=lambda clicks: _clicked(draft.id, everything, rule, clicks),
            on_show=lambda name: st.session_state.update({shown_key: name, side_key: _DETAILS}),
        )
        readers = readers_of(spec, os.cpu_count() or 1)
        total = picking.totals(tables, globs, spec.snapshot, readers)
        st.markdown(f"**{words.escape(picking.totals_line(total, readers))}**")
    with right:
        names = [one.table.full_name for one in tables]
        open_table = st.session_state.get(shown_key, "")
        one = next((one for one in tables if one.table.full_name == open_table), None)
        globs_tab, table_tab = st.tabs([_GLOBS, _DETAILS], key=side_key, on_change="rerun")
        with globs_tab:
            _rules(draft, written_globs, everything, rule)
        with table_tab:
            _details(draft, names, one, shown_key, projections)


def _clicked(identity: str, everything: list[picking.PickedTable], rule: NameRule, clicks: list[Click]) -> None:
    def carried_out(draft: Draft) -> Draft:
        globs = draft.get("source", "tables", default=[])
        for kind, what, on in clicks:
            if kind == "glob":
                globs = picking.with_glob(globs, what, on=on)
            elif kind == "database":
                globs = picking.database_toggled(globs, everything, what, on=on, rule=rule)
            else:
                globs = picking.toggled(globs, everything, {(d, t) for d, t in what}, on=on, rule=rule)
        return draft.put("source", "tables", value=globs)

    drafts.change(identity, carried_out)


def _rules(draft: Draft, globs: list[str], everything: list[picking.PickedTable], names: NameRule) -> None:
    st.caption(
        "The globs of the spec over database.table. ! excludes; the last match decides. Clicks in the tree edit them, "
        "and a search with \\* or ? can be saved as one."
    )
    rules = picking.glob_rules(globs, everything, names)
    if not rules:
        st.caption("None yet.")
    with st.container(height=420 if len(rules) > 8 else "content", border=bool(rules), gap=None, key="rules"):
        for number, rule in enumerate(rules):
            left, right = st.columns([5, 1], vertical_alignment="center")
            verb = "excludes" if rule.glob.startswith("!") else "includes"
            rest = f", {rule.tables - rule.decides:,} overridden" if rule.decides < rule.tables else ""
            left.markdown(f"`{rule.glob}`  \n:small[:gray[{verb} {words.plural(rule.decides, 'table')}{rest}]]")
            right.button(
                "",
                icon=":material/close:",
                key=f"{draft.id} rule {number} {rule.glob}",
                type="tertiary",
                help=f"Remove {rule.glob}",
                on_click=_removed,
                args=(draft.id, rule.glob),
            )


def _removed(identity: str, glob: str) -> None:
    def without(draft: Draft) -> Draft:
        return draft.put("source", "tables", value=[g for g in draft.get("source", "tables", default=[]) if g != glob])

    drafts.change(identity, without)


def _details(
    draft: Draft, names: list[str], one: Surveyed | None, shown_key: str, projections: dict[str, ProjectionRules]
) -> None:
    st.selectbox("Table", names, index=None, key=shown_key, placeholder="Choose one, or click a name in the tree")
    if one is None:
        st.caption("Here you can leave out or mask columns, and see the risks of a table.")
        return
    table, rules = one.table, projections.get(one.table.full_name, ProjectionRules())
    badges = picking.badges(one, picking.projected(table, rules))
    for badge in badges:
        st.markdown(
            f":{badge.tone}[{picking.ICONS[badge.tone]} **{badge.label}**] :small[{words.escape(badge.meaning)}]"
        )
        if badge.fix:
            st.code(badge.fix, language="sql" if badge.fix.endswith(";") else None, wrap_lines=True)
    if not badges:
        st.markdown(":green[:material/check_circle:] :small[no known risks]")
    free = [column.name for column in table.columns if column.name not in table.key]
    _columns(draft, table.full_name, free, "exclude", "Leave out", "These columns are not published")
    maskable = [name for name in free if name not in (rules.exclude or ())]
    _columns(draft, table.full_name, maskable, "mask", "Mask", "The SHA-256 of the value is published instead")
    if table.key:
        st.caption(words.escape(f"Key columns ({', '.join(table.key)}) are always published as they are."))
    rows = [
        {
            "Column": column.name,
            "Type": column.type + (" unsigned" if column.unsigned else ""),
            "Key": "key" if column.name in table.key else "",
            "Published": _published(column.name, rules),
        }
        for column in table.columns
    ]
    st.dataframe(
        pd.DataFrame(rows),
        hide_index=True,
        key=f"{draft.id} columns",
        height=220 if len(rows) > 5 else "auto",
        placeholder=words.NOTHING,
        alt=f"Columns of {table.full_name}",
    )


def _published(name: str, rules: ProjectionRules) -> str:
    if name in (rules.exclude or ()):
        return "no"
    return "masked" if name in (rules.mask or {}) else "yes"


def _columns(draft: Draft, table: str, names: list[str], rule: str, label: str, meaning: str) -> None:
    value = draft.get("tables", table, rule, default=[])
    now = [name for name in (value if isinstance(value, list) else list(value)) if name in names]
    key = frame.synced(f"{draft.id} {rule} {table}", now, partial(_keep_columns, draft.id, table, rule))
    st.multiselect(
        label,
        names,
        now,
        key=key,
        help=meaning,
        placeholder="No column",
        on_change=_keep_columns,
        args=(draft.id, table, rule, key),
    )


def _keep_columns(identity: str, table: str, rule: str, key: str) -> None:
    drafts.change(identity, lambda draft: draft.put("tables", table, rule, value=list(st.session_state[key]) or None))
