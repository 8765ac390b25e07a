"""The details of a chunk."""

from app.live.view import chunk_details
from app.live.view.lineage import lineage
from engine.history.chunk_queries import ChunkDetails
from engine.history.chunk_splits import ChunkSplit


def test_the_facts_of_a_waiting_chunk_are_unknown() -> None:
    """The chunk details show `—`, not 0."""
    chunk = ChunkDetails("d.t", 3, "1", None, "waiting", *([None] * 26))
    values = {label: value for _, group in chunk_details.facts(chunk) for label, value in group}
    assert set(values.values()) == {"—"}


def test_a_split_chunk_says_so() -> None:
    """With the bound at which its reader stopped, the one that was planned, its parent, and the chunks of its rest."""
    chunk = ChunkDetails("d.t", 3, "1", "7", "waiting", *([None] * 26))
    assert (
        dict(chunk_details.facts(chunk, lineage([ChunkSplit(3, "7", "9")]))[0][1])["Split"] == "at 7, planned up to 9"
    )
    found = lineage([ChunkSplit(2, "1", "9", into=(3,)), ChunkSplit(3, "7", None, into=(4, 5))])
    last = dict(chunk_details.facts(chunk, found)[0][1])
    assert last["Split from"] == "chunk 2"
    assert last["Split"] == "at 7, planned up to the table's end, into 4, 5"
