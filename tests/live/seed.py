"""The old name of `tests.live.support.seed`, for tests/browser."""

from tests.live.support.seed import seed_table

__all__ = ["seed_table"]
