"""Checking the configuration: every mistake is named with its key, its line and what is allowed."""

import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from rankbound.bounds.base import bound
from rankbound.errors import ConfigError
from rankbound_study.cli import main
from rankbound_study.config.check import check_config, editor_schema
from rankbound_study.config.estimate import estimated, uncounted
from rankbound_study.config.lines import KeyPath, merged, refuse_code
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
from rankbound_study.config.study import Study
from rankbound_study.data.contracts import CONTRACTS
from rankbound_study.figures import figure_specs
from rankbound_study.report.tables import table_names

ROOT = Path(__file__).resolve().parents[2]
DEFAULT = ROOT / "config.yaml"
TEXT = DEFAULT.read_text(encoding="utf-8")
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", DEFAULT]
HIDDEN = {
    ListKeys: {"size", "seed", "source"},
    InteractionKeys: {"size", "planted", "source"},
    ImageKeys: {"size", "source"},
    Configuration: {"leaderboard"},
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
MSLR = "profiles/mslr/study.yaml"
NO_OTHERS: dict[str, Any] = {"compare": [], "experiment": []}


def told(old: str, new: str, tmp_path: Path) -> str:
    """What the check says of the default configuration with one text replaced: nothing, if it is valid."""
    assert old in TEXT
    file = tmp_path / "config.yaml"
    file.write_text(TEXT.replace(old, new, 1), encoding="utf-8")
    try:
        check_config(merged([file]), [file], figures=figure_specs(), tables=table_names())
    except ConfigError as error:
        return str(error)
    return ""


def changed(path: KeyPath, value: Any, file: str = "config.yaml") -> dict[str, Any]:
    config: dict[str, Any] = merged([ROOT / file])
    section: Any = config
    for key in path[:-1]:
        section = section[key]
    section[path[-1]] = value
    return config


OLD_BOUNDING, BOUNDING = "boundings: [none, min-max,", 'boundings: [none, "{}", min-max,'
VARIANT = "w6: {model: {hidden: [6]}}"
WARP = "variants: {p10: {judged_by: P@10}}"
TREES = "{name: boosted-trees, rounds: 20, every: 5"
VALID = [
    *((OLD_BOUNDING, BOUNDING.format(one)) for one in ("distribution(gain=sd)", "distribution(gain=drawn,tilt=0.5)")),
    (VARIANT, "w6: {model: {name: linear}}"),
    (VARIANT, f"w6: {{model: {TREES}, leaves: 7}}}}"),
    *((VARIANT, f"w6: {{list_weights: {one}}}") for one in ("min-max", "permuted(pairs^-1)", "items^0.5")),
    (WARP, "variants: {p10: {judged_by: P@10, list_weights: pairs^-1}}"),
    (SEEDS, f"{SEEDS}\nleaderboard: {{judged_by: AP, baseline: random, margin: 0.02}}"),
]
WRONG = [
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
    ("\ntemperature: 1.0", "\ntemprature: 1.0", "unknown key temprature: did you mean temperature?"),
    ("\ntemperature: 1.0", "\ntemprature: 1.0", "the key temperature is missing (Temperature of the sigmoid"),
    ("- figure_5_10\n", "- figure_5_11\n", 'figures[17] is "figure_5_11": expected one of figure_1_1, '),
    ("min_relevant: 25", "minrelevant: 25", "unknown key interactions.movielens.minrelevant: did you mean min_rel"),
    *(
        (OLD_BOUNDING, BOUNDING.format(one), f'boundings[1] is "{one}": expected one of none, min-max, expec')
        for one in ("distribution(tilt=0)", "distribution(gain=1)", "min-max(gain=sd)", "distributon")
    ),
    (VARIANT, f"w6: {{model: {TREES[:-10]}}}}}", "model is boosted-trees without every: give it a value"),
    (VARIANT, f"w6: {{model: {TREES}}}, epochs: 3}}", "epochs is for models that are trained by"),
    (VARIANT, f"w6: {{model: {TREES}}}, list_weights: pairs^-1}}", "list_weights is for models that are trained"),
    (VARIANT, "w6: {model: {name: linear, hidden: [6]}}", "hidden is not an option of linear (it has no options)"),
    (VARIANT, "w6: {model: {name: tree}}", "expected one of matrix-factorization, mlp, linear, boosted-trees"),
    (
        VARIANT,
        "w6: {model: {name: matrix-factorization, factors: 4}}",
        "reads items that recur between topics",
    ),
    (VARIANT, "w6: {list_weights: distribution}", 'list_weights is "distribution": expected an affine bounding'),
    (VARIANT, "w6: {list_weights: pairs}", "expected an affine bounding"),
    (VARIANT, "w6: {list_weights: permuted(permuted(min-max))}", "expected an affine bounding"),
    (
        WARP,
        "variants: {p10: {judged_by: P@10, list_weights: min-max}}",
        "is min-max, which bounds a metric",
    ),
    (SEEDS, f"{SEEDS}\nleaderboard: {{baseline: best-feature}}", "is 'best-feature', which controls does not have"),
    (SEEDS, f"{SEEDS}\nleaderboard: {{judged_by: nDCG@3}}", "expected one of nDCG, AP, nRBP(p=0.95)"),
    (SEEDS, f"{SEEDS}\nleaderboard: {{margin: 0}}", "leaderboard.margin is 0: expected more than 0"),
    (
        "thresholds: [2, 1]",
        "thresholds: [2, garded]",
        'is "garded": expected the smallest relevant label',
    ),
    ("thresholds: [2, 1]", "thresholds: [2, graded]", "thresholds[1] is graded, but boundings has distribution"),
    (
        "nsr: [1, 2, 3]",
        "nsr: [1]",
        "did you mean movielens-nsr1? (or leave factors out of",
    ),
]


@pytest.mark.parametrize(("old", "new"), VALID)
def test_what_may_be_is_valid(old: str, new: str, tmp_path: Path) -> None:
    assert told(old, new, tmp_path) == ""
    for text in re.findall(r"distribution\([^)]*\)", new):
        bound(text)  # the library knows it


@pytest.mark.parametrize(("old", "new", "expected"), WRONG)
def test_wrong_values_are_told_with_what_is_allowed(old: str, new: str, expected: str, tmp_path: Path) -> None:
    message = told(old, new, tmp_path)
    assert expected in message
    assert re.search(r"config\.yaml, line \d+: ", message)


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


def test_a_problem_has_the_line_of_its_key(tmp_path: Path) -> None:
    """`factors-more-f16` would be a variant of `factors-more`, or `more-f16` of `factors`."""
    line = TEXT.splitlines().index("  activations:") + 1
    file = tmp_path / "config.yaml"
    file.write_text(
        TEXT.replace("starts, activations,", "starts, factors-more,").replace("\n  activations:", "\n  factors-more:")
    )
    with pytest.raises(ConfigError) as caught:
        check_config(merged([file]), [file])
    assert f"config.yaml, line {line}: experiments.factors-more begins with the name of another" in str(caught.value)


def test_experiments_that_do_not_run_are_nobodys_problem() -> None:
    check_config(changed(("interactions", "movielens", "nsr"), [1]) | {"experiment": []})


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    message = told("study: thesis", "study: 3\ntemprature: 1", tmp_path)
    assert message.startswith("the configuration has 2 problems:")


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


def test_the_default_configuration_shows_every_key_and_every_key_is_described() -> None:
    for section, shown in shown_keys(Configuration.model_validate(merged([DEFAULT]))).items():
        assert all(field.description for field in section.model_fields.values()), section
        # An experiment changes some of what it may change.
        if section not in (VariantKeys, ExperimentKeys, ModelOptions):
            assert set(section.model_fields) - shown == HIDDEN.get(section, set()), section


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


@pytest.mark.parametrize(
    "files", [["config.yaml"], ["profiles/demo/study.yaml"], ["config.yaml", "profiles/mslr/study.yaml"]]
)
def test_shipped_configurations_are_valid(files: list[str]) -> None:
    paths = [ROOT / file for file in files]
    check_config(merged(paths), paths)


# Limits, and what a study takes


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (("training", "movielens", "model", "factors"), 10**9, "at most 10,000"),
        (("training", "mq2008", "model", "hidden"), [10**9], "at most 10,000"),
        (("training", "mq2008", "model", "hidden"), [8] * 21, "at most 20 values"),
        (("training", "movielens", "epochs"), 10**9, "at most 10,000"),
        (("training", "movielens", "epochs"), 1e9, "a whole number"),
        (("training", "movielens", "epochs"), "1e9", "write 1000000000 without quotes"),
        (("training", "movielens", "batch_size"), 2**70, "at most 1,000,000"),
        (("seeds", "honest"), [2**70], "at most 32,767"),
        (("interactions", "movielens", "seed"), 2**70, "at most 2,147,483,647"),
        (("interactions", "movielens", "nsr"), [10**30], "at most 100"),
        (("interactions", "movielens", "nsr"), [1e30], "a whole number"),
        (("interactions", "movielens", "threshold"), 1e30, "at most 1,000,000"),
        (("lists", "mq2008", "thresholds"), [10**9], "the smallest relevant label, 1 to 127, or graded"),
        (("distributions", "samples"), 10**12, "at most 1,000,000"),
        (("temperature",), 1e300, "at most 1,000,000"),
        (("experiments", "factors", "seeds"), [2**15], "at most 32,767"),
        (("comparisons", "web-queries", "seeds"), [2**15], "at most 32,767"),
    ],
)
def test_numbers_beyond_any_study_are_refused_with_their_limit(path: KeyPath, value: Any, expected: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(expected)):
        check_config(changed(path, value))


