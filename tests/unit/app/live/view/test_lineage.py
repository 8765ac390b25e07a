"""Which chunks were split from which."""

from app.live.view.lineage import listed
from engine.history.chunk_splits import ChunkSplit


def test_a_sentence_lists_three_splits() -> None:
    """And the number of the others, also of those whose rest is not known."""
    splits = [ChunkSplit(n, "1", "2", into=(n + 100,)) for n in range(4)]
    assert listed(splits[:1]) == "0 into 100"
    assert listed([ChunkSplit(1, "1", "2", into=(100, 101)), *splits[2:3]]) == "1 into 100, 101; 2 into 102"
    assert listed([*splits, ChunkSplit(9, "1", "2")]) == "0 into 100; 1 into 101; 2 into 102; 2 more"
    assert listed([ChunkSplit(9, "1", "2")]) == listed([]) == ""
