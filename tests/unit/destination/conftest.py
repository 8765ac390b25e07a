"""The tests of the sink run with both kinds of mirrors."""

import pytest

from engine.spec.sink_settings import Mirror


@pytest.fixture(params=["copy_on_write", "merge_on_read"])
def mode(request: pytest.FixtureRequest) -> Mirror:
    """How changes are merged."""
    found: Mirror = request.param
    return found
