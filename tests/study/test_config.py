"""Checking the configuration: every mistake is named with its key, its line and what is allowed."""

import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from rankbound.bounds.base import bound
from rankbound.errors import ConfigError
from rankbound_study.config.check import check_config, editor_schema, merged, refuse_code
from rankbound_study.config.estimate import OTHER_LISTS, estimated, sizes_of
from rankbound_study.config.sections.base import Keys
from rankbound_study.config.sections.configuration import Configuration
from rankbound_study.config.sections.description import DescriptionKeys
from rankbound_study.config.study import Study
from rankbound_study.data.contracts import CONTRACTS
from rankbound_study.figures import figure_specs
from rankbound_study.report.tables import table_names

ROOT = Path(__file__).resolve().parents[2]
DEFAULT, DEMO = ROOT / "config.yaml", ROOT / "profiles/demo/study.yaml"
TEXT = DEFAULT.read_text(encoding="utf-8")
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", DEFAULT]


def message(config: dict[str, Any], *files: Path, flags: tuple[str, ...] = ()) -> str:
    """What the check says: nothing, if the configuration is valid."""
    try:
        check_config(config, files, flags, figures=figure_specs(), tables=table_names())
    except ConfigError as error:
        return str(error)
    return ""


def told_of(old: str, new: str, tmp_path: Path) -> str:
    """What the check says of the default configuration with one text replaced."""
    assert old in TEXT
    file = tmp_path / "config.yaml"
    file.write_text(TEXT.replace(old, new, 1), encoding="utf-8")
    return message(merged([file]), file)


READ = cache(lambda file: merged([file]))


def read(file: Path = DEFAULT) -> dict[str, Any]:
    """A configuration that may be changed."""
    return deepcopy(READ(file))


def changed(place: str, value: Any, config: dict[str, Any] | None = None) -> dict[str, Any]:
    """A configuration, or the default one, with another value at a place such as `training.movielens.epochs`."""
    section: Any = (config := deepcopy(config or read()))
    *path, last = place.split(".")
    for key in path:
        section = section[key]
    section[last] = value
    return config


VALID = yaml.safe_load((ROOT / "tests/reference/valid_studies.yaml").read_text("utf-8"))
CASES = yaml.safe_load((ROOT / "tests/reference/config_problems.yaml").read_text("utf-8"))


@pytest.mark.parametrize(("old", "new"), CASES["right_texts"])
def test_what_may_be_is_valid(old: str, new: str, tmp_path: Path) -> None:
    assert told_of(old, new, tmp_path) == ""
    for text in re.findall(r"distribution\([^)]*\)", new):
        bound(text)  # the library knows it


@pytest.mark.parametrize(("old", "new", "expected"), CASES["wrong_texts"])
def test_wrong_values_are_told_with_what_is_allowed(old: str, new: str, expected: str, tmp_path: Path) -> None:
    found = told_of(old, new, tmp_path)
    assert expected in found
    assert re.search(r"config\.yaml, line \d+: ", found)


@pytest.mark.parametrize(("place", "value", "expected"), CASES["limits"])
def test_numbers_beyond_any_study_are_refused_with_their_limit(place: str, value: Any, expected: str) -> None:
    found = message(changed(place, value, read(DEMO if "synthetic" in place else DEFAULT)))
    assert re.search(rf"{re.escape(place)}\S* is .*: expected .*{expected}|write 1000000000 without quotes", found)


def numbers(schema: Any) -> Iterator[dict[str, Any]]:
    """The parts of a JSON schema that allow a number."""
    if isinstance(schema, dict) and schema.get("type") in ("integer", "number"):
        yield schema
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from numbers(part)


