"""Settings of the property tests.

Few examples, so that all unit tests run in under a minute; no deadline on busy machines.
"""

from hypothesis import HealthCheck, settings

from tests.support.depth import depth

settings.register_profile(
    "unit",
    max_examples=depth(25, 300),
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
settings.load_profile("unit")
