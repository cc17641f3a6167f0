"""Checking the configuration: every mistake is named with its key, its line and what is allowed."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rankbound.bounds.kinds import bound
from rankbound.errors import ConfigError
from rankbound_study.cli import main
from rankbound_study.config.check import check_config, load_schema
from rankbound_study.config.lines import merged
from rankbound_study.figures import figure_specs

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "workflow/schemas/config.schema.json"
DEFAULT = ROOT / "config.yaml"
SYNTHETIC_ONLY = {
    ("interactions", "*", "size"),
    ("lists", "*", "size"),
    ("lists", "*", "seed"),
    ("images", "*", "size"),
}
OPTIONS_OF_MODELS = {
    ("comparisons", "*", "methods", "*", "model", option) for option in ("side", "channels", "kernel", "row_share")
}


SEEDS = "seeds: {published: [0], honest: [0, 1, 2]}"


def problems(text: str, tmp_path: Path) -> str:
    """The message about a configuration that is not valid."""
    file = tmp_path / "config.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        check_config(merged([file]), SCHEMA, [file], figures=figure_specs())
    return str(caught.value)


def default(old: str = "", new: str = "") -> str:
    """The default configuration with one text replaced."""
    text = DEFAULT.read_text(encoding="utf-8")
    assert old in text
    return text.replace(old, new, 1)


def line_of(text: str, fragment: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if fragment in line)


@pytest.mark.parametrize("file", ["config.yaml", "profiles/demo/study.yaml"])
def test_shipped_configurations_are_valid(file: str) -> None:
    check_config(merged([ROOT / file]), SCHEMA, [ROOT / file])


def test_an_unknown_key_is_named_with_its_line_and_the_nearest_key(tmp_path: Path) -> None:
    text = default("\ntemperature: 1.0", "\ntemprature: 1.0")
    message = problems(text, tmp_path)
    line = line_of(text, "temprature")
    assert f"config.yaml, line {line}: unknown key temprature: did you mean temperature?" in message
    assert "the key temperature is missing" in message


def test_an_unknown_figure_is_named_with_its_line_and_the_nearest_one(tmp_path: Path) -> None:
    text = default("- figure_5_10\n", "- figure_5_11\n")
    message = problems(text, tmp_path)
    assert f'line {line_of(text, "figure_5_11")}: figures[17] is "figure_5_11": expected one of figure_1_1, ' in message
    assert "did you mean figure_5_1" in message


@pytest.mark.parametrize(
    "bounding", ["distribution(gain=sd)", "distribution(tilt=2)", "distribution(gain=drawn,tilt=0.5)"]
)
def test_any_parameters_of_the_distribution_bounding_are_valid(tmp_path: Path, bounding: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(default("bounds: [none, min-max,", f'bounds: [none, "{bounding}", min-max,'), encoding="utf-8")
    check_config(merged([file]), SCHEMA, [file])
    bound(bounding)  # the library knows it


@pytest.mark.parametrize(
    "bounding", ["distribution(tilt=0)", "distribution(gain=1)", "min-max(gain=sd)", "distributon"]
)
def test_other_boundings_are_named_with_what_is_allowed(tmp_path: Path, bounding: str) -> None:
    message = problems(default("bounds: [none, min-max,", f'bounds: [none, "{bounding}", min-max,'), tmp_path)
    assert f'bounds[1] is "{bounding}": expected one of none, min-max, expectation,' in message
    assert "such as distribution(tilt=2)" in message


def test_a_nested_unknown_key_is_named_by_its_whole_path(tmp_path: Path) -> None:
    text = default("min_relevant: 25", "minrelevant: 25")
    message = problems(text, tmp_path)
    assert f"line {line_of(text, 'minrelevant')}: unknown key interactions.movielens.minrelevant" in message
    assert "did you mean min_relevant?" in message


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("losses: [nDCG, AP, nRBP]", "losses: [ndcg]", 'losses[0] is "ndcg": expected one of nDCG, AP, nRBP'),
        ("[none, min-max,", "[none, minmax,", "did you mean min-max?"),
        ("folds: [1, 2, 3, 4, 5]", "folds: [6]", "folds[0] is 6: expected at most 5"),
        ("folds: [1, 2, 3, 4, 5]", "folds: []", "folds is an empty list"),
        ("folds: [1, 2, 3, 4, 5]", "folds: [1, 1]", "a value occurs twice"),
        (SEEDS, "seeds: 0", "seeds is 0: expected a section"),
        (SEEDS, "seeds: {published: 0, honest: [0]}", "seeds.published is 0: expected a list"),
        (SEEDS, "seeds: {honest: [0]}", "seeds has no list for the protocol published (it has honest)"),
        ("f16: {model: {factors", "f16: {model: {hidden", "experiments.factors.variants.f16.model.hidden"),
        ("f16: {model: {factors: 16}}", "f16: {model: {activation: tanh}}", "is not an option of matrix-factorization"),
        ("datasets: [movielens-nsr2]", "datasets: [movielens-nsr4]", "did you mean movielens-nsr"),
        ("{test_nsr: 1}", "{test_nsr: 4}", "is 4, but interactions.movielens.nsr has 1, 2, 3"),
        ("w6: {model: {hidden: [6]}}", "w6: {test_nsr: 1}", "only lists of ratings have a ratio"),
        ("losses: [softmax,", "losses: [sofmax,", "did you mean softmax?"),
        ("r003: {learning_rate: 0.003, test_relevant: 1, judged_by: RR}", "r003: {test_relevant: 1}", "no judged_by"),
        ("    bounds: [none]\n    folds: [1, 2]\n    variants:\n", "    variants:\n", "should be [none]"),
        ("experiment: [factors,", "experiment: [factor,", "did you mean factors?"),
        ("published: 0.001,", "published: 1e-3,", "YAML reads 1e-3 as text: write 0.001 without quotes"),
        ("published: 0.001, honest: 0.01", "honest: 0.01", "learning_rate has no rate for the protocol published"),
        ("temperature: 1.0", "temperature: 0", "temperature is 0: expected more than 0"),
        ("study: thesis", "study: My Study", "expected a name of small letters, digits and hyphens"),
        ("factors: 32", "hidden: [32]", "unknown key training.movielens.model.hidden"),
        ("datasets: [movielens,", "datasets: [movielns,", "did you mean movielens?"),
        ("  mq2008:\n    model", "  mq2007:\n    model", "training has no entry for the data set 'mq2008'"),
        ("    archive: ml-latest-small.zip ", "    # ", "interactions.movielens needs an archive"),
        ("name: mlp, hidden: [46]", "name: matrix-factorization, factors: 8", "judged lists need mlp"),
        (SEEDS, f"{SEEDS}\n{SEEDS}", "the key 'seeds' occurs twice"),
        (SEEDS, "~: [0]", "the key null of the configuration is not text"),
        ("factors: 32", "0x10: 32", "the key 16 of training.movielens.model is not text"),
    ],
)
def test_wrong_values_are_told_with_what_is_allowed(old: str, new: str, expected: str, tmp_path: Path) -> None:
    message = problems(default(old, new), tmp_path)
    assert expected in message
    assert re.search(r"config\.yaml, line \d+: ", message)


def test_experiments_that_do_not_run_are_nobodys_problem(tmp_path: Path) -> None:
    text = default("nsr: [1, 2, 3]", "nsr: [1]")
    assert "movielens-nsr2', which nothing defines: did you mean movielens-nsr1?" in problems(text, tmp_path)
    assert "(or leave factors out of `experiment`)" in problems(text, tmp_path)
    text = re.sub(r"\nexperiment: \[[^]]*\]", "\nexperiment: []", text)
    config = tmp_path / "other.yaml"
    config.write_text(text, encoding="utf-8")
    check_config(merged([config]), SCHEMA, [config])


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    text = default(SEEDS, "seeds: []").replace("study: thesis", "study: 3")
    assert problems(text, tmp_path).startswith("the configuration has 2 problems:")


def test_a_later_file_is_the_one_that_is_named(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("# mine\nseeds: {honest: [one]}\n", encoding="utf-8")
    files = [DEFAULT, mine]
    with pytest.raises(ConfigError, match=r"mine\.yaml, line 2: seeds\.honest\[0\]"):
        check_config(merged(files), SCHEMA, files)


def test_a_value_from_the_command_line_is_not_blamed_on_the_file() -> None:
    config = merged([DEFAULT]) | {"seeds": {"published": ["one"], "honest": [0]}}
    with pytest.raises(ConfigError, match=r"--config on the command line: seeds\.published\[0\]"):
        check_config(config, SCHEMA, [DEFAULT], flags=["seeds"])


@pytest.mark.parametrize(
    ("content", "expected"), [(None, "does not exist"), ("a: [1", "is not valid YAML"), ("", "holds no keys")]
)
def test_unreadable_files_are_named(content: str | None, expected: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"mine\.yaml {expected}"):
        merged([file])


def test_check_config_says_how_much_would_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(["check-config"]) == 0
    assert "150 training jobs, 1500 trainings" in capsys.readouterr().out


def test_check_config_fails_with_the_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    mine = tmp_path / "mine.yaml"
    mine.write_text("lossses: [nDCG]\n", encoding="utf-8")
    assert main(["check-config", "config.yaml", str(mine)]) == 2
    assert "unknown key lossses: did you mean losses?" in capsys.readouterr().err


# The schema and the documented default configuration say the same.


def test_the_default_configuration_has_every_key_of_the_schema_and_no_other() -> None:
    schema = load_schema(SCHEMA)
    keys = set(_schema_keys(schema, schema, ())) - SYNTHETIC_ONLY - OPTIONS_OF_MODELS
    found = set(_config_keys(merged([DEFAULT]), schema))
    # An experiment changes some of what it may change.
    spared = {key for key in keys - found if key[:2] == ("experiments", "*")}
    assert _settings_shared(keys - spared) == _settings_shared(found)


def test_every_key_of_the_schema_is_described() -> None:
    schema = load_schema(SCHEMA)
    for path, description in _descriptions(schema, schema, ()):
        assert description, f"{'.'.join(path)} has no description"


def test_every_section_of_the_default_configuration_is_commented() -> None:
    lines = DEFAULT.read_text(encoding="utf-8").splitlines()
    uncommented = [
        line
        for above, line in zip(["", *lines], lines, strict=False)
        if re.match(r" *[a-z_]+:", line) and "#" not in line and not above.strip().startswith("#")
    ]
    # Lines that share the comment of the block above them, or name an entry.
    shared = ("datasets", "losses", "bounds", "folds", "seeds", "tables", "method", "samples", "seed", "movielens")
    shared += ("mq2008", "model", "learning_rate", "epochs", "batch_size", "data", "archive", "threshold")
    shared += ("aaf", "validation_share", "test_share", "judged_by", "settings", "methods", "family", "loss", "target")
    shared += ("feature_counts", "variants")
    assert [line for line in uncommented if line.split(":")[0].strip() not in shared] == []


def _settings_shared(keys: set[tuple[str, ...]]) -> set[tuple[str, ...]]:
    """A method's settings are those of its comparison: a key is there if either has it."""
    method = ("comparisons", "*", "methods", "*", "settings")
    return {("comparisons", "*", *key[4:]) if key[:5] == method else key for key in keys}