def test_every_number_of_a_configuration_has_limits_and_seeds_and_ratios_those_of_the_results() -> None:
    """Otherwise a study would train everything and fail to write it."""
    found = list(numbers(editor_schema()))
    assert len(found) > 40
    for limits in found:
        assert limits.keys() & {"maximum", "exclusiveMaximum"}, limits
        assert limits.keys() & {"minimum", "exclusiveMinimum"}, limits
    kinds = dict(CONTRACTS["runs"].columns)
    assert (kinds["seed"].bit_width, kinds["nsr_train"].bit_width) == (16, 8)


def test_a_file_that_changes_some_keys_is_told_to_follow_the_default_one(tmp_path: Path) -> None:
    for name, advised in (("mine.yaml", True), ("config.yaml", False)):
        own = tmp_path / name
        own.write_text("study: mine\n", encoding="utf-8")
        advice = f"named after config.yaml, which has all: config.yaml {own}"
        assert (advice in message(merged([own]), own)) == advised


def test_problems_have_the_line_of_their_key_and_their_file(tmp_path: Path) -> None:
    """`factors-more-f16` would be a variant of `factors-more`, or `more-f16` of `factors`."""
    line = TEXT.splitlines().index("  activations:") + 1
    file = tmp_path / "config.yaml"
    text = TEXT.replace("starts, activations,", "starts, factors-more,")
    file.write_text(text.replace("\n  activations:", "\n  factors-more:"))
    expected = f"config.yaml, line {line}: experiments.factors-more begins with the name of another"
    assert expected in message(merged([file]), file)
    mine = tmp_path / "mine.yaml"
    mine.write_text("# mine\nseeds: {honest: [one]}\n", encoding="utf-8")
    assert re.search(r"mine\.yaml, line 2: seeds\.honest\[0\]", message(merged([DEFAULT, mine]), DEFAULT, mine))
    config = read() | {"seeds": {"published": ["one"], "honest": [0]}}
    assert "--config on the command line: seeds.published[0]" in message(config, DEFAULT, flags=("seeds",))


@pytest.mark.parametrize(
    ("content", "expected"), [(None, "does not exist"), ("a: [1", "is not valid YAML"), ("", "holds no keys")]
)
def test_unreadable_files_are_named(content: str | None, expected: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"mine\.yaml {expected}"):
        merged([file])


def test_other_sections_than_those_that_run_are_nobodys_problem() -> None:
    assert message(changed("interactions.movielens.nsr", [1]) | {"experiment": []}) == ""
    missing = "tables lacks table_5_1, from which the document is made: add it"
    assert missing in message(changed("tables", ["table_2_2"]))
    assert message(changed("tables", ["table_5_1"])) == ""


@pytest.mark.parametrize("apart", [False, True])
def test_generated_and_real_data_do_not_share_a_table(apart: bool) -> None:
    config = changed("lists.synthetic-mq2008", {"size": 40, "seed": 0, "thresholds": [1]})
    comparisons = config["comparisons"]
    if apart:
        comparisons["more"] = {**deepcopy(comparisons["web-queries"]), "datasets": ["synthetic-mq2008-label1"]}
        config["compare"] = [*config["compare"], "more"]
    else:
        comparisons["web-queries"]["datasets"] = ["mq2008-label1", "synthetic-mq2008-label1"]
    assert "'synthetic-mq2008-label1' beside 'mq2008-label1': a table shows generated" in message(config)
    # Comparisons that do not run are in no table.
    assert message(config | {"compare": []}) == ""


# The default configuration, and the schema


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


def test_the_default_configuration_shows_describes_and_comments_every_key() -> None:
    for section, shown in shown_keys(Configuration.model_validate(read())).items():
        assert all(field.description for field in section.model_fields.values()), section
        # An experiment changes some of what it may change.
        if section.__name__ not in ("VariantKeys", "ExperimentKeys"):
            assert set(section.model_fields) - shown == set(CASES["hidden"].get(section.__name__, [])), section
    # Lines that share the comment of the block above them, or name an entry.
    shared = (
        "datasets, losses, boundings, folds, seeds, crossed, tables, method, samples, seed, movielens, mq2008, model, "
        "methods, learning_rate, epochs, batch_size, data, archive, threshold, aaf, validation_share, test_share, "
        "judged_by, settings, family, loss, target, feature_counts, variants"
    )
    lines = TEXT.splitlines()
    for above, line in zip(["", *lines], lines, strict=False):
        if re.match(r" *[a-z_]+:", line) and "#" not in line and not above.strip().startswith("#"):
            assert re.search(rf"\b{line.split(':')[0].strip()}\b", shared), line


