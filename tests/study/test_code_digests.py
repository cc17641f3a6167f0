"""Digests of the code that a step runs, and modules that register themselves: a change reaches exactly what runs it."""

import argparse
import ast
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import grimp
import pytest
import yaml

from rankbound import losses, metrics
from rankbound.bounds.base import kinds as bounds
from rankbound.errors import ConfigError
from rankbound_study import cli
from rankbound_study.config.code_digests import LIBRARY, ONLY_WITH, STUDY, CodeDigests
from rankbound_study.config.sections.base import SOURCES, defined_names
from rankbound_study.config.sections.description import FACES, LISTS, RATINGS
from rankbound_study.config.sections.training import BoostedTreeKeys, PenalisedKeys, RandomForestKeys, RankerKeys

AP = '{"bounding": "distribution", "loss": "AP", "model": {"name": "mlp"}}'
TREES = '{"loss": "LambdaRank", "model": {"name": "boosted-trees"}}'
WARP = '{"bounding": "none", "loss": "WARP(alpha=constant)@1"}'
JOBS = ("job", "job of AP", "job of WARP", "job of trees", "job of a new loss")
STEPS = ("convert", "split", "sample", "distributions", "job", "controls", "collect", "claims", "theorems", "document")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of both packages' code, which tests change and restore."""
    folder = tmp_path_factory.mktemp("src")
    for name in (LIBRARY, STUDY):
        for file in (SOURCES / name).rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                copy = folder / file.relative_to(SOURCES)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(file.read_bytes())
    return folder


DIGESTS = f"""
import json, sys
from rankbound_study.config.code_digests import CodeDigests

for _ in sys.stdin:
    codes = CodeDigests()
    found = {{step: codes.of_step(step) for step in {STEPS}}}
    found |= {{"job of AP": codes.of_step("job", {AP!r}), "job of WARP": codes.of_step("job", {WARP!r})}}
    found["convert of LETOR"] = codes.of_step("convert", "letor")
    found["job of trees"] = codes.of_step("job", {TREES!r})
    found["job of a new loss"] = codes.of_step("job", "new")
    found["figure_3_5"] = codes.of_step("figure", modules=["rankbound_study.figures.formulas"])
    for name in ("table_5_1", "protocols", "sources"):
        found["table " + name] = codes.of_step("table", modules=["rankbound_study.report.tables." + name])
    print(json.dumps(found), flush=True)
"""


@pytest.fixture(scope="module")
def digests(sources: Path) -> Iterator[Callable[[], dict[str, str]]]:
    """Compute those of the copy as it is, in one interpreter that finds the packages there."""
    environment = {**os.environ, "PYTHONPATH": str(sources)}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", DIGESTS], env=environment, **pipes) as process:

        def compute() -> dict[str, str]:
            process.stdin.write("\n")
            process.stdin.flush()
            found: dict[str, str] = json.loads(process.stdout.readline())
            return found

        yield compute


@pytest.fixture(scope="module")
def differing(digests: Callable[[], dict[str, str]]) -> Callable[[], set[str]]:
    """The steps whose digests differ from those of the unchanged copy."""
    before = digests()
    return lambda: {name for name, digest in digests().items() if digest != before[name]}


CHANGES = yaml.safe_load((Path(__file__).parents[1] / "reference/code_digests.yaml").read_text("utf-8"))["changes"]


@pytest.mark.parametrize(("file", "old", "new", "expected"), CHANGES)
def test_an_edit_changes_the_steps_that_run_it(
    sources: Path, differing: Callable[[], set[str]], file: str, old: str, new: str, expected: list[str]
) -> None:
    path = sources / file
    before = path.read_text("utf-8") if path.exists() else None
    try:
        if before is None:
            path.write_text('NEW = {}\nclass New:\n    name = "new"\n', "utf-8")
        else:
            assert old in before
            path.write_text(before.replace(old, new, 1) if old else f"{before}CHANGED = True\n", "utf-8")
        assert differing() == {*expected} - {"jobs"} | ({*JOBS} if "jobs" in expected else set())
    finally:
        path.unlink() if before is None else path.write_text(before, "utf-8")


