"""The old name of `tests.tools.demo`, for tests/browser."""

from tests.tools.demo import PASSWORD_VARIABLE, console, free_port, stop_runners

__all__ = ["PASSWORD_VARIABLE", "console", "free_port", "stop_runners"]
