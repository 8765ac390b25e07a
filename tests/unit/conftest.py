"""Settings of the property tests, and what no test leaves to others.

Few examples, so that all unit tests run in under a minute; no deadline on busy machines.
"""

import pytest
from hypothesis import HealthCheck, settings

from engine.base import redaction
from tests.support.depth import depth

settings.register_profile(
    "unit",
    max_examples=depth(25, 300),
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
settings.load_profile("unit")


@pytest.fixture(autouse=True)
def _own_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that one test calls secret, such as the invalid URL "http://", is none in the next one."""
    monkeypatch.setattr(redaction, "_KNOWN", redaction.KnownSecrets())
