"""A table's verification, for tests."""

from engine.journal.verification_summary import Summary

VERIFIED: Summary = Summary(
    verdict="verified",
    why="",
    at="2026-01-31T15:00:00Z",
    last="2026-01-31T15:00:00Z",
    position=None,
    version=0,
    level="rows",
    rows=1,
    differences=0,
    by_kind={},
    parts=1,
    compared=1,
    generation=0,
    seconds=0.1,
)
"""All rows were compared at version 0 of the mirror, and none differs."""
