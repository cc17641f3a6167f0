"""Checking the configuration: every mistake is named with its key, its line and what is allowed."""

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from rankbound.bounds.base import bound
from rankbound.errors import ConfigError
from rankbound_study.cli import main
from rankbound_study.config.check import check_config
from rankbound_study.config.lines import merged
from rankbound_study.config.sections.base import Keys
from rankbound_study.config.sections.comparison import TrainingKeys
from rankbound_study.config.sections.configuration import Configuration
from rankbound_study.config.sections.data import ImageKeys, InteractionKeys, ListKeys
from rankbound_study.config.sections.experiment import ExperimentKeys, ModelOptions, VariantKeys
from rankbound_study.config.sections.training import (
    BoostedTreeKeys,
    ConvolutionKeys,
    MatrixFactorizationKeys,
    NetworkKeys,
    RandomForestKeys,
)
from rankbound_study.figures import figure_specs
from rankbound_study.report.tables import table_names

ROOT = Path(__file__).resolve().parents[2]
DEFAULT = ROOT / "config.yaml"
SYNTHETIC_ONLY = {ListKeys: {"size", "seed"}, InteractionKeys: {"size", "planted"}, ImageKeys: {"size"}}
OTHERS_ONLY = {"source", "leaderboard"}
OTHER_DEFAULTS = {
    BoostedTreeKeys: {"lambdarank_norm"},
    ConvolutionKeys: {"side", "channels", "kernel", "hidden"},
    MatrixFactorizationKeys: {"spread", "bias"},
    NetworkKeys: {"activation"},
    RandomForestKeys: {"row_share"},
    TrainingKeys: {"scale"},
}
"""Keys that the default configuration does not show."""

SEEDS = "seeds: {published: [0], honest: [0, 1, 2, 3, 4]}"
METHOD = "method: {published: sampled, honest: exact}"


def problems(text: str, tmp_path: Path) -> str:
    """The message about a configuration that is not valid."""
    file = tmp_path / "config.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        check_config(merged([file]), [file], figures=figure_specs(), tables=table_names())
    return str(caught.value)


def valid(text: str, tmp_path: Path) -> str:
    """Check a configuration that is valid; return no message."""
    file = tmp_path / "config.yaml"
    file.write_text(text, encoding="utf-8")
    check_config(merged([file]), [file], figures=figure_specs(), tables=table_names())
    return ""


def default(old: str = "", new: str = "") -> str:
    """The default configuration with one text replaced."""
    text = DEFAULT.read_text(encoding="utf-8")
    assert old in text
    return text.replace(old, new, 1)


def line_of(text: str, fragment: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if fragment in line)


@pytest.mark.parametrize("file", ["config.yaml", "profiles/demo/study.yaml"])
def test_shipped_configurations_are_valid(file: str) -> None:
    check_config(merged([ROOT / file]), [ROOT / file])


def test_an_unknown_key_is_named_with_its_line_and_the_nearest_key(tmp_path: Path) -> None:
    text = default("\ntemperature: 1.0", "\ntemprature: 1.0")
    message = problems(text, tmp_path)
    line = line_of(text, "temprature")
    assert f"config.yaml, line {line}: unknown key temprature: did you mean temperature?" in message
    assert "the key temperature is missing" in message