def _descriptions(node: dict[str, Any], schema: dict[str, Any], path: tuple[str, ...]) -> Iterator[tuple[Any, str]]:
    for name, part in _properties(node, schema):
        if part is not True:
            yield (*path, name), part.get("description", "") or (name == "*" and "an entry") or ""
            yield from _descriptions(_resolved(part, schema), schema, (*path, name))


def _schema_keys(node: dict[str, Any], schema: dict[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name, part in _properties(node, schema):
        inner = {} if part is True else _resolved(part, schema)
        if name != "*":
            yield (*path, name)
        yield from _schema_keys(inner, schema, (*path, name))


def _properties(node: dict[str, Any], schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for branch in (node, node.get("then", {}), node.get("else", {})):
        yield from branch.get("properties", {}).items()
    entry = node.get("additionalProperties")
    if isinstance(entry, dict):
        yield "*", entry


def _resolved(part: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in part:
        resolved: dict[str, Any] = schema["$defs"][part["$ref"].removeprefix("#/$defs/")]
        return resolved
    return part


def _config_keys(config: dict[str, Any], schema: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    named = {"interactions", "lists", "images", "training", "comparisons", "experiments"}
    for key, value in config.items():
        yield (key,)
        if key in named:
            for entry in value.values():
                yield from ((key, "*", *rest) for rest in _nested(entry))
        elif isinstance(value, dict):
            yield from ((key, *rest) for rest in _nested(value))


def _nested(section: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for key, value in section.items():
        yield (key,)
        if key in ("methods", "variants"):
            for entry in value.values():
                yield from ((key, "*", *rest) for rest in _nested(entry))
        elif isinstance(value, dict):
            yield from ((key, *rest) for rest in _nested(value))


def test_the_profile_for_mslr_is_valid_over_the_default() -> None:
    files = [DEFAULT, ROOT / "profiles/mslr/study.yaml"]
    check_config(merged(files), SCHEMA, files)


def test_graded_labels_are_a_reading_of_lists(tmp_path: Path) -> None:
    text = default("thresholds: [2, 1]", "thresholds: [2, garded]")
    assert 'lists.mq2008.thresholds[1] is "garded": expected the smallest relevant label, or graded' in problems(
        text, tmp_path
    )
    message = problems(default("thresholds: [2, 1]", "thresholds: [2, 1, graded]"), tmp_path)
    assert f"line {line_of(text, 'thresholds: [')}: lists.mq2008.thresholds[2] is graded, but bounds has" in message
    assert "distribution, whose tables need binary relevance" in message
