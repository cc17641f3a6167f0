"""Settings for all tests: the same examples on every run, no time limits, the same names for every worker."""

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "rankbound", max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("rankbound")


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """Name a parameter of bytes after its argument: bytes may hold a time, and workers refuse unequal names."""
    return argname if isinstance(val, bytes) else None