@pytest.mark.parametrize("size", [40.0, 10**9, "40", 0])
def test_the_size_of_generated_data_is_a_whole_number_within_limits(size: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"lists\.synthetic-mq2008\.size is .*: expected (a whole number|at (most|least))"
    ):
        check_config(changed(("lists", "synthetic-mq2008", "size"), size, "profiles/demo/study.yaml"))


def numbers(schema: Any) -> Iterator[dict[str, Any]]:
    """The parts of a JSON schema that allow a number."""
    if isinstance(schema, list):
        for part in schema:
            yield from numbers(part)
    if isinstance(schema, dict):
        if schema.get("type") in ("integer", "number"):
            yield schema
        for part in schema.values():
            yield from numbers(part)


def test_every_number_of_a_configuration_has_limits() -> None:
    found = list(numbers(editor_schema()))
    assert len(found) > 40
    for limits in found:
        assert limits.keys() & {"maximum", "exclusiveMaximum"}, limits
        assert limits.keys() & {"minimum", "exclusiveMinimum"}, limits


def test_the_limits_of_seeds_and_ratios_are_those_of_the_results() -> None:
    """Otherwise a study would train everything and fail to write it."""
    kinds = dict(CONTRACTS["runs"].columns)
    assert kinds["seed"].bit_width == 16
    assert kinds["nsr_train"].bit_width == 8