def test_shipped_configurations_fit_the_schema_which_requires_no_key(told: Callable[..., str]) -> None:
    validator = Draft202012Validator(json.loads(told("check-config", "--schema")))
    for files in ([DEFAULT], [DEMO], [DEFAULT, ROOT / "profiles/mslr/study.yaml"]):
        assert message(merged(files), *files) == ""
        validator.validate(merged(files[-1:]))
    for wrong in (
        {"boundings": ["minmax"]},
        {"lossses": []},
        {"lists": {"mine": {"thresholds": ["garded"]}}},
        *({"interactions": {"mine": {"sampling": [one]}}} for one in ("popular", {"more": "full"})),
        *({"interactions": {"mine": {"nsr": [one]}}} for one in (-1, 101, [1], [0, 1], [1, 1])),
        *({"distributions": {"method": one}} for one in ("exct", {"published": "exct"}, {"publshed": "exact"})),
    ):
        assert not validator.is_valid(wrong), wrong


# What a study takes


@pytest.mark.parametrize(("file", "place", "value", "expected"), VALID["estimates"])
def test_what_a_study_takes_is_estimated(file: str, place: str, value: Any, expected: str) -> None:
    study = Study(changed(place, value, read(ROOT / file)))
    assert expected in str(estimated(study, study.jobs))


def test_an_estimate_is_near_what_was_measured_and_says_what_catalogues_take() -> None:
    study = Study(read())
    for method, measured in VALID["measured"].items():
        found = estimated(study, [job for job in study.compared if job.model == method])
        ratios = [found.seconds / measured[0], found.gigabytes / measured[1]]
        assert 1 / 2 < min(ratios) <= max(ratios) < 2, method

    # Whole catalogues take longer.
    def seconds(**keys: Any) -> float:
        config = read() | {"compare": [], "experiment": [], "datasets": ["movielens"]}
        usual = {key: value for key, value in config["interactions"]["movielens"].items() if key != "nsr"}
        study = Study(config | {"interactions": {"movielens": usual | keys}})
        return estimated(study, study.runs).seconds

    assert seconds(sampling=["full"]) > 10 * seconds(nsr=[1])


def test_the_memory_of_a_conversion_of_ratings_follows_their_bytes(tmp_path: Path) -> None:
    """That of 25 million takes 2.3 GB."""
    path = tmp_path / "ratings.dat"
    with path.open("wb") as file:
        file.truncate(25 * 25_000_000)
    config = read() | {"compare": [], "experiment": [], "datasets": ["mine"]}
    mine = {**config["interactions"]["movielens"], "source": {**RATED, "path": str(path)}}
    config["interactions"]["mine"] = {key: value for key, value in mine.items() if key != "archive"}
    config["training"]["mine"] = config["training"]["movielens"]
    study = Study(config)
    found = estimated(study, study.runs)
    assert found.largest == "the conversion of mine"
    assert found.gigabytes == pytest.approx(2.3, abs=0.3)
    assert sizes_of(study, "mine").rows == 25_000_000


def queries(count: int) -> str:
    return "".join(f"{row % 3} qid:{10_000 + row // 8} 1:{row % 7} 2:0.25 3:1\n" for row in range(8 * count))


