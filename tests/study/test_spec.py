"""From a configuration to the work it asks for."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rankbound.errors import ConfigError
from rankbound_study.config.code_digests import CodeDigests
from rankbound_study.config.lines import merged
from rankbound_study.config.score_distributions import DistributionFile
from rankbound_study.config.steps import Steps, as_json, one_of
from rankbound_study.config.study import Study
from rankbound_study.jobs.job import TrainingJob

CODES = CodeDigests()
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def config() -> dict[str, Any]:
    return merged([ROOT / "config.yaml"])


@pytest.fixture
def steps(config: dict[str, Any]) -> Steps:
    return Steps(Study(config), CODES)


def wildcards(**names: str) -> SimpleNamespace:
    return SimpleNamespace(**names)


def test_the_thesis_is_75_jobs_on_five_data_sets_by_either_protocol(config: dict[str, Any]) -> None:
    study = Study(config)
    assert list(study.bounded_instances) == [
        "movielens-nsr1",
        "movielens-nsr2",
        "movielens-nsr3",
        "mq2008-label2",
        "mq2008-label1",
    ]
    assert len(study.runs) == 150
    assert len({file for file in study.run_files() if "/published/" in file}) == 75 + 5
    random_orders = [f"<results>/distributions/{loss}.parquet" for loss in config["losses"]]
    kinds = ("-sampled", "", "-tilt4")  # of the published protocol, the honest one, and an experiment
    assert study.distribution_files() == [
        path.replace(".parquet", f"{kind}.parquet") for kind in kinds for path in random_orders
    ]


def test_lists_have_a_reading_for_each_threshold_and_for_the_labels_themselves(config: dict[str, Any]) -> None:
    config["lists"]["mslr-web10k"] = {"archive": "MSLR-WEB10K.zip", "thresholds": [2, "graded"]}
    config["compare"] = ["web-queries"]
    config["comparisons"]["web-queries"]["datasets"] = ["mslr-web10k-label2", "mslr-web10k-graded"]
    steps = Steps(Study(config), CODES)
    assert steps.sample_options(wildcards(instances="mslr-web10k-label2")) == '{"threshold":2}'
    assert steps.sample_options(wildcards(instances="mslr-web10k-graded")) == '{"graded":true}'
    assert steps.study.archives["MSLR-WEB10K.zip"] == "mslr-web10k"


def test_data_sets_that_nothing_uses_ask_for_nothing(config: dict[str, Any]) -> None:
    def asked(config: dict[str, Any]) -> tuple[object, ...]:
        study = Study(config)
        return study.archives, study.sources, study.data_files(), study.run_files()

    before = asked(config)
    config["lists"]["mslr-web10k"] = {"archive": "MSLR-WEB10K.zip", "thresholds": [2, "graded"]}
    assert asked(config) == before


def test_a_run_lies_where_its_key_says(config: dict[str, Any]) -> None:
    stems = {run.stem for run in Study(config).runs}
    assert "<results>/runs/published/mq2008-label1/mlp/AP/min-max" in stems
    assert "<results>/runs/published/movielens-nsr2/matrix-factorization/nRBP/distribution" in stems


def test_each_axis_multiplies(config: dict[str, Any]) -> None:
    config |= {"protocols": ["published", "honest"], "losses": ["AP"], "boundings": ["none"], "datasets": ["mq2008"]}
    config |= {"compare": [], "experiment": []}
    study = Study(config)
    assert [(run.protocol, run.instances.data_set.dataset) for run in study.runs] == [
        ("published", "mq2008-label2"),
        ("published", "mq2008-label1"),
        ("honest", "mq2008-label2"),
        ("honest", "mq2008-label1"),
    ]
    assert study.distribution_files() == []
    assert list(study.sources) == ["mq2008"]


def test_only_what_a_job_needs_is_its_input(steps: Steps) -> None:
    ratings = {"protocol": "honest", "instances": "movielens-nsr1", "loss": "AP"}
    assert steps.trained_from(wildcards(**ratings, bounding="none")) == {
        "instances": "<data>/instances/movielens-nsr1.parquet"
    }
    judged = wildcards(protocol="honest", instances="mq2008-label2", loss="AP", bounding="distribution")
    assert steps.trained_from(judged) == {
        "instances": "<data>/instances/mq2008-label2.parquet",
        "lists": "<data>/lists/mq2008.parquet",
        "distributions": "<results>/distributions/AP.parquet",
    }
    files = SimpleNamespace(lists="data/lists/mq2008.parquet", distributions="a folder/AP.parquet")
    assert steps.train_flags(judged, files) == "--lists data/lists/mq2008.parquet --distributions 'a folder/AP.parquet'"


@pytest.mark.parametrize("instances", ["movielens-nsr2", "mq2008-label1"])
def test_train_options_are_what_the_training_step_reads(steps: Steps, instances: str) -> None:
    chosen = wildcards(protocol="honest", instances=instances, model="any", loss="nRBP", bounding="min-max")
    job = TrainingJob.from_json(steps.train_options(chosen))
    assert (job.protocol, job.loss, job.bounding, job.folds) == ("honest", "nRBP", "min-max", (1, 2, 3, 4, 5))
    assert (job.dataset, job.nsr) == (("movielens", 2) if instances == "movielens-nsr2" else ("mq2008-label1", None))


def test_a_key_that_a_step_does_not_use_leaves_its_options_alone(config: dict[str, Any]) -> None:
    chosen = wildcards(
        protocol="published",
        instances="movielens-nsr1",
        source="movielens",
        model="matrix-factorization",
        loss="AP",
        bounding="none",
        kind="-sampled",
    )

    def options(changed: dict[str, Any]) -> dict[str, str]:
        steps = Steps(Study(changed), CODES)
        names = ("split_options", "sample_options", "distribution_options", "train_options", "control_options")
        return {name: getattr(steps, name)(chosen) for name in names}

    before = options(config)
    changes: dict[str, set[str]] = {
        "seeds": {"train_options", "control_options"},  # controls rank every drawing
        "temperature": {"train_options"},
        "controls": {"control_options"},
        "distributions": {"distribution_options"},
        "figures": set(),
        "mirror": set(),
    }
    values: dict[str, Any] = {
        "seeds": {"published": [1]},
        "temperature": 2.0,
        "controls": [],
        "distributions": {**config["distributions"], "seed": 1},
    }
    for key, expected in changes.items():
        after = options({**config, key: values.get(key, "other")})
        assert {name for name in after if after[name] != before[name]} == expected


def test_generated_data_need_no_archive() -> None:
    study = Study(merged([ROOT / "profiles/demo/study.yaml"]))
    assert study.archives == {}
    assert study.generated == ["synthetic-movielens", "synthetic-mq2008", "synthetic-aaf"]
    assert Steps(study, CODES).generate_flags(wildcards(source="synthetic-mq2008")) == "--seed 0 --size 150"


def test_options_have_one_text() -> None:
    assert as_json({"b": [1, 2], "a": 1.0}) == as_json({"a": 1.0, "b": [1, 2]}) == '{"a":1.0,"b":[1,2]}'
    with pytest.raises(ValueError, match="JSON"):
        as_json({"a": float("nan")})
    assert json.loads(as_json({"nsr": None})) == {"nsr": None}


def test_a_wildcard_without_values_matches_nothing() -> None:
    assert re.fullmatch(one_of([]), "") is None
    assert re.fullmatch(one_of(["distribution(gain=sd)", "none"]), "distribution(gain=sd)")
    assert re.fullmatch(one_of(["a.b"]), "axb") is None


def test_an_experiment_is_the_bounded_half_with_one_setting_changed(config: dict[str, Any]) -> None:
    config["experiment"] = ["factors"]
    study = Study(config)
    assert [run.place for run in study.experiments] == ["honest@factors-f16"] * 9 + ["honest@factors-f64"] * 9
    run = study.experiments[0]
    assert run.stem == "<results>/runs/honest@factors-f16/movielens-nsr2/matrix-factorization/nDCG/none"
    usual = study.options(study.run_at("honest", "movielens-nsr2", "nDCG", "none"))
    changed = {key: value for key, value in study.options(run).items() if value != usual[key]}
    assert changed == {
        "variant": "factors-f16",
        "model": {"name": "matrix-factorization", "factors": 16},
        "folds": [1, 2],
        "seeds": [0, 2, 4],
    }
    assert study.experiment_files()[0] == f"{run.stem}.parquet"
    assert not set(study.experiment_files()) & set(study.run_files())
    assert Study({**config, "experiment": []}).experiment_tables() == []


def test_places_match_their_pattern_which_does_not_grow_with_the_variants(config: dict[str, Any]) -> None:
    usual = Study(config)
    assert all(re.fullmatch(usual.place_pattern, place) for place in usual.places)
    assert not any(re.fullmatch(usual.place_pattern, place) for place in ("draft", "honestly", "published@factors-f16"))
    alone = Study({**config, "experiment": []})
    assert not re.fullmatch(alone.place_pattern, "honest@factors-f16")
    rates = {f"r{place}": {"learning_rate": place / 100} for place in range(1, 500)}
    config["experiments"]["factors"]["variants"] = rates
    assert Study(config).place_pattern == usual.place_pattern


def test_a_training_that_no_configuration_names_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"^honest@factors-f7/movielens-nsr2/nDCG/none is no training of this"):
        Study(config).run_at("honest@factors-f7", "movielens-nsr2", "nDCG", "none")


def test_what_an_experiment_alone_reads_is_made(config: dict[str, Any]) -> None:
    config |= {"datasets": ["mq2008"], "boundings": ["none"], "compare": [], "experiment": ["gains"]}
    study = Study(config)
    assert "<data>/instances/movielens-nsr3.parquet" in study.data_files()
    assert "<data>/instances/movielens-nsr3.parquet" in study.tabulated(DistributionFile("nDCG", ""))
    assert study.distribution_files() == [f"<results>/distributions/{loss}.parquet" for loss in ("nDCG", "AP", "nRBP")]


def test_a_variant_tested_at_another_ratio_reads_both_files(config: dict[str, Any]) -> None:
    config |= {"datasets": ["mq2008"], "compare": [], "experiment": ["ratios"]}
    study = Study(config)
    assert {"<data>/instances/movielens-nsr1.parquet", "<data>/instances/movielens-nsr3.parquet"} <= set(
        study.data_files()
    )
    steps = Steps(study, CODES)
    chosen = wildcards(protocol="honest@ratios-at1", instances="movielens-nsr3", loss="AP", bounding="none")
    assert steps.trained_from(chosen) == {
        "instances": "<data>/instances/movielens-nsr3.parquet",
        "test_instances": "<data>/instances/movielens-nsr1.parquet",
    }
    assert steps.train_flags(chosen, SimpleNamespace(test_instances="b.parquet")) == "--test-instances b.parquet"
    key = TrainingJob.from_json(steps.train_options(chosen)).key(1, 0)
    assert (key["nsr_train"], key["nsr_test"]) == (3, 1)


def test_tilted_distributions_have_files_of_their_own(config: dict[str, Any]) -> None:
    config |= {"compare": [], "losses": ["AP"], "experiment": ["tilts"]}
    config["distributions"]["method"] = "exact"
    study, steps = Study(config), Steps(Study(config), CODES)
    folder = "<results>/distributions"
    assert study.distribution_files() == [f"{folder}/AP.parquet", f"{folder}/AP-tilt4.parquet"]
    job = SimpleNamespace(
        protocol="honest@tilts-t4", instances="mq2008-label1", loss="AP", bounding="distribution(tilt=4)"
    )
    assert steps.trained_from(job)["distributions"] == f"{folder}/AP-tilt4.parquet"
    table = SimpleNamespace(loss="AP", kind="-tilt4")
    assert steps.tabulated_from(table) == [study.instances[name].path for name in ("movielens-nsr2", "mq2008-label1")]
    usual = {"method": "exact", "samples": 300000, "seed": 0}
    assert json.loads(steps.distribution_options(table)) == {**usual, "tilt": 4.0}
    assert json.loads(steps.distribution_options(SimpleNamespace(loss="AP", kind=""))) == usual
    for bounding, name in {"distribution(gain=sd)": "AP", "distribution(gain=sd,tilt=4)": "AP-tilt4"}.items():
        file = DistributionFile.read_by(config, "exact", "AP", bounding)
        assert file is not None
        assert file.path == f"{folder}/{name}.parquet"


def test_each_protocol_may_read_distributions_of_its_own_method(config: dict[str, Any]) -> None:
    config |= {"compare": [], "losses": ["AP"], "experiment": ["tilts"]}
    config["distributions"]["method"] = {"published": "sampled", "honest": "exact"}
    study, folder = Study(config), "<results>/distributions"
    assert study.distribution_files() == [f"{folder}/AP{kind}.parquet" for kind in ("-sampled", "", "-tilt4")]
    for run in study.runs:
        if run.bounding == "distribution":
            kind = {"published": "-sampled", "honest": ""}[run.protocol]
            assert study.inputs(run)["distributions"] == f"{folder}/AP{kind}.parquet"
    steps, sampled, exact = Steps(study, CODES), *(wildcards(loss="AP", kind=kind) for kind in ("-sampled", ""))
    assert json.loads(steps.distribution_options(sampled)) == {"method": "sampled", "samples": 300000, "seed": 0}
    assert json.loads(steps.distribution_options(exact)) == {"method": "exact", "samples": 300000, "seed": 0}
    every = [one.path for one in study.bounded_instances.values()]
    assert steps.tabulated_from(sampled) == steps.tabulated_from(exact) == every


def test_a_data_set_may_have_a_method_of_its_own(config: dict[str, Any]) -> None:
    config |= {"compare": [], "losses": ["AP"], "experiment": []}
    config["distributions"]["method"] = "exact"
    usual = Study(config).distributions
    config["distributions"]["datasets"] = {"mq2008": "sampled"}
    study = Study(config)
    steps = Steps(study, CODES)
    of_kind = {kind: steps.tabulated_from(wildcards(loss="AP", kind=kind)) for kind in ("", "-sampled")}
    assert all("movielens" in path for path in of_kind[""])
    assert all("mq2008" in path for path in of_kind["-sampled"])
    assert sorted(of_kind[""] + of_kind["-sampled"]) == sorted(*usual.values())
    assert {file.kind for file in study.distributions} == set(of_kind)
    for run in study.runs:
        if run.bounding == "distribution":
            assert (run.instances.source == "mq2008") == ("-sampled" in study.inputs(run)["distributions"])


def test_experiments_with_other_tests_are_no_unstated_choice(config: dict[str, Any]) -> None:
    config["experiment"] = ["ratios", "one-relevant", "starts"]
    options = json.loads(Steps(Study(config), CODES).result_options("study", "experiments"))
    assert list(options["experiments"]) == ["starts"]


def test_a_variant_has_its_own_kind_of_distributions(config: dict[str, Any]) -> None:
    """The published protocol samples, the honest one does not; a variant of the honest one samples, too."""
    config["distributions"]["method"] = {"published": "sampled", "honest": "exact"}
    config["experiments"]["sampled"] = {
        "datasets": ["movielens-nsr2"],
        "boundings": ["none", "distribution"],
        "variants": {"s": {"distributions": "sampled"}},
    }
    config["experiment"] = ["sampled"]
    study = Study(config)
    own = {run.bounding: run for run in study.experiments if run.loss == "AP"}
    assert study.inputs(own["distribution"])["distributions"] == "<results>/distributions/AP-sampled.parquet"
    assert "distributions" not in study.inputs(own["none"])
    options = study.options(own["distribution"])
    (key,) = {json.loads(TrainingJob.from_json(json.dumps(options)).key(1, 0)["options"])["distributions"]}
    assert key == "sampled", "tables of variants name it"
    usual = next(
        run for run in study.runs if (run.protocol, run.bounding, run.loss) == ("honest", "distribution", "AP")
    )
    assert study.inputs(usual)["distributions"] == "<results>/distributions/AP.parquet"