def test_a_file_that_changes_some_keys_is_told_to_follow_the_default_one(tmp_path: Path) -> None:
    own = tmp_path / "mine.yaml"
    own.write_text("study: mine\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=f"named after config.yaml, which has all: config.yaml {own}"):
        check_config(merged([own]), [own])
    renamed = tmp_path / "config.yaml"
    renamed.write_text("study: mine\n", encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        check_config(merged([renamed]), [renamed])
    assert "named after" not in str(raised.value)


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
    file.write_text(
        default("boundings: [none, min-max,", f'boundings: [none, "{bounding}", min-max,'), encoding="utf-8"
    )
    check_config(merged([file]), [file])
    bound(bounding)  # the library knows it


@pytest.mark.parametrize(
    "bounding", ["distribution(tilt=0)", "distribution(gain=1)", "min-max(gain=sd)", "distributon"]
)
def test_other_boundings_are_named_with_what_is_allowed(tmp_path: Path, bounding: str) -> None:
    message = problems(default("boundings: [none, min-max,", f'boundings: [none, "{bounding}", min-max,'), tmp_path)
    assert f'boundings[1] is "{bounding}": expected one of none, min-max, expectation,' in message
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
        ("folds: [1, 2, 3, 4, 5]", "folds: [6]", "folds has 6, but mq2008 has 5"),
        ("folds: [1, 2, 3, 4, 5]", "folds: []", "folds is []: expected at least one value"),
        ("folds: [1, 2, 3, 4, 5]", "folds: [1, 1]", "a value occurs twice"),
        (SEEDS, "seeds: 0", "seeds is 0: expected a section"),
        (SEEDS, "seeds: {published: 0, honest: [0]}", "seeds.published is 0: expected a list"),
        (SEEDS, "seeds: {honest: [0]}", "seeds has no list for the protocol published (it has honest)"),
        ("f16: {model: {factors", "f16: {model: {hidden", "experiments.factors.variants.f16.model.hidden"),
        ("f16: {model: {factors: 16}}", "f16: {model: {activation: tanh}}", "is not an option of matrix-factorization"),
        ("datasets: [movielens-nsr2]", "datasets: [movielens-nsr4]", "did you mean movielens-nsr"),
        (METHOD, "method: exct", 'distributions.method is "exct": expected exact, sampled, or one for each'),
        (METHOD, "method: {published: sampled}", "has no method for the protocol honest: add it"),
        (METHOD, "method: {publshed: sampled}", 'has "publshed": expected the protocols published and'),
        ("  datasets: {}", "  datasets: {movielns: sampled}", "under interactions or lists: did you mean movielens?"),
        ("  datasets: {}", "  datasets: {mq2008: drawn}", "expected one of exact, sampled"),
        ("nsr: [1, 2, 3]", "nsr: [-1]", "movielens.nsr[0] is -1: expected a whole number of at most 100"),
        ("nsr: [1, 2, 3]", "nsr: [[2, 1]]", "expected at least two different ratios in ascending order"),
        ("nsr: [1, 2, 3]", "nsr: [[0, 1]]", "of which each user has one"),
        ("nsr: [1, 2, 3]", "", "interactions.movielens needs nsr: negatives are drawn (uniform)"),
        ("sampling: [uniform]", "sampling: [full]", "nsr is set, but sampling has full alone"),
        ("sampling: [uniform]", "sampling: [popular]", "expected one of uniform, popularity, full, or one for each"),
        ("sampling: [uniform]", "sampling: [{train: full, test: uniform}]", "none is left to draw for test"),
        ("sampling: [uniform]", "sampling: [{train: full, test: full}]", "write full alone"),
        ("sampling: [uniform]", "sampling: [{test: full}]", "expected one of uniform, popularity, full, or one for"),
        ("\n  movielens:\n    archive", "\n  my-full:\n    archive", "ends like the name of a sampling (-full)"),
        ("{test_nsr: 1}", "{test_nsr: 4}", "is 4, but interactions.movielens.nsr has 1, 2, 3"),
        (
            "w6: {model: {hidden: [6]}}",
            "w6: {test_nsr: 1}",
            "test_nsr is for data sets of ratings only, and mq2008-label1 has judged lists",
        ),
        ("losses: [softmax,", "losses: [sofmax,", "did you mean softmax?"),
        ("r003: {learning_rate: 0.003, test_relevant: 1, judged_by: RR}", "r003: {test_relevant: 1}", "no judged_by"),
        ("    boundings: [none]\n    folds: [1, 2]\n    variants:\n", "    variants:\n", "should be [none]"),
        ("experiment: [factors,", "experiment: [factor,", "did you mean factors?"),
        ("published: 0.001,", "published: 1e-3,", "YAML reads 1e-3 as text: write 0.001 without quotes"),
        (
            "published: 0.001, honest: [0.001, 0.003, 0.01, 0.03, 0.1]}",
            "honest: 0.01}",
            "learning_rate has no rate for the protocol published",
        ),
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
        ("{published: 0.001,", "{publshed: 0.001,", "the key publshed of training.movielens.learning_rate is"),
        ("\n  mq2008:\n    archive", "\n  2008:\n    archive", "the key 2008 of lists is not text: write it in quotes"),
        (
            "controls: [random,",
            "controls: [true,",
            "controls[0] is true: expected one of random, popularity, best-feature, oracle",
        ),
    ],
)
def test_wrong_values_are_told_with_what_is_allowed(old: str, new: str, expected: str, tmp_path: Path) -> None:
    message = problems(default(old, new), tmp_path)
    assert expected in message
    assert re.search(r"config\.yaml, line \d+: ", message)


