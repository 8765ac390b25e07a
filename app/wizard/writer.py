"""The fields about a new pipeline whose changes a function of yours, or one of Spark's writers, gets."""

import streamlit as st

from app.common.view.draft import Draft
from app.wizard import frame
from app.wizard.view import destination_kind
from app.wizard.view.destination_kind import WRITER_SETTINGS


def fields(draft: Draft) -> None:
    """Nothing for another destination."""
    kind = destination_kind.kind_of(draft)
    if kind == destination_kind.PYTHON:
        frame.text(
            "Function",
            draft,
            *WRITER_SETTINGS,
            "function",
            placeholder="events.write",
            help="Its dotted name. The module is beside the spec, or can be imported.",
        )
        st.caption("It is called with `(spark, table, changes, epoch)`: see docs/destinations.md, Writers.")
    if kind == destination_kind.SPARK:
        frame.text("Format", draft, *WRITER_SETTINGS, "format", placeholder="json")
        st.caption("The writer's options are written in the TOML: `[sink.writer]`, `options`.")
