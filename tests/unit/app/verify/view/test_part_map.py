"""The map of a table's parts."""

from app.verify.view.part_map import PartTile, markup


def test_parts_with_rows_that_differ_have_a_mark_of_their_own() -> None:
    """Not only another colour; the legend explains what is there, and nothing else."""
    tiles = [
        PartTile("chunk 0", "50k rows", 10.0, 0),
        PartTile("chunk 1", "50k rows", 90_000.0, 2),
        PartTile("chunk 2", "50k rows", None, 0),
    ]
    found = markup(tiles)
    assert 'aria-label="3 tiles of parts by age, 1 with rows that differ"' in found
    assert '<i class="parts-differ" title="chunk 1: compared 1 d 1 h ago, 50k rows, 2 rows differ">✕</i>' in found
    assert '<i class="parts-never" title="chunk 2: never compared, 50k rows"></i>' in found
    assert "up to 1 h" in found
    assert "never compared</span>" in found
    assert "7 d" not in found
