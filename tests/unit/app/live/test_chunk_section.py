"""The section with the chunk map."""

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app.common import access, home, places
from engine.history import chunk_queries, chunk_splits, table_queries
from tests.unit.app.support import plan


def page() -> None:
    """The section as a page."""
    from app.live import chunk_section

    chunk_section.show("shop")


@pytest.mark.parametrize(("window", "shown"), [((0, 4), "Chunks 0 to 4."), ((400, 409), "A tile is a chunk.")])
def test_the_map_of_a_finished_table_is_never_empty(
    monkeypatch: pytest.MonkeyPatch, window: tuple[int, int], shown: str
) -> None:
    """A tile that was opened while the table had more chunks is closed, and the whole map is shown."""
    states = [chunk_queries.ChunkState(number, "published") for number in range(10)]
    answers: dict[Any, Any] = {table_queries.plans: [plan(10)], chunk_queries.chunk_states: states}
    answers[chunk_splits.splits] = []
    monkeypatch.setattr(home, "ask", lambda what, *_, **__: answers[what])
    monkeypatch.setattr(access, "operator", lambda: False)
    monkeypatch.setattr(places, "link_to_table", lambda *_: None)  # there are no pages to link to
    live = AppTest.from_function(page)
    live.session_state[str(("open tile", "shop", "d.t"))] = window
    live.run(timeout=30)
    assert not live.exception
    assert live.caption[0].value.startswith(shown)
    assert [button.label for button in live.button] == (["Show all chunks"] if shown.startswith("Chunks") else [])


def test_the_map_is_coloured_by_what_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """One query has the values of all chunks; an address names the colouring."""
    asked: list[Any] = []

    def ask(what: Any, *given: Any, **_: Any) -> Any:
        if what is chunk_queries.chunk_states:
            asked.append(given[2])
            return [chunk_queries.ChunkState(number, "published", number) for number in range(900)]
        return [plan(900, 899)] if what is table_queries.plans else [chunk_splits.ChunkSplit(3, "7", "9")]

    monkeypatch.setattr(home, "ask", ask)
    monkeypatch.setattr(access, "operator", lambda: True)
    monkeypatch.setattr(places, "link_to_table", lambda *_: None)
    live = AppTest.from_function(page)
    live.query_params["colour"] = "Watermark gap"
    live.run(timeout=30)
    assert not live.exception
    assert asked == ["gap"]
    assert live.caption[0].value == (
        "A tile has 2 chunks and shows the highest value. Select it to open it. "
        "Drag, or hold Shift, to select several for a redump. The gap is unknown if it spans several binlog files."
    )
    assert live.caption[1].value.startswith("899 chunks planned, 900 now: 1 was split")
    live.session_state["colour"] = "State"
    live.run(timeout=30)
    assert asked[-1] is None
    assert "most urgent state" in live.caption[0].value
