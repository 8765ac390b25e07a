"""The old name of `tests.live.support.workload`, for tests/browser."""

from tests.live.support.workload import Workload

__all__ = ["Workload"]
