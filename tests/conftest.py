"""Settings for all tests: examples without chance, no time limits, the same names for every worker.

A few examples come from the constants of the modules that are loaded by then, which depends on the tests before.
"""

import gc

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "rankbound", max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("rankbound")


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """Name a parameter of bytes after its argument: bytes may hold a time, and workers refuse unequal names."""
    return argname if isinstance(val, bytes) else None


def pytest_collection_finish() -> None:
    """Keep the collector of garbage from looking at all modules and tests, at each message of the command line."""
    gc.collect()
    gc.freeze()