def test_variants_of_two_experiments_cannot_be_taken_for_each_other(tmp_path: Path) -> None:
    """`factors-more-f16` would be a variant of `factors-more`, or `more-f16` of `factors`."""
    text = default("starts, activations,", "starts, factors-more,").replace("\n  activations:\n", "\n  factors-more:\n")
    message = problems(text, tmp_path)
    assert f"line {line_of(text, '  factors-more:')}: " in message
    assert "experiments.factors-more begins with the name of another experiment, 'factors', and a hyphen" in message


def test_experiments_that_do_not_run_are_nobodys_problem(tmp_path: Path) -> None:
    text = default("nsr: [1, 2, 3]", "nsr: [1]")
    assert "movielens-nsr2', which nothing defines: did you mean movielens-nsr1?" in problems(text, tmp_path)
    assert "(or leave factors out of `experiment`)" in problems(text, tmp_path)
    text = re.sub(r"\nexperiment: \[[^]]*\]", "\nexperiment: []", text)
    config = tmp_path / "other.yaml"
    config.write_text(text, encoding="utf-8")
    check_config(merged([config]), [config])


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    text = default(SEEDS, "seeds: []").replace("study: thesis", "study: 3")
    assert problems(text, tmp_path).startswith("the configuration has 2 problems:")


def test_a_later_file_is_the_one_that_is_named(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("# mine\nseeds: {honest: [one]}\n", encoding="utf-8")
    files = [DEFAULT, mine]
    with pytest.raises(ConfigError, match=r"mine\.yaml, line 2: seeds\.honest\[0\]"):
        check_config(merged(files), files)


def test_a_value_from_the_command_line_is_not_blamed_on_the_file() -> None:
    config = merged([DEFAULT]) | {"seeds": {"published": ["one"], "honest": [0]}}
    with pytest.raises(ConfigError, match=r"--config on the command line: seeds\.published\[0\]"):
        check_config(config, [DEFAULT], flags=["seeds"])


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
    assert "150 training jobs, 4,650 trainings" in capsys.readouterr().out


def test_check_config_fails_with_the_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    mine = tmp_path / "mine.yaml"
    mine.write_text("lossses: [nDCG]\n", encoding="utf-8")
    assert main(["check-config", "config.yaml", str(mine)]) == 2
    assert "unknown key lossses: did you mean losses?" in capsys.readouterr().err


def shown_keys(value: Any) -> dict[type[Keys], set[str]]:
    """The keys that occur in a part of a configuration, by the model of their section."""
    keys: dict[type[Keys], set[str]] = defaultdict(set)
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, Keys):
        keys[type(value)] |= value.model_fields_set
        parts = [getattr(value, key) for key in value.model_fields_set]
    for part in parts:
        for section, names in shown_keys(part).items():
            keys[section] |= names
    return keys


def test_the_default_configuration_shows_every_key() -> None:
    keys = shown_keys(Configuration.model_validate(merged([DEFAULT])))
    for section, shown in keys.items():
        hidden = (
            SYNTHETIC_ONLY.get(section, set())
            | (OTHERS_ONLY & set(section.model_fields))
            | OTHER_DEFAULTS.get(section, set())
        )
        # An experiment changes some of what it may change.
        if section not in (VariantKeys, ExperimentKeys, ModelOptions):
            assert set(section.model_fields) - shown == hidden, section


def test_every_key_is_described() -> None:
    sections = shown_keys(Configuration.model_validate(merged([DEFAULT])))
    for section in sections:
        for name, field in section.model_fields.items():
            assert field.description, f"{section.__name__}.{name} has no description"


def test_the_schema_for_editors_knows_keys_and_values_and_requires_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-config", "--schema"]) == 0
    validator = Draft202012Validator(json.loads(capsys.readouterr().out))
    for file in ("config.yaml", "profiles/demo/study.yaml", "profiles/mslr/study.yaml"):
        validator.validate(merged([ROOT / file]))
    for wrong in ({"boundings": ["minmax"]}, {"lossses": []}, {"lists": {"mine": {"thresholds": ["garded"]}}}):
        assert not validator.is_valid(wrong)