RATED = {"format": "ratings", "separator": "::", "header": False, "columns": {"topic": "2", "item": "1", "rating": "3"}}
LETOR = {"format": "letor", "random_parts": 5}
PATTERN = {"count": 2, "train": ["train{fold}"], "test": ["test{fold}"]}
OWN_FILES: dict[str, tuple[dict[str, str], dict[str, Any], int]] = {
    "queries of a short file": ({"x": queries(300)}, LETOR, 300),
    "those of a long one, by its beginning": ({"x": queries(12_000)}, LETOR, 12_000),
    "those that files of folds repeat": (
        {f"{split}{fold}": queries(100) for split in ("train", "test") for fold in (1, 2)},
        {"format": "letor", "fold_pattern": PATTERN},
        200,
    ),
    "rows of a table": ({"x": "q,d,y\n" + "1,2,3\n" * 3_999}, {"format": "table", "random_parts": 5}, 200),
    "ratings": ({"x": f"{'1::2::3::978300760':<24}\n" * 4_000}, RATED, 40),
    "nothing": ({"x": "\n"}, LETOR, OTHER_LISTS),
    "a packed file": ({"x.gz": ""}, LETOR, OTHER_LISTS),
    "stated sizes": ({"x.gz": ""}, {**LETOR, "sizes": {"topics": 70, "rows": 900}}, 70),
}


@pytest.mark.parametrize("name", OWN_FILES)
def test_topics_of_files_of_one_s_own_are_stated_or_counted_in_their_beginning(tmp_path: Path, name: str) -> None:
    files, keys, expected = OWN_FILES[name]
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    described = DescriptionKeys(**keys, path=str(tmp_path / file if len(files) == 1 else tmp_path))
    for size, topics in ((None, expected), (33, 33)):
        sources, generated = {"mine": SimpleNamespace(size=size)}, ["mine"] if size else []
        study: Any = SimpleNamespace(sources=sources, generated=generated, described=lambda source: described)
        assert sizes_of(study, "mine").topics == pytest.approx(topics, rel=0.02 if topics == 12_000 else 0)


# Code

AT_THE_TOP = '__use_yte__: true\n__definitions__:\n  - open({ran!r}, "w")\n'
MERGED = 'study: {{<<: &code {{__use_yte__: true}}}}\n<<: *code\nmirror: ?open({ran!r}, "w")\n'
ESCAPED = '"\\x5f_use_yte__": true\n"?if open({ran!r}, \'w\')": {{study: demo}}\n'


@pytest.mark.parametrize("text", [AT_THE_TOP, MERGED, ESCAPED, "__definitions__: true", "__variables__: true"])
def test_code_is_refused_with_its_line_and_is_not_run(text: str, tmp_path: Path, told: Callable[..., str]) -> None:
    own, ran = tmp_path / "mine.yaml", tmp_path / "ran"
    refuse_code(own)  # a missing file holds none
    own.write_text(text.format(ran=str(ran)), encoding="utf-8")
    said = told("check-config", DEFAULT, own, status=2)
    key = text.partition(":")[0] if text.endswith("true") else "__use_yte__"
    assert f"{own}, line 1: the key {key} is for Python code" in said
    with pytest.raises(ConfigError, match=r"mine\.yaml, line 1: the key"):
        refuse_code(own)
    assert not ran.exists()


def test_code_is_refused_before_snakemake_reads_the_file() -> None:
    workflow = (ROOT / "workflow" / "rules" / "study.smk").read_text("utf-8")
    assert workflow.index('refuse_code(Path("config.yaml"))') < workflow.index('configfile: "config.yaml"')


def test_make_and_every_printed_command_check_the_configuration_before_snakemake_starts() -> None:
    for target in ("demo", "paper"):
        plan = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        assert 0 < plan.index("rankbound_study check-config") < plan.index("bin/snakemake")
    commands = 0
    for page in PAGES:
        text = page.read_text("utf-8")
        for command in re.finditer(r"snakemake [^`\n]*--(configfile|workflow-profile) (\S+\.yaml|profiles/mslr)", text):
            commands += 1
            assert re.search(rf"check-config config\.yaml {command[2]}", text[: command.start()]), (page, command[0])
    assert commands >= 4
