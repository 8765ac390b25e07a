"""The section with the chunk map."""

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app.parts import home, places
from engine.history import chunk_queries, table_queries
from tests.unit.app.support import plan


def page() -> None:
    """The section as a page."""
    from app.parts import chunk_section

    chunk_section.show("shop")


@pytest.mark.parametrize(("window", "shown"), [((0, 4), "Chunks 0 to 4."), ((400, 409), "A tile is a chunk.")])
def test_the_map_of_a_finished_table_is_never_empty(
    monkeypatch: pytest.MonkeyPatch, window: tuple[int, int], shown: str
) -> None:
    """A tile that was opened while the table had more chunks is closed, and the whole map is shown."""
    states = [chunk_queries.ChunkState(number, "published", 9, 0) for number in range(10)]
    answers: dict[Any, Any] = {table_queries.plans: [plan(10)], chunk_queries.chunk_states: states}
    monkeypatch.setattr(home, "ask", lambda what, *_: answers[what])
    monkeypatch.setattr(places, "link_to_table", lambda *_: None)  # there are no pages to link to
    live = AppTest.from_function(page)
    live.session_state[str(("open tile", "shop", "d.t"))] = window
    live.run(timeout=30)
    assert not live.exception
    assert live.caption[0].value.startswith(shown)
    assert [button.label for button in live.button] == (["Show all chunks"] if shown.startswith("Chunks") else [])