def test_every_section_of_the_default_configuration_is_commented() -> None:
    lines = DEFAULT.read_text(encoding="utf-8").splitlines()
    uncommented = [
        line
        for above, line in zip(["", *lines], lines, strict=False)
        if re.match(r" *[a-z_]+:", line) and "#" not in line and not above.strip().startswith("#")
    ]
    # Lines that share the comment of the block above them, or name an entry.
    shared = ("datasets", "losses", "boundings", "folds", "seeds", "tables", "method", "samples", "seed", "movielens")
    shared += ("mq2008", "model", "learning_rate", "epochs", "batch_size", "data", "archive", "threshold")
    shared += ("aaf", "validation_share", "test_share", "judged_by", "settings", "methods", "family", "loss", "target")
    shared += ("feature_counts", "variants")
    assert [line for line in uncommented if line.split(":")[0].strip() not in shared] == []


def test_the_profile_for_mslr_is_valid_over_the_default() -> None:
    files = [DEFAULT, ROOT / "profiles/mslr/study.yaml"]
    check_config(merged(files), files)


def test_graded_labels_are_a_reading_of_lists(tmp_path: Path) -> None:
    text = default("thresholds: [2, 1]", "thresholds: [2, garded]")
    assert (
        'lists.mq2008.thresholds[1] is "garded": expected the smallest relevant label, 1 to 127, or graded'
        in problems(text, tmp_path)
    )
    message = problems(default("thresholds: [2, 1]", "thresholds: [2, 1, graded]"), tmp_path)
    assert f"line {line_of(text, 'thresholds: [')}: lists.mq2008.thresholds[2] is graded, but boundings has" in message
    assert "distribution, whose tables need binary relevance" in message


@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        ("{model: {name: linear}}", ""),
        ("{model: {name: boosted-trees, rounds: 20, every: 5, leaves: 7}}", ""),
        ("{model: {name: boosted-trees, rounds: 20}}", "model is boosted-trees without every: give it a value"),
        ("{model: {name: boosted-trees, rounds: 20, every: 5}, epochs: 3}", "epochs is for models that are trained by"),
        ("{model: {name: linear, hidden: [6]}}", "hidden is not an option of linear (it has no options)"),
        ("{model: {name: tree}}", "expected one of matrix-factorization, mlp, linear, boosted-trees"),
        (
            "{model: {name: matrix-factorization, factors: 4}}",
            "reads items that recur between topics: mq2008-label1 has",
        ),
    ],
)
def test_a_variant_may_be_another_model(variant: str, expected: str, tmp_path: Path) -> None:
    text = default("w6: {model: {hidden: [6]}}", f"w6: {variant}")
    assert expected in (problems(text, tmp_path) if expected else valid(text, tmp_path))


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ("{judged_by: AP, baseline: random, margin: 0.02}", ""),
        ("{baseline: best-feature}", "leaderboard.baseline is 'best-feature', which controls does not have"),
        ("{judged_by: nDCG@3}", "expected one of nDCG, AP, nRBP(p=0.95)"),
        ("{margin: 0}", "leaderboard.margin is 0: expected more than 0"),
    ],
)
def test_settings_of_the_leaderboard(section: str, expected: str, tmp_path: Path) -> None:
    text = default(SEEDS, f"{SEEDS}\nleaderboard: {section}")
    assert expected in (problems(text, tmp_path) if expected else valid(text, tmp_path))


@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        ("{list_weights: min-max}", ""),
        ("{list_weights: permuted(pairs^-1)}", ""),
        ("{list_weights: items^0.5}", ""),
        ("{list_weights: distribution}", 'list_weights is "distribution": expected an affine bounding (min-max'),
        ("{list_weights: pairs}", "expected an affine bounding"),
        ("{list_weights: permuted(permuted(min-max))}", "expected an affine bounding"),
        (
            "{list_weights: pairs^-1, model: {name: boosted-trees, rounds: 20, every: 5}}",
            "list_weights is for models that are trained by epochs",
        ),
    ],
)
def test_list_weights_are_a_bounding_or_a_power(variant: str, expected: str, tmp_path: Path) -> None:
    text = default("w6: {model: {hidden: [6]}}", f"w6: {variant}")
    assert expected in (problems(text, tmp_path) if expected else valid(text, tmp_path))


def test_only_losses_of_metrics_have_the_weights_of_a_bounding(tmp_path: Path) -> None:
    old = "variants: {p10: {judged_by: P@10}}"
    assert not valid(default(old, "variants: {p10: {judged_by: P@10, list_weights: pairs^-1}}"), tmp_path)
    message = problems(default(old, "variants: {p10: {judged_by: P@10, list_weights: permuted(min-max)}}"), tmp_path)
    assert "warp.variants.p10.list_weights is permuted(min-max), which bounds a metric, and 'WARP(alpha=" in message
    assert "is none: use a power, such as pairs^-1" in message
