"""Derived seeds are stable and distinct; options are exactly the known keys."""

import hashlib
import subprocess
import sys

import numpy as np
import pytest

from rankbound.errors import ConfigError
from rankbound.texts import derive_seed
from rankbound_study.options import read_options

DEFAULTS = {"nsr": 1, "share": 0.1, "name": "x", "flag": False}


def test_seeds_do_not_change_between_versions_or_processes() -> None:
    digest = hashlib.sha256(b'["folds", "movielens", 0]').hexdigest()
    assert derive_seed("folds", "movielens", 0) == int(digest[:16], 16) // 2 == 2053635801640725812
    code = "from rankbound.texts import derive_seed; print(derive_seed('folds', 'movielens', 0))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == derive_seed("folds", "movielens", 0)


def test_seeds_differ_wherever_their_parts_do() -> None:
    parts = [(), ("a",), ("a", "b"), ("ab",), ("a", 1), ("a", "1"), ("a", None), ("a,b",), (1, 12), (11, 2), (1.5,)]
    seeds = [derive_seed(*some) for some in parts]
    assert len(set(seeds)) == len(parts)
    assert all(0 <= seed < 2**63 for seed in seeds)
    np.random.default_rng(seeds[0])


def test_options_stand_over_the_defaults() -> None:
    assert read_options("{}", DEFAULTS) == DEFAULTS
    assert read_options('{"share": 1, "nsr": 3}', DEFAULTS) == {**DEFAULTS, "share": 1, "nsr": 3}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{nsr: 1}", r"--options is not valid JSON \(.*\): \{nsr: 1\}"),
        *((text, "--options is not valid JSON") for text in ("[" * 100_000, '{"a": NaN}', f'{{"a": {"9" * 5000}}}')),
        ("[1]", r"should be a JSON object such as \{.*\}, found \[1\]"),
        ('{"NSR": 1}', "unknown key 'NSR'; known are flag, name, nsr, share"),
        ('{"nsr": 1.5}', "'nsr' is 1.5, expected a value like 1"),
        ('{"nsr": true}', "'nsr' is true, expected a value like 1"),
        ('{"share": "0.1"}', "'share' is \"0.1\", expected a value like 0.1"),
        ('{"name": null}', "'name' is null, expected a value like 'x'"),
    ],
)
def test_other_options_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_options(text, DEFAULTS)