@pytest.mark.parametrize(
    ("file", "path", "value", "expected"),
    [
        ("profiles/demo/study.yaml", ("temperature",), 1.0, "some 7 minutes of a processor; the largest step, "),
        ("config.yaml", ("temperature",), 1.0, "some 7 hours of a processor; the largest step, Reg-l1 of aaf, 5.2 GB"),
        ("config.yaml", ("compare",), [], "some 5 hours of a processor; the largest step, "),
        ("config.yaml", ("training", "movielens", "epochs"), 10_000, "some 22 days of a processor"),
        (
            "config.yaml",
            ("training", "mq2008", "model", "hidden"),
            [10_000, 10_000],
            "the largest step, a training of mq2008-label2, 10.6 GB",
        ),
    ],
)
def test_what_a_study_takes_is_estimated(file: str, path: KeyPath, value: Any, expected: str) -> None:
    study = Study.of(changed(path, value, file))
    assert expected in str(estimated(study, study.jobs))


# From the records of the default study: processor seconds and peak memory in GB.
MEASURED = {
    "RankNet-shifted": (683, 1.8),
    "RankNet-of-3000": (87, 1.0),
    "RankNet-of-300": (31, 0.9),
    "Rank-LR-of-3000": (5.8, 0.9),
    "LambdaMART-of-300": (6.2, 1.0),
    "LambdaMART-of-30000": (124, 2.6),
    "Rank-LR-of-46": (23, 0.5),
    "LambdaMART-of-5": (9.2, 0.5),
}


@pytest.mark.parametrize("method", MEASURED)
def test_an_estimate_is_near_what_was_measured(method: str) -> None:
    study = Study.of(merged([ROOT / "config.yaml"]))
    found = estimated(study, [job for job in study.compared if job.model == method])
    seconds, gigabytes = MEASURED[method]
    assert 1 / 2 < found.seconds / seconds < 2
    assert 1 / 2 < found.gigabytes / gigabytes < 2


def test_ratings_of_one_s_own_count_by_their_bytes(tmp_path: Path) -> None:
    """A conversion of 25 million of them takes 2.3 GB."""
    path = tmp_path / "ratings.dat"
    with path.open("wb") as file:
        file.truncate(25 * 25_000_000)
    config = changed(("compare",), [], "config.yaml") | {"datasets": ["mine"], "experiment": []}
    columns = {"topic": "1", "item": "2", "rating": "3"}
    described = {"format": "ratings", "path": str(path), "separator": "::", "header": False, "columns": columns}
    config["interactions"]["mine"] = {**config["interactions"]["movielens"], "source": described}
    del config["interactions"]["mine"]["archive"]
    config["training"]["mine"] = config["training"]["movielens"]
    study = Study.of(config)
    found = estimated(study, study.runs)
    assert found.largest == "the conversion of mine"
    assert found.gigabytes == pytest.approx(2.3, abs=0.3)


