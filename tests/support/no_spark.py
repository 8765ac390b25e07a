"""Writers where no Spark runs."""

import pytest

from engine.destination.writer import writes


def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a frame be the Arrow table."""
    monkeypatch.setattr(writes, "running_session", object)
    monkeypatch.setattr(writes, "frame_of", lambda _, changes: changes)