def test_imports_for_certain_options_are_in_functions_and_know_all_their_names() -> None:
    graph = grimp.build_graph(LIBRARY, STUDY, cache_dir=None)
    for importer, imported in ONLY_WITH:
        (details,) = graph.get_import_details(importer=importer, imported=imported)
        assert details["line_contents"] in inspect.getsource(import_module(importer))
        source = ast.parse(inspect.getsource(import_module(importer)))
        assert details["line_number"] not in [node.lineno for node in source.body], (importer, imported)
    models = (BoostedTreeKeys, RandomForestKeys, PenalisedKeys, RankerKeys)
    names = tuple(name for model in models for name in get_args(model.model_fields["name"].annotation))
    assert ONLY_WITH[f"{STUDY}.jobs.train_job", f"{STUDY}.jobs.fit_by_steps"] == names
    formats = {"judged_files": LISTS, "ratings": (RATINGS,), "faces": (FACES,)}
    for module, names in formats.items():
        assert ONLY_WITH[f"{STUDY}.commands.data", f"{STUDY}.data.{module}"] == names


@pytest.mark.parametrize(
    ("package", "kinds"), [("metrics", metrics.KINDS), ("losses", losses.KINDS), ("bounds", bounds())]
)
def test_the_names_in_sources_are_those_of_the_registry(package: str, kinds: Collection[str]) -> None:
    assert set(defined_names(f"{LIBRARY}.{package}")) - {"nRBP"} == set(kinds)


def test_trainings_that_differ_in_numbers_alone_share_one_search(monkeypatch: pytest.MonkeyPatch) -> None:
    codes, searched = CodeDigests(), list[frozenset[str]]()

    def search(step: str, words: frozenset[str], modules: tuple[str, ...]) -> list[str]:
        searched.append(words)
        return CodeDigests._modules(codes, step, words, modules)

    monkeypatch.setattr(codes, "_modules", search, raising=False)
    rates = [AP.replace("}", f', "learning_rate": {rate}}}') for rate in (0.1, 0.2)]
    assert len({codes.of_step("job", options) for options in [AP, *rates, AP]}) == 1
    assert len(searched) == 1
    assert codes.of_step("job", WARP) != codes.of_step("job", AP)


@pytest.mark.parametrize("options", [AP, WARP, TREES, '{"model": "cnn", "note": "letor of metric@3"}'])
def test_only_some_words_of_options_decide(options: str) -> None:
    codes = CodeDigests()
    every_word = frozenset(re.findall(r"[A-Za-z][\w-]*", options))
    reached = {name.partition(":")[0] for name in codes._modules("job", every_word, ())}
    assert codes.modules_of("job", options) == sorted(reached)


def test_the_steps_are_listed_without_heavy_imports() -> None:
    """`python -m rankbound_study --help` imports the table; functions are imported when they run."""
    script = "import sys\nfrom rankbound_study.cli import own_parser\nown_parser()\nprint(*sys.modules, sep='\\n')"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    heavy = {"torch", "numpy", "polars", "pyarrow", "matplotlib", "scipy", "snakemake", "yaml", "pydantic", "grimp"}
    assert heavy.isdisjoint(result.stdout.split())


def test_every_step_names_a_function_that_takes_its_flags_and_no_other_is_known() -> None:
    codes = CodeDigests()
    for step in cli.STEPS.values():
        assert f"{STUDY}.{step.function.partition(':')[0]}" in codes.modules_of(step.name)
        parser = argparse.ArgumentParser()
        step.configure(parser)
        flags = {action.dest for action in parser._actions} - {"help"} | ({"name"} if step.named else set())
        inspect.signature(cli.loaded(step.function)).bind(**dict.fromkeys(flags))
    with pytest.raises(ConfigError, match=r"drow is no step of rankbound_study/steps.toml"):
        codes.of_step("drow")
