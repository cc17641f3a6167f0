"""Settings for all tests: examples without chance, no time limits, the same names for every worker.

`make test` takes a sample of what is large: a quarter of the examples of each property, and of a product of parameters
as few cases as have every value of every parameter. `make test-workflow` runs what is marked `slow`, and
`make test-faults` the rest, among it what is marked `long`, and all examples, by the option `--rest`.

A few examples come from the constants of the modules that are loaded by then, which depends on the tests before.
"""

import gc
import hashlib
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

EXAMPLES = 60
SHARE = 4
"""`make test` takes one of so many examples."""

LARGE = 6
"""Cases of a test from which on they are sampled."""

LONG, SLOW = "long", "slow"
LENGTHY = ("test_calibrations.py", "test_site_in_browser.py")
"""Files that take minutes, and would be among the last: first, they keep no process waiting for another at the end."""

SHARED = ("library", "study")
"""Folders whose tests are shared out."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rest", action="store_true", help="run what `make test` leaves out, and all examples")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{LONG}: left to `make test-faults`")
    config.addinivalue_line("markers", f"{SLOW}: some seconds, left to `make test-workflow`, by `-m {SLOW}`")
    settings.register_profile(
        "rankbound",
        max_examples=EXAMPLES if config.getoption("--rest") else EXAMPLES // SHARE,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("rankbound")


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """Name a parameter of bytes after its argument: bytes may hold a time, and workers refuse unequal names."""
    return argname if isinstance(val, bytes) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the other of `make test` and `make test-faults` runs; what only one of them knows stays."""
    left_out = rest = _rest(items)
    if config.getoption("--rest"):
        drawing = {item for item in items if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj)}
        left_out = {item for item in items if _is_shared(item)} - rest - drawing
    elif config.getoption("markexpr") != SLOW:
        left_out = rest | {item for item in items if item.get_closest_marker(SLOW)}
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    kept = (item for item in items if item not in left_out)
    items[:] = sorted(kept, key=lambda item: item.path.name not in LENGTHY)


def _rest(items: list[pytest.Item]) -> set[pytest.Item]:
    """The long tests, and the cases of large products that have no value of a parameter for the first time.

    The order in which cases are looked at has nothing to do with that of the values, so that the sample is spread out.
    """
    rest = {item for item in items if item.get_closest_marker(LONG)}
    products: dict[str, list[pytest.Function]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec") and _is_shared(item):
            products[item.nodeid.partition("[")[0]].append(item)
    for cases in products.values():
        seen: set[tuple[int, ...]] = set()
        scattered = sorted(cases, key=lambda case: hashlib.sha256(case.nodeid.encode()).digest())
        for case in scattered if len(cases) >= LARGE else ():
            values = _values(case)
            if values <= seen:
                rest.add(case)
            seen |= values
    return rest


def _values(case: pytest.Function) -> set[tuple[int, ...]]:
    """Return the identities of a case's values; parameters that are listed together have one identity."""
    together = [mark.args[0] for mark in case.iter_markers("parametrize")]
    axes = [names.replace(" ", "").split(",") if isinstance(names, str) else list(names) for names in together]
    axes += [[name] for name in case.callspec.params if not any(name in names for names in axes)]
    return {(place, *(id(case.callspec.params[name]) for name in names)) for place, names in enumerate(axes)}


def _is_shared(item: pytest.Item) -> bool:
    """Tests outside these folders are in `make test` or in `make test-faults` as a whole."""
    return item.path.relative_to(Path(__file__).parent).parts[0] in SHARED


@pytest.fixture(scope="module", autouse=True)
def what_is_loaded_is_kept() -> None:
    """Keep the collector of garbage from looking at all modules and tests, at each message of the command line.

    That would take three seconds a message, a third of all tests' time.
    """
    gc.collect()
    gc.freeze()
