"""A new pipeline: fill in the form or write TOML, see it checked at once, launch."""

from pathlib import Path

import streamlit as st

from app.parts import home, messages, places
from app.view import words
from app.view.template import Draft, toml
from engine import settings
from engine.directory import Directory, write_atomically
from engine.errors import SpecError, TidemarkError

_STARTUPS = {
    "initial": "Copy everything, then follow",
    "snapshot": "Copy everything, then end",
    "latest": "Follow from now on, copy nothing",
    "earliest": "Follow from the oldest binlog there is",
}


def form() -> str:
    """The form; returns its spec."""
    usual = Draft()
    with st.container(border=True):
        st.markdown("**Source**")
        name = st.text_input(
            "Name", usual.name, key="f-name", help="Letters, digits, - and _; also the folder of the pipeline"
        )
        left, right = st.columns([3, 1])
        host = left.text_input("Host", usual.host, key="f-host")
        port = right.number_input("Port", 1, 65535, usual.port, key="f-port")
        left, right = st.columns(2)
        user = left.text_input("User", usual.user, key="f-user")
        password_env = right.text_input(
            "Password from variable",
            usual.password_env,
            key="f-password",
            help="The name of an environment variable of this console. The password itself is never put into a spec.",
        )
        tables = st.text_area(
            "Tables",
            usual.tables,
            key="f-tables",
            height=96,
            help="database.table, one a line; * and ? match, ! in front excludes, a later line wins",
        )
        startup = st.selectbox("Start", list(_STARTUPS), format_func=_STARTUPS.__getitem__, key="f-startup")
    path, chunk_rows, master = destination(usual)
    return toml(Draft(name, host, int(port), user, password_env, tables, startup, chunk_rows, path, master))


def destination(usual: Draft) -> tuple[str, str, int, str]:
    """Where the rows go and how: folder, what is published, rows a chunk, Spark."""
    with st.container(border=True):
        st.markdown("**Destination**")
        left, right = st.columns(2)
        path = left.text_input(
            "Delta folder", usual.path, key="f-path", help="Relative to the pipeline's folder, or absolute"
        )
        left, right = st.columns(2)
        chunk_rows = left.number_input(
            "Rows a chunk", 0, None, usual.chunk_rows, step=1000, key="f-rows", help="0: as many as fit 16 MiB"
        )
        master = right.text_input(
            "Spark", usual.master, key="f-master", help="local[*], local[2], or a cluster's address"
        )
    return path, int(chunk_rows), master


def checked(text: str) -> settings.Spec | None:
    """The spec when it can be launched; otherwise what is wrong is shown."""
    try:
        spec = settings.parse(text, Path("pipeline.toml"))
    except SpecError as problem:
        messages.error(problem)
        return None
    where = Directory(home.home() / spec.name)
    if where.spec.exists():
        messages.three_parts(
            f"There is a pipeline called {spec.name} already.",
            "It is left as it is.",
            "Choose another name, or open that one and start it.",
            amber=True,
        )
        return None
    try:
        settings.password(spec.source)
    except SpecError as problem:
        messages.three_parts(
            problem.message,
            problem.detail or "The pipeline can be saved, but not launched yet.",
            problem.hint,
            amber=True,
        )
        return spec
    st.success("The spec is valid. Preflight runs when it is launched.", icon=":material/check_circle:")
    return spec


def save(text: str, spec: settings.Spec) -> Directory:
    """Write the spec where every console and the command line find it."""
    where = Directory(home.home() / spec.name)
    where.root.mkdir(parents=True, exist_ok=True)
    write_atomically(where.spec, text)
    return where


def actions(text: str, spec: settings.Spec | None) -> None:
    """Save, or save and launch."""
    with st.container(horizontal=True, horizontal_alignment="right"):
        st.download_button(
            "Download", text, "pipeline.toml", "application/toml", icon=":material/download:", key="download"
        )
        saving = st.button("Save only", key="save", disabled=spec is None)
        launching = st.button(
            "Save and launch", type="primary", icon=":material/rocket_launch:", key="launch", disabled=spec is None
        )
    if spec is None or not (saving or launching):
        return
    try:
        where = save(text, spec)
        if launching:
            settings.password(spec.source)
            home.launch(where)
    except TidemarkError as problem:
        messages.error(problem)
    except OSError as problem:
        messages.three_parts(
            f"The pipeline could not be saved or started: {problem}.", "Nothing was read from the source."
        )
    else:
        places.go_live(spec.name)


def page() -> None:
    """Form on the left, the spec it makes and what is wrong with it on the right."""
    st.title("New pipeline", anchor=False)
    mode = st.segmented_control("Write the spec as", ["Form", "TOML"], default="Form", key="mode", required=True)
    left, right = st.columns([1, 1], gap="large")
    if mode == "TOML":
        with left:
            text = st.text_area("pipeline.toml", st.session_state.get("made", toml(Draft())), height=520, key="toml")
        with right:
            spec = checked(text or "")
            st.caption(
                "Checked when you leave the text or press Ctrl+Enter. A key that is not known is refused, and the nearest "
                "known one is named."
            )
            actions(text or "", spec)
        return
    with left:
        text = form()
    st.session_state["made"] = text
    with right:
        st.markdown(f":gray[{words.escape('pipeline.toml, as the command line takes it')}]")
        st.code(text, language="toml")
        actions(text, checked(text))


page()
