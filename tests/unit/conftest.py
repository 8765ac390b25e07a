"""Settings of the property tests: few examples, as all unit tests run in well under a minute; no deadline on busy cores."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "unit",
    max_examples=60,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
settings.load_profile("unit")
