"""Step 2: all requirements for the source, checked before anything is read, with the SQL that fixes a failure."""

import streamlit as st

from app.common import jobs, source_queries
from app.common.view import words
from app.common.view.draft import Draft
from app.wizard import frame
from app.wizard.view.checks import by_outcome, headline, outcome
from engine.base.errors import TidemarkError
from engine.source.grants import minimal_grants
from engine.source.preflight import Check, Preflight
from engine.spec.settings import Spec

NEVER = (
    ("LOCK TABLES", "reads are consistent without a lock"),
    ("RELOAD", "Tidemark never sends FLUSH"),
    ("SUPER", "nor any of the privileges that replaced it"),
    ("INSERT, UPDATE, DELETE, CREATE, ALTER, DROP", "Tidemark never writes to the source"),
)


def page(draft: Draft) -> None:
    """The preflight runs automatically if there is no result for these settings."""
    has_tables = bool(draft.get("source", "tables"))
    key = _key(draft)
    title, button = st.columns([4, 1], vertical_alignment="center")
    title.markdown(
        "**Preflight** :gray[checks the requirements for the server"
        + (" and the chosen tables" if has_tables else "; tables are checked when they are chosen")
        + "]"
    )
    with button, st.container(horizontal_alignment="right"):
        if st.button("Check again", icon=":material/refresh:", key="check-again", disabled=jobs.running(key)):
            jobs.forget(key)
            st.rerun()
    try:
        spec = source_queries.spec_of(draft)
        result = result_of(draft, spec)
    except TidemarkError as problem:
        frame.error(problem, draft)
        draft = frame.note(draft, "Preflight", "fail", problem.message)
    else:
        if result is not None:
            draft = frame.note(draft, "Preflight", outcome(result), headline(result))
            _show(draft, result, has_tables=has_tables)
    frame.foot(draft, "Preflight")


def _key(draft: Draft) -> str:
    return f"preflight {source_queries.key_of(draft, draft.fingerprint('Preflight'))}"


def result_of(draft: Draft, spec: Spec) -> Preflight | None:
    """The result for the current draft; None while it runs. Raises as `run_preflight`."""
    has_tables = bool(draft.get("source", "tables"))
    return jobs.result(
        _key(draft), "Checking the source", lambda: source_queries.preflight(spec, has_tables=has_tables)
    )


def _show(draft: Draft, result: Preflight, *, has_tables: bool) -> None:
    colour, icon, _ = frame.STYLES[outcome(result)]
    left, right = st.columns([3, 2], gap="large")
    with left:
        st.markdown(f"#### :{colour}[{icon} {words.escape(headline(result))}]", anchors=False)
        failures, warnings, passes = by_outcome(result.checks)
        for check in failures:
            _trouble(check, "red", ":material/error:")
        for check in warnings:
            _trouble(check, "orange", ":material/warning:")
        st.caption(f"Checked {jobs.ended(_key(draft))}")
        _passed(passes, opened=not failures and not warnings)
    with right:
        _rights(draft, result, has_tables=has_tables)


def _trouble(check: Check, colour: str, icon: str) -> None:
    with st.container(border=True, gap="xsmall"):
        st.markdown(f"**:{colour}[{icon}] {words.escape(check.name)}**")
        for label, value in (("Expected", check.expected), ("Actual", check.actual), ("Why it matters", check.why)):
            left, right = st.columns([1, 4], gap="small")
            left.markdown(f":gray[{label}]")
            right.markdown(words.escape(value))
        if check.fix:
            sql = check.fix.rstrip().endswith(";")
            st.markdown(":gray[To fix it, run as an administrator]" if sql else ":gray[To fix it]")
            st.code(check.fix, language="sql" if sql else None, wrap_lines=True)


def _passed(passes: list[Check], *, opened: bool) -> None:
    if not passes:
        return
    with st.expander(f"{words.plural(len(passes), 'check')} passed", icon=":material/check_circle:", expanded=opened):
        lines = [f"| {' | '.join(map(words.escape, (c.name, c.actual, c.why)))} |" for c in passes]
        st.markdown("\n".join(["| Check | Found | Why it matters |", "| --- | --- | --- |", *lines]))


def _rights(draft: Draft, result: Preflight, *, has_tables: bool) -> None:
    st.markdown("**All privileges that Tidemark needs** :gray[the complete statements]")
    globs = draft.get("source", "tables", default=[]) if has_tables else [source_queries.EVERYTHING]
    st.code(
        "\n".join(minimal_grants(draft.get("source", "user", default=""), result.server, globs)),
        language="sql",
        wrap_lines=True,
    )
    if not has_tables:
        st.caption("When tables are chosen, SELECT is limited to their databases.")
    st.markdown("**Never asked for**")
    st.markdown("  \n".join(f":gray[:material/block:] **{right}** :gray[{why}]" for right, why in NEVER))
