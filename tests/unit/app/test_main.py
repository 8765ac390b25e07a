"""The entry point of the console."""

import gc
from pathlib import Path

import pytest
import streamlit as st
from streamlit import config
from streamlit.testing.v1 import AppTest

MAIN = Path(__file__).parents[3] / "app" / "main.py"


def test_loaded_modules_are_not_searched_for_garbage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Streamlit runs the collector after each rerun.

    A tenth of a second of processor time for the modules of a page.
    """
    monkeypatch.setenv("TIDEMARK_HOME", str(tmp_path))
    address = config.get_option("server.address")
    gc.unfreeze()  # the tests' own modules are frozen
    config.set_option("server.address", "127.0.0.1")
    st.cache_resource.clear()
    try:
        page = AppTest.from_file(str(MAIN), default_timeout=60).run()
        assert not page.exception
        assert gc.get_freeze_count() > 50_000
    finally:
        config.set_option("server.address", address)
        gc.freeze()
