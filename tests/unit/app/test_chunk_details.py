"""The details of a chunk."""

from app.view import chunk_details
from engine.history.chunk_queries import Chunk


def test_the_facts_of_a_waiting_chunk_are_unknown() -> None:
    """The chunk details show `—`, not 0."""
    chunk = Chunk("d.t", 3, "1", None, "waiting", *([None] * 25))
    values = {label: value for _, group in chunk_details.facts(chunk) for label, value in group}
    assert set(values.values()) == {"—"}
