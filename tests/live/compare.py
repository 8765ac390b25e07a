"""The old name of `tests.live.support.compare`, for tests/browser."""

from tests.live.support.compare import assert_equal, lake_table, source_table

__all__ = ["assert_equal", "lake_table", "source_table"]
