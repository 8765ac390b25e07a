"""Fixtures: the kinds of mirrors, and a sink that is held while it opens."""

import pytest

from engine.destination import sink_opening
from engine.destination.read_back import read_back
from engine.spec.sink_settings import MirrorMode
from tests.unit.destination.sink_run import Gate


@pytest.fixture(params=["copy_on_write", "merge_on_read"])
def mode(request: pytest.FixtureRequest) -> MirrorMode:
    """How changes are merged."""
    found: MirrorMode = request.param
    return found


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Holds a sink when it reads a table back."""
    gate = Gate()
    monkeypatch.setattr(sink_opening, "read_back", gate.before(read_back))
    return gate
