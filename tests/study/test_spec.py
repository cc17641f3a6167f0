"""From a configuration to the work that it requests: data, jobs, files, and what each file is made from."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_config import CASES, ROOT, VALID, changed, message, read

from rankbound.errors import ConfigError
from rankbound.losses import loss
from rankbound.training.recipe import CHOICES
from rankbound_study.config.check import check_config, merged
from rankbound_study.config.code_digests import CodeDigests
from rankbound_study.config.job import TrainingJob
from rankbound_study.config.sections.base import loss_names
from rankbound_study.config.sections.configuration import ComparisonKeys
from rankbound_study.config.sections.training import BIASES as KNOWN_BIASES
from rankbound_study.config.study import DistributionFile, Study
from rankbound_study.jobs.fit_by_steps import OPTIONS
from rankbound_study.options import as_json
from rankbound_study.vocabulary import VGG16_FILE
from rankbound_study.workflow.rules import Steps, one_of

CODES = CodeDigests()
RUNS = "<results>/runs"
DISTRIBUTIONS = "<results>/distributions"
Config = dict[str, Any]


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Config:
    """The default configuration, with all comparisons, a folder of its own for data, and an empty mirror."""
    monkeypatch.setenv("RANKBOUND_MIRROR", str(tmp_path))
    found = read()
    folders = {**found["pathvars"], "data": str(tmp_path / "data")}
    return {**found, "compare": list(found["comparisons"]), "pathvars": folders}


@pytest.fixture
def weights(config: Config) -> Path:
    """The published weights of VGG16, where they would be downloaded to."""
    file = Path(config["pathvars"]["data"], "raw", VGG16_FILE)
    file.parent.mkdir(parents=True)
    file.touch()
    return file


def runs_of(study: Study) -> list[str]:
    """All runs but those of the experiments."""
    return [path for part, one in study.collected.items() if part != "experiments" for path in one.runs]


def run(place: str, instances: str, loss: str = "AP", bounding: str = "none", model: str = "") -> str:
    """The runs of a job; of the usual model, if none is named."""
    model = model or ("matrix-factorization" if "movielens" in instances else "mlp")
    return f"{RUNS}/{place}/{instances}/{model}/{loss}/{bounding}.parquet"


def test_the_thesis_is_75_jobs_on_five_data_sets_by_either_protocol(config: Config) -> None:
    study = Study({**config, "compare": []})
    names = ["movielens-nsr1", "movielens-nsr2", "movielens-nsr3", "mq2008-label2", "mq2008-label1"]
    assert list(study.bounded_instances) == names
    assert len(study.runs) == 150
    assert len(set(study.collected["published"].runs)) == 75 + 5
    assert {run("published", "movielens-nsr2", "nRBP", "distribution"), run("honest", names[4])} < study.requests.keys()
    kinds = (("sampled", ""), ("", ""), ("", "4"))  # of the published protocol, the honest one, and an experiment
    assert list(study.distributions) == [(loss, *kind) for kind in kinds for loss in config["losses"]]


def test_each_axis_multiplies_and_what_nothing_uses_is_not_asked_for(config: Config) -> None:
    config |= {"losses": ["AP"], "boundings": ["none"], "datasets": ["mq2008"], "compare": [], "experiment": []}
    study = Study(config)
    assert [(run.request.protocol, run.instances.name) for run in study.runs] == [
        (protocol, f"mq2008-label{label}") for protocol in ("published", "honest") for label in (2, 1)
    ]
    assert not study.distributions
    assert list(study.sources) == ["mq2008"]
    assert study.experiment_tables() == study.compared == []
    config["lists"]["mslr-web10k"] = {"archive": "MSLR-WEB10K.zip", "thresholds": [2, "graded"]}
    other = Study(config)
    assert (other.archives, list(other.requests)) == (study.archives, list(study.requests))
    # They have a reading for each threshold, and for the labels themselves.
    config["compare"] = ["web-queries"]
    config["comparisons"]["web-queries"]["datasets"] = ["mslr-web10k-label2", "mslr-web10k-graded"]
    study = Study(config)
    options = [study.requests[f"<data>/instances/mslr-web10k-{name}.parquet"].options for name in ("label2", "graded")]
    assert options == [{"threshold": 2}, {"graded": True}]
    assert study.archives["MSLR-WEB10K.zip"] == "mslr-web10k"


def test_only_what_a_job_needs_is_its_input(config: Config, weights: Path) -> None:
    study = Study(config)
    web = {"instances": "<data>/instances/mq2008-label1.parquet", "lists": "<data>/lists/mq2008.parquet"}
    pixels = {"instances": "<data>/instances/aaf.parquet", "images": "<data>/images/aaf.parquet"}
    expected = {
        run("honest", "movielens-nsr1"): {"instances": "<data>/instances/movielens-nsr1.parquet"},
        run("honest", "mq2008-label1", bounding="distribution"): {
            **web,
            "distributions": f"{DISTRIBUTIONS}/AP.parquet",
        },
        run("honest@ratios-at1", "movielens-nsr3"): {
            "instances": "<data>/instances/movielens-nsr3.parquet",
            "test_instances": "<data>/instances/movielens-nsr1.parquet",
        },
        run("honest", "mq2008-label1", "RankNet", model="RankNet"): web,
        run("honest", "aaf", "RankNet", model="RankNet"): pixels,
        run("honest", "aaf-vgg16", "RankNet", model="RankNet"): {
            **pixels,
            "image_features": "<data>/features/aaf-vgg16.parquet",
        },
    }
    assert {path: study.requests[path].inputs for path in expected} == expected


def test_functions_of_rules_look_up_what_is_requested(config: Config) -> None:
    steps, names = Steps(Study(config), CODES), SimpleNamespace(instances="mq2008-label2", bounding="distribution")
    output = f"{RUNS}/honest/{{instances}}/mlp/AP/{{bounding}}.parquet"
    assert steps.inputs(output)(names)["lists"] == "<data>/lists/mq2008.parquet"
    assert TrainingJob.model_validate_json(steps.options(output)(names)).dataset == "mq2008-label2"
    files = SimpleNamespace(lists="data/lists/mq2008.parquet", distributions="a folder/AP.parquet")
    assert (
        steps.flags(output)(names, files) == "--lists data/lists/mq2008.parquet --distributions 'a folder/AP.parquet'"
    )
    assert steps.plain_flags("<data>/features/aaf-vgg16.parquet")(names) == "--side 224"
    with pytest.raises(ConfigError, match=r"honest/mq2008-label7/mlp/AP/none\.parquet is made by no step of this conf"):
        steps.inputs(output)(SimpleNamespace(instances="mq2008-label7", bounding="none"))
    demo = Study(merged([ROOT / "profiles/demo/study.yaml"]))
    assert demo.archives == {}
    assert demo.generated == ["synthetic-movielens", "synthetic-mq2008", "synthetic-aaf"]
    flags = Steps(demo, CODES).plain_flags("<data>/lists/{source}.parquet")
    assert flags(SimpleNamespace(source="synthetic-mq2008")) == "--seed 0 --size 150"


def test_a_key_that_a_step_does_not_use_leaves_its_options_alone(config: Config) -> None:
    paths = {
        "split": "<data>/folds/movielens.parquet",
        "sample": "<data>/instances/movielens-nsr1.parquet",
        "distributions": f"{DISTRIBUTIONS}/AP-sampled.parquet",
        "train": run("published", "movielens-nsr1"),
        "controls": f"{RUNS}/published/movielens-nsr1/controls.parquet",
    }

    def options(changes: Config) -> dict[str, str]:
        study = Study({**config, **changes})
        return {name: as_json(study.requests[path].options) for name, path in paths.items()}

    before = options({})
    distributions = {**config["distributions"], "seed": 1}
    for changes, expected in (
        ({"seeds": {"published": [1], "honest": [0]}}, {"train", "controls"}),  # controls rank every drawing
        ({"temperature": 2.0}, {"train"}),
        ({"controls": ["random"]}, {"controls"}),
        ({"distributions": distributions}, {"distributions"}),
        ({"figures": []}, set()),
        ({"mirror": "other"}, set()),
    ):
        after = options(changes)
        assert {name for name in after if after[name] != before[name]} == expected


def test_options_have_one_text_and_wildcards_match_exactly() -> None:
    assert as_json({"b": [1, 2], "a": 1.0}) == as_json({"a": 1.0, "b": [1, 2]}) == '{"a":1.0,"b":[1,2]}'
    with pytest.raises(ValueError, match="JSON"):
        as_json({"a": float("nan")})
    assert re.fullmatch(one_of([]), "") is None
    assert re.fullmatch(one_of(["distribution(gain=sd)", "none"]), "distribution(gain=sd)")
    assert re.fullmatch(one_of(["a.b"]), "axb") is None


def test_numbers_stay_as_they_are_written(config: Config) -> None:
    """Finished studies have the options of their steps: 4 for a threshold of 4, not 4.0."""
    config |= {"temperature": 2}
    config["training"]["movielens"]["learning_rate"]["honest"] = [1, 2.5]
    study = Study(config)
    assert '"threshold":4}' in as_json(study.requests["<data>/folds/movielens.parquet"].options)
    options = as_json(study.requests[run("honest", "movielens-nsr1")].options)
    assert '"learning_rate":[1,2.5]' in options
    assert '"temperature":2,' in options


@pytest.mark.parametrize("file", ["config.yaml", "profiles/demo/study.yaml", "profiles/stronger/study.yaml"])
def test_the_options_of_every_job_are_that_job(file: str, config: Config, weights: Path) -> None:
    own = merged([ROOT / file])
    study = Study({**own, "compare": list(own.get("comparisons", ())), "pathvars": config["pathvars"]})
    for job in study.jobs:
        again = TrainingJob.model_validate_json(as_json(study.requests[f"{job.stem}.parquet"].options))
        assert again == job.request
        assert loss(again.loss).text
        if "rounds" in (options := again.model.given("name", "every")):
            assert options.keys() <= {"rounds", *OPTIONS}


# Experiments


def test_places_match_their_pattern_which_does_not_grow_with_the_variants(config: Config) -> None:
    usual, alone = Study(config), Study({**config, "experiment": []})
    assert all(re.fullmatch(usual.place_pattern, place) for place in usual.places)
    assert not any(re.fullmatch(usual.place_pattern, place) for place in ("draft", "honestly", "published@factors-f16"))
    assert not re.fullmatch(alone.place_pattern, "honest@factors-f16")
    rates = {f"r{place}": {"learning_rate": place / 100} for place in range(1, 500)}
    config["experiments"]["factors"]["variants"] = rates
    assert Study(config).place_pattern == usual.place_pattern


def test_what_an_experiment_alone_reads_is_made(config: Config) -> None:
    config |= {"datasets": ["mq2008"], "boundings": ["none"], "compare": [], "experiment": ["gains"]}
    study, lists = Study(config), "<data>/instances/movielens-nsr3.parquet"
    # With all data sets whose method it is, whatever their boundings.
    tabulated = study.distributions[DistributionFile("nDCG")]
    assert lists in tabulated
    assert set(tabulated) == {one.path for one in study.instances.values()} == {*tabulated} & study.requests.keys()
    assert list(study.distributions) == [(loss, "", "") for loss in ("nDCG", "AP", "nRBP")]
    ratios = Study({**config, "experiment": ["ratios"]})
    job = next(run for run in ratios.experiments if run.place == "honest@ratios-at1").request
    assert (job.key(1, 0)["nsr_train"], job.key(1, 0)["nsr_test"]) == (3, 1)
    chosen = Steps(Study({**config, "experiment": ["ratios", "one-relevant", "starts"]}), CODES)
    experiments = json.loads(chosen.result_options("study", "experiments"))["experiments"]
    assert list(experiments) == ["starts"], "those with other tests are no unstated choice"


# Score distributions


@pytest.mark.parametrize(("changes", "experiments", "kinds", "read"), VALID["distributions"])
def test_trainings_read_distributions_of_their_method(
    config: Config, changes: Config, experiments: Config, kinds: list[str], read: dict[str, str]
) -> None:
    config |= {"compare": [], "losses": ["AP"], "experiment": ["tilts"], **experiments}
    study = Study(config | {"distributions": config["distributions"] | changes})
    assert [file.path for file in study.distributions] == [f"{DISTRIBUTIONS}/AP{kind}.parquet" for kind in kinds]
    for (place, instances), kind in ((name.split(), kind) for name, kind in read.items()):
        path = run(place, instances, bounding="distribution")
        assert study.requests[path].inputs["distributions"] == f"{DISTRIBUTIONS}/AP{kind}.parquet"
        assert study.requests[path.replace("/distribution.", "/none.")].inputs.get("distributions") is None
    for file, instances in study.distributions.items():
        method = "sampled" if "sampled" in file.path else "exact"
        tilt = {"tilt": 4.0} if "tilt" in file.path else {}
        assert study.requests[file.path].options == {"method": method, "samples": 300_000, "seed": 0, **tilt}
        assert study.requests[file.path].inputs == {"instances": instances}
    of_own = [job for job in study.experiments if job.request.distributions and job.request.bounding == "distribution"]
    assert all(json.loads(job.request.key(1, 0)["options"])["distributions"] == "sampled" for job in of_own)


def test_files_of_one_method_have_all_data_sets_that_use_it(config: Config) -> None:
    config |= {"compare": [], "losses": ["AP"], "experiment": ["tilts"]}
    study = Study(config)
    every = [one.path for one in study.bounded_instances.values()]
    assert [study.distributions[DistributionFile("AP", method)] for method in ("sampled", "")] == [every, every]
    tilted = study.distributions[DistributionFile("AP", tilt="4")]
    assert tilted == [study.instances[name].path for name in ("movielens-nsr2", "mq2008-label1")]
    gains = {"boundings": ["distribution(gain=sd)", "distribution(gain=sd,tilt=4)"], "protocols": ["honest"]}
    assert list(Study(config | gains | {"experiment": []}).distributions) == [("AP", "", ""), ("AP", "", "4")]


# Comparisons


def counted(config: Config, **changes: Any) -> Config:
    """The configuration with two comparisons: that of queries, and some of its methods by the number of features."""
    section = config["comparisons"]["web-queries"]
    own = {name: section["methods"][name] for name in ("RankNet", "LambdaMART")}
    comparisons = {"web-queries": section, "counted": {**section, "methods": own, "feature_counts": [5, 46], **changes}}
    return {**config, "compare": list(comparisons), "comparisons": comparisons}


def test_one_job_for_each_method_and_data_set(config: Config, weights: Path) -> None:
    study, sections = Study(config), config["comparisons"].values()
    counts = [len(one["datasets"]) * len(one["methods"]) * len(one.get("feature_counts", [0])) for one in sections]
    assert len({job.stem for job in study.compared}) == len(study.compared) == sum(counts)
    assert {f"{job.stem}.parquet" for job in study.compared} < set(study.collected["compared"].runs)
    assert f"{RUNS}/honest/aaf/compared/controls.parquet" in study.collected["compared"].runs
    assert len(study.collected["compared"].beside) == 2 * sum(counts), "epochs and rates"
    features = Study({**config, "compare": ["faces-vgg16"]})
    assert "<data>/instances/aaf.parquet" in features.requests, "the pairs of the pictures"
    assert features.requests["<data>/instances/aaf.parquet"].inputs["folds"] == "<data>/folds/aaf.parquet"
    popularity = Study({**config, "controls": ["popularity"]})
    ranked = {path.split("/")[3] for path in runs_of(popularity) if path.endswith("controls.parquet")}
    assert ranked == {name for name, one in study.bounded_instances.items() if one.data_set.nsr is not None}


def test_vgg16_runs_only_with_its_weights_and_says_what_is_missing(config: Config, tmp_path: Path) -> None:
    without = Study(config)
    assert list(without.left_out) == ["faces-vgg16"]
    remedy = f"python -m rankbound_study download vgg16 --out {tmp_path}/data/raw/{VGG16_FILE}"
    assert remedy in without.left_out["faces-vgg16"]
    assert VGG16_FILE not in without.archives
    assert not any("vgg16" in path for path in [*runs_of(without), *without.instances])
    (tmp_path / VGG16_FILE).touch()
    study = Study(config)
    assert not study.left_out, "the mirror has them"
    assert study.archives[VGG16_FILE] == "vgg16"
    assert study.instances["aaf"].path == study.instances["aaf-vgg16"].path, "pixels and features have the same pairs"


def test_the_bounded_half_is_as_alone_and_an_experiment_changes_one_setting(config: Config) -> None:
    alone = {key: value for key, value in config.items() if key not in ("compare", "comparisons")}
    one, other = Study(config), Study(alone)
    assert one.runs == other.runs
    assert one.distributions == other.distributions
    assert other.compared == []
    only = {"protocols": ["published"], "experiment": []}
    assert [Study({**own, **only}).places for own in (alone, config)] == [["published"], ["published", "honest"]]
    assert list(Study({**config, "compare": ["web-queries"]}).compared_instances) == ["mq2008-label1"]
    study = Study({**config, "experiment": ["factors"]})
    assert [run.place for run in study.experiments] == ["honest@factors-f16"] * 9 + ["honest@factors-f64"] * 9
    usual = study.requests[run("honest", "movielens-nsr2", "nDCG")].options
    options = study.requests[run("honest@factors-f16", "movielens-nsr2", "nDCG")].options
    assert {key: value for key, value in options.items() if value != usual.get(key)} == {
        "variant": "factors-f16",
        "model": {"name": "matrix-factorization", "factors": 16},
        "crossed": False,
    }
    assert not set(study.collected["experiments"].runs) & set(runs_of(study))


@pytest.mark.parametrize(
    ("model", "own", "expected"),
    [
        ({"name": "linear"}, {"epochs": 7, "pairs": None}, {"epochs": 7, "scale": "standard", "shift": 0.2}),
        ({"name": "boosted-trees", "rounds": 1, "every": 1}, {}, {"shift": 0.2}),
        ({"name": "ridge", "penalties": [1]}, {}, {"scale": "standard", "shift": 0.2}),
        ({"name": "ridge", "penalties": [1]}, {"shift": None}, {"scale": "standard"}),
    ],
)
def test_a_method_has_its_own_settings_over_the_comparisons(model: Config, own: Config, expected: Config) -> None:
    rest = {"optimiser": "adam", "learning_rate": 0.1, "batch_size": 2} if model["name"] == "linear" else {}
    method = {"family": "reg", "loss": "squared", "target": "value", "model": model, "settings": {**rest, **own}}
    section = ComparisonKeys.model_validate(
        {
            "datasets": ["aaf"],
            "judged_by": "AP",
            "folds": [1],
            "seeds": [0],
            "settings": {"epochs": 5, "pairs": 10, "scale": "standard", "shift": 0.2},
            "methods": {"M": method},
        }
    )
    assert section.settings_of(section.methods["M"]) == {**rest, **expected}


def test_every_method_is_trained_once_for_each_number_of_features(config: Config) -> None:
    study = Study(check_config(counted(config)))
    found = {job.model: job for job in study.compared if job.comparison == "counted"}
    assert list(found) == ["RankNet-of-5", "RankNet-of-46", "LambdaMART-of-5", "LambdaMART-of-46"]
    assert [(job.base, job.request.settings.features) for job in found.values()][1:3] == [
        ("RankNet", 46),
        ("LambdaMART", 5),
    ]
    plain = next(job.request for job in study.compared if job.model == "RankNet")
    five = found["RankNet-of-5"].request
    assert {**plain.settings.given(), "features": 5} == five.settings.given()
    assert (plain.model, plain.loss, plain.folds) == (five.model, five.loss, five.folds)
    # The jobs of other comparisons would run again for one more key.
    for job in (alone := Study({**config, "compare": ["web-queries"]})).compared:
        path = f"{job.stem}.parquet"
        assert as_json(alone.requests[path].options) == as_json(study.requests[path].options)
        assert "features" not in alone.requests[path].options["settings"]


def test_methods_that_see_moved_pictures(config: Config) -> None:
    shifts = {job.model: job.request.settings.shift for job in Study(config).compared}
    found = {model: shift for model, shift in shifts.items() if shift is not None}
    assert found == {"RankNet-shifted": 0.2, "RankCNN-shifted": 0.2}
    plain, moved = (config["comparisons"][name] for name in ("faces-pixels", "faces-shifted"))
    assert {**plain["settings"], "shift": 0.2} == moved["settings"]
    for name in ("RankNet", "RankCNN"):
        assert moved["methods"][f"{name}-shifted"] == plain["methods"][name], "all else is the same"


def test_two_comparisons_may_share_a_method_but_not_a_count(config: Config) -> None:
    first = counted(config)
    for counts, found in (([10, 20], ""), ([20, 46], "RankNet also runs on mq2008-label1 in comparisons.counted as")):
        again = {**first["comparisons"]["counted"], "feature_counts": counts}
        assert found in message({**first, "comparisons": {**first["comparisons"], "again": again}})


def test_names_that_checks_know_are_those_that_there_are() -> None:
    assert CHOICES["bias"] == KNOWN_BIASES
    for name in loss_names():
        loss(name)


@pytest.mark.parametrize(("place", "value", "expected"), CASES["comparisons"])
def test_what_cannot_be_is_refused(config: Config, place: str, value: Any, expected: str) -> None:
    chosen = counted(config) if place.startswith("counted") else config
    assert expected in message(changed(f"comparisons.{place}", value, chosen))
