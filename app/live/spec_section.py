"""The section with the spec: its file, and what the run follows instead; the end of the runner's log."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from app.common import access, controls, home, messages
from app.common.autorefresh import autorefresh
from app.common.view import words
from app.live import throttle_section
from app.live.view import spec_state
from engine.base.errors import TidemarkError
from engine.base.redaction import clean
from engine.pipeline.directory import Directory
from engine.spec import settings


def section(where: Directory) -> None:
    """The section."""
    _in_force(where)
    left, right = st.columns(2, gap="medium")
    with left:
        _file(where)
    with right:
        st.markdown("**Runner's log** :gray[the last lines]")
        messages.log(home.log_tail(where, 60) or "There is no log. The runner was started elsewhere, or never.", 420)


@autorefresh()
def _file(where: Directory) -> None:
    st.markdown(f"**File** :gray[{words.escape(str(where.spec))}]")
    st.code(home.spec_text(where), language="toml")


@autorefresh()
def _in_force(where: Directory) -> None:
    """Where the file and the run differ."""
    now = home.in_force(where)
    if now is None:
        st.markdown(":gray[:material/info: No runner is alive. The next start follows the file below.]")
        return
    try:
        file: Mapping[str, Any] = clean(settings.load(where.spec).model_dump(mode="json"))
    except TidemarkError as problem:
        messages.error(problem)
        st.caption("The run continues with the settings of its start. The next start would fail.")
        return
    differences = spec_state.unapplied(
        {**now, spec_state.THROTTLE: throttle_section.throttle(where).model_dump(mode="json")}, file
    )
    if not differences:
        st.markdown(":green[:material/check_circle: The run follows the file below.]")
        return
    st.markdown(
        ":orange[:material/difference: **The run does not follow the file in "
        f"{words.plural(len(differences), 'setting')}.**] It follows the file as of its start, "
        "and the limits set under *Pace*."
    )
    rows = [
        {"Setting": one.setting, "In force": one.in_force, "In the file": one.in_file, "To follow the file": one.effect}
        for one in differences
    ]
    st.dataframe(
        pd.DataFrame(rows),
        hide_index=True,
        key="unapplied",
        placeholder=words.NOTHING,
        alt="Settings that the run does not follow",
    )
    if access.operator() and (limits := spec_state.to_apply(differences, file)):
        click = controls.clicks(where.root.name)
        st.button(
            "Apply the file's limits",
            icon=":material/publish:",
            key=f"apply-{where.root.name}-{click}",
            on_click=controls.send_once,
            args=(where, click, "throttle", "as in the spec's file", limits),
        )
