"""The diagnostics bundle: make it, inspect it, download it."""

import zipfile
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import streamlit as st

from app.common import engine, messages, page_head
from app.common.view import words
from engine.base import clock
from engine.base.errors import TidemarkError
from engine.pipeline.directory import Directory

_MADE = "bundle"
_SHOWN = 200_000  # the most characters of a part to show


def make(where: Directory, *, with_values: bool) -> None:
    """Make the bundle and keep it in the session."""
    try:
        with st.spinner("Collecting", show_time=True), TemporaryDirectory() as folder:
            file = Path(folder) / "bundle.zip"
            arguments = ["--out", str(file), *(["--with-values"] if with_values else [])]
            answer = engine.ask("bundle", where.spec, arguments)
            name = f"{where.root.name}-{clock.utc_now():%Y%m%dT%H%M%S}.zip"
            st.session_state[_MADE] = where.root.name, name, file.read_bytes(), answer
    except TidemarkError as problem:
        messages.error(problem)


def draw_bundle(where: Directory) -> None:
    """The parts of the bundle, and the content of each."""
    bundle = st.session_state.get(_MADE)
    if bundle is None or bundle[0] != where.root.name:
        messages.nothing(
            "No bundle made yet",
            "It contains the spec, the status, the result of check, the journals of five runs and the runner's log. It "
            "stays on this machine unless you download it.",
            ":material/folder_zip:",
        )
        return
    _, name, data, answer = bundle
    left, right = st.columns([3, 1], vertical_alignment="center")
    secrets = words.plural(answer["removed"], "secret")
    left.markdown(f"**{words.escape(name)}** :gray[{words.size(len(data))}; {secrets} removed]")
    with right, st.container(horizontal=True, horizontal_alignment="right"):
        st.download_button(
            "Download", data, name, "application/zip", icon=":material/download:", type="primary", key="zip"
        )
    left, right = st.columns([2, 3], gap="medium")
    with left:
        rows = pd.DataFrame([{"Part": part, "Size": words.size(size)} for part, size in answer["parts"]])
        st.dataframe(rows, hide_index=True, key="parts", placeholder=words.NOTHING, alt="Parts of the bundle")
    with right, zipfile.ZipFile(BytesIO(data)) as file:
        part = st.selectbox("Part", [part for part, _ in answer["parts"]], key="part")
        text = file.read(part or "README.txt").decode("utf-8", "replace")
        st.code(text[:_SHOWN], language=None, height=420, wrap_lines=True)
        if len(text) > _SHOWN:
            st.caption(f"The first {_SHOWN:,} of {len(text):,} characters; the download has all of them.")


def page() -> None:
    """The page."""
    where = page_head.pipeline("Diagnostics", "Here you can pack what others need to help you.")
    if where is None:
        return
    st.markdown(
        ":gray[A zip file for support. Passwords, tokens and webhooks are removed. Inspect it before you share it.]"
    )
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        pressed = st.button("Make the bundle", icon=":material/folder_zip:", key="make")
        with_values = st.toggle("Keep chunk bounds and keys, which are values of rows", key="values")
    if pressed:
        make(where, with_values=with_values)
    draw_bundle(where)


page()
