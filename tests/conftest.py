"""Settings for all tests: the same examples on every run, no time limits."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "rankbound", max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("rankbound")