def test_what_whole_catalogues_take_is_said_beside_the_estimate() -> None:
    def notes(*sampling: Any, losses: Sequence[str] = ("nDCG", "AP")) -> list[str]:
        config = changed(("interactions", "movielens", "sampling"), list(sampling))
        if sampling == ("full",):
            del config["interactions"]["movielens"]["nsr"]
        return list(uncounted(Study.of(config | {"losses": list(losses), "datasets": ["movielens"], **NO_OTHERS}).runs))

    assert notes("uniform", "popularity") == []
    long_lists, tables = notes("full")
    assert long_lists.startswith("movielens-full: lists of the whole catalogue")
    assert tables.startswith("movielens-full: tables of AP's score distributions")
    assert notes("full", losses=["nDCG"]) == [long_lists]
    assert len(notes({"train": "uniform", "test": "full"})) == 1


def test_the_document_has_its_table() -> None:
    with pytest.raises(ConfigError, match="tables lacks table_5_1, from which the document is made: add it"):
        check_config(changed(("tables",), ["table_2_2"]))
    check_config(changed(("tables",), ["table_5_1"]))


@pytest.mark.parametrize("apart", [False, True])
def test_generated_and_real_data_do_not_share_a_table(apart: bool) -> None:
    config = changed(("lists", "synthetic-mq2008"), {"size": 40, "seed": 0, "thresholds": [1]})
    if apart:
        config["comparisons"]["more"] = deepcopy(config["comparisons"]["web-queries"])
        config["comparisons"]["more"]["datasets"] = ["synthetic-mq2008-label1"]
        config["compare"] = [*config["compare"], "more"]
    else:
        config["comparisons"]["web-queries"]["datasets"] = ["mq2008-label1", "synthetic-mq2008-label1"]
    with pytest.raises(ConfigError, match="'synthetic-mq2008-label1' beside 'mq2008-label1': a table shows generated"):
        check_config(config)
    # Comparisons that do not run are in no table.
    check_config(config | {"compare": []})


# Code


AT_THE_TOP = """\
__use_yte__: true
__definitions__:
  - open({ran!r}, "w")
"""
MERGED = """\
study: {{<<: &code {{__use_yte__: true}}}}
<<: *code
mirror: ?open({ran!r}, "w")
"""
ESCAPED = """\
"\\x5f_use_yte__": true
"?if open({ran!r}, 'w')": {{study: demo}}
"""


@pytest.mark.parametrize("text", [AT_THE_TOP, MERGED, ESCAPED])
def test_code_is_refused_with_its_key_and_line_and_is_not_run(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    own, ran = tmp_path / "mine.yaml", tmp_path / "ran"
    own.write_text(text.format(ran=str(ran)), encoding="utf-8")
    assert main(["check-config", "config.yaml", str(own)]) == 2
    assert f"{own}, line 1: the key __use_yte__ is for Python code" in capsys.readouterr().err
    assert not ran.exists()


@pytest.mark.parametrize("key", ["__use_yte__", "__definitions__", "__variables__"])
def test_every_key_for_code_is_refused(key: str, tmp_path: Path) -> None:
    own = tmp_path / "mine.yaml"
    own.write_text(f"study: demo\n{key}: true\n", encoding="utf-8")
    for read in (refuse_code, lambda file: merged([file])):
        with pytest.raises(ConfigError, match=rf"mine\.yaml, line 2: the key {key} is for Python code"):
            read(own)


def test_a_missing_configuration_holds_no_code(tmp_path: Path) -> None:
    refuse_code(tmp_path / "config.yaml")


def test_the_workflow_refuses_a_config_yaml_with_code_before_snakemake_reads_it() -> None:
    workflow = (ROOT / "workflow" / "rules" / "study.smk").read_text("utf-8")
    assert workflow.index('refuse_code(Path("config.yaml"))') < workflow.index('configfile: "config.yaml"')


@pytest.mark.parametrize("target", ["demo", "paper"])
def test_make_checks_the_configuration_before_it_starts_snakemake(target: str) -> None:
    plan = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert 0 < plan.index("rankbound_study check-config") < plan.index("bin/snakemake")


def test_every_printed_command_with_another_configuration_comes_after_its_check() -> None:
    commands = 0
    for page in PAGES:
        text = page.read_text("utf-8")
        for command in re.finditer(r"snakemake [^`\n]*--(configfile|workflow-profile) (\S+\.yaml|profiles/mslr)", text):
            commands += 1
            assert re.search(rf"check-config config\.yaml {command[2]}", text[: command.start()]), (page, command[0])
    assert commands >= 4
