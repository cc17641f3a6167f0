"""Comparisons in a configuration: the jobs that follow, what each reads, what is left out, and what is refused."""

import copy
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from rankbound.errors import ConfigError
from rankbound.losses import KINDS as LOSSES
from rankbound.losses import loss
from rankbound_study.config.check import check_config
from rankbound_study.config.code_digests import CodeDigests
from rankbound_study.config.comparisons import VGG16_FILE, method_settings
from rankbound_study.config.lines import merged
from rankbound_study.config.score_distributions import DistributionFile
from rankbound_study.config.sections.base import loss_names
from rankbound_study.config.sections.comparison import MethodKeys
from rankbound_study.config.steps import Steps
from rankbound_study.config.study import Study
from rankbound_study.jobs.fit import MODELS, epochs_of
from rankbound_study.jobs.fitted import MATRIX_FACTORIZATION
from rankbound_study.jobs.job import TrainingJob
from rankbound_study.models.trees import Growth

CODES = CodeDigests()
ROOT = Path(__file__).resolve().parents[2]
FILES = ("config.yaml", "profiles/demo/study.yaml")


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    monkeypatch.setenv("RANKBOUND_MIRROR", str(tmp_path))
    found = merged([ROOT / "config.yaml"])
    everything = {"compare": list(found["comparisons"])}
    return {**found, **everything, "pathvars": {**found["pathvars"], "data": str(tmp_path / "data")}}


def with_weights(config: dict[str, Any]) -> dict[str, Any]:
    raw = Path(config["pathvars"]["data"]) / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    (raw / VGG16_FILE).touch()
    return config


def wildcards_of(job: Any) -> SimpleNamespace:
    return SimpleNamespace(
        protocol="honest", instances=job.instances.name, model=job.method, loss=job.loss, bounding="none"
    )


def test_one_job_for_each_method_and_data_set(config: dict[str, Any]) -> None:
    study = Study(with_weights(config))
    expected = sum(
        len(one["datasets"]) * len(one["methods"]) * len(one.get("feature_counts", [0]))
        for one in config["comparisons"].values()
    )
    assert len({job.stem for job in study.compared}) == len(study.compared) == expected
    assert "<results>/runs/honest/mq2008-label1/LambdaMART/LambdaRank/none" in {job.stem for job in study.compared}
    assert {f"{job.stem}.parquet" for job in study.compared} < set(study.run_files())
    assert "<results>/runs/honest/aaf/compared/controls.parquet" in study.run_files()
    assert len(study.beside_runs()) == 2 * (len(study.runs) + expected), "epochs and rates"


def test_features_alone_need_the_pairs_of_their_pictures(config: dict[str, Any]) -> None:
    chosen = with_weights(config) | {"compare": ["faces-vgg16"]}
    study = Study(chosen)
    assert [job.instances.name for job in study.compared if not job.instances.features] == []
    assert "<data>/instances/aaf.parquet" in study.data_files()
    steps = Steps(study, CODES)
    assert steps.sampled_from(SimpleNamespace(instances="aaf"))["folds"] == "<data>/folds/aaf.parquet"


def test_popularity_alone_ranks_no_judged_lists(config: dict[str, Any]) -> None:
    study = Study(with_weights(config) | {"controls": ["popularity"]})
    ranked = {path.split("/")[3] for path in study.run_files() if path.endswith("controls.parquet")}
    assert ranked == {name for name, one in study.bounded_instances.items() if one.data_set.nsr is not None}


@pytest.mark.parametrize("file", FILES)
def test_the_options_of_every_job_are_a_job(file: str, config: dict[str, Any]) -> None:
    own = merged([ROOT / file])
    chosen = with_weights({**own, "compare": list(own["comparisons"]), "pathvars": config["pathvars"]})
    study = Study(chosen)
    steps = Steps(study, CODES)
    for one in study.compared:
        job = TrainingJob.from_json(steps.compare_options(wildcards_of(one)))
        assert (job.study, job.method, job.dataset) == ("neural", one.method, one.instances.data_set.dataset)
        assert loss(job.loss).text
        assert epochs_of(job) >= 1
        if job.model["name"] in ("boosted-trees", "random-forest"):
            Growth(**{key: value for key, value in job.model.items() if key not in ("name", "every")})


def test_every_job_reads_what_holds_its_features(config: dict[str, Any]) -> None:
    steps = Steps(Study(with_weights(config)), CODES)
    web, pixels, features = (
        steps.compared_from(SimpleNamespace(instances=name)) for name in ("mq2008-label1", "aaf", "aaf-vgg16")
    )
    assert web == {"instances": "<data>/instances/mq2008-label1.parquet", "lists": "<data>/lists/mq2008.parquet"}
    assert pixels == {"instances": "<data>/instances/aaf.parquet", "images": "<data>/images/aaf.parquet"}
    assert features == {**pixels, "image_features": "<data>/features/aaf-vgg16.parquet"}
    files = SimpleNamespace(images="a b.parquet", image_features="c.parquet")
    flags = steps.compare_flags(SimpleNamespace(instances="aaf-vgg16"), files)
    assert flags == "--images 'a b.parquet' --image-features c.parquet"


def test_vgg16_runs_only_with_its_weights_and_says_what_is_missing(config: dict[str, Any], tmp_path: Path) -> None:
    without = Study(config)
    assert list(without.left_out) == ["faces-vgg16"]
    assert (
        f"python -m rankbound_study download vgg16 --out {tmp_path}/data/raw/{VGG16_FILE}"
        in without.left_out["faces-vgg16"]
    )
    assert "aaf-vgg16" not in without.instances
    assert VGG16_FILE not in without.archives
    assert not any("vgg16" in file for file in without.run_files())
    (tmp_path / VGG16_FILE).touch()
    study = Study(config)
    assert not study.left_out, "the mirror has them"
    assert study.archives[VGG16_FILE] == "vgg16"
    assert study.data_files().count("<data>/instances/aaf.parquet") == 1, "pixels and features have the same pairs"


def test_compare_names_those_that_run(config: dict[str, Any]) -> None:
    assert list(Study({**config, "compare": ["web-queries"]}).compared_instances) == ["mq2008-label1"]
    assert Study({**config, "compare": []}).compared == []
    with pytest.raises(ConfigError, match=r"compare\[0\] is 'web', which comparisons does not define"):
        check_config({**config, "compare": ["web"]})


def test_the_bounded_half_is_as_it_would_be_alone(config: dict[str, Any]) -> None:
    alone = {key: value for key, value in config.items() if key not in ("compare", "comparisons")}
    one, other = Study(config), Study(alone)
    assert one.runs == other.runs
    file = DistributionFile("nDCG", "")
    assert one.tabulated(file) == other.data_files() == other.tabulated(file)
    assert other.compared == []
    assert Study({**alone, "protocols": ["published"], "experiment": []}).places == ["published"]
    assert Study({**config, "protocols": ["published"], "experiment": []}).places == ["published", "honest"]


def test_a_method_has_its_own_settings_over_the_comparisons() -> None:
    section = {"settings": {"epochs": 5, "pairs": 10, "scale": "standard"}}
    network = {"model": {"name": "mlp"}, "settings": {"epochs": 7, "pairs": None}}
    assert method_settings(section, network) == {"epochs": 7, "scale": "standard"}
    assert method_settings(section, {"model": {"name": "boosted-trees"}}) == {}
    assert method_settings(section, {"model": {"name": "ridge"}}) == {"scale": "standard"}


def counted(config: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The configuration with two comparisons: that of queries, and some of its methods by the number of features."""
    section = config["comparisons"]["web-queries"]
    methods = {name: section["methods"][name] for name in ("RankNet", "LambdaMART")}
    added = {**section, "methods": methods, "feature_counts": [5, 46], **changes}
    comparisons = {"web-queries": section, "counted": added}
    return {**config, "compare": list(comparisons), "comparisons": comparisons}


def test_every_method_is_trained_once_for_each_number_of_features(config: dict[str, Any]) -> None:
    check_config(counted(config))
    study = Study(counted(config))
    found = {job.method: job for job in study.compared if job.comparison == "counted"}
    assert list(found) == ["RankNet-of-5", "RankNet-of-46", "LambdaMART-of-5", "LambdaMART-of-46"]
    assert [(job.base, job.features) for job in found.values()][1:3] == [("RankNet", 46), ("LambdaMART", 5)]
    steps = Steps(study, CODES)
    jobs = {name: TrainingJob.from_json(steps.compare_options(wildcards_of(job))) for name, job in found.items()}
    assert [job.settings["features"] for job in jobs.values()] == [5, 46, 5, 46]
    plain = next(job for job in study.compared if job.method == "RankNet")
    own, five = TrainingJob.from_json(steps.compare_options(wildcards_of(plain))), jobs["RankNet-of-5"]
    assert {**own.settings, "features": 5} == five.settings
    assert (own.model, own.loss, own.folds) == (five.model, five.loss, five.folds)


def test_other_comparisons_keep_their_options_to_the_byte(config: dict[str, Any]) -> None:
    """Their jobs would run again for one more key."""
    without, beside = Study({**config, "compare": ["web-queries"]}), Study(counted(config))
    for one in without.compared:
        options = Steps(without, CODES).compare_options(wildcards_of(one))
        assert options == Steps(beside, CODES).compare_options(wildcards_of(one))
        assert '"features"' not in options
        assert one.features is None


def test_methods_that_see_moved_pictures(config: dict[str, Any]) -> None:
    study = Study(config)
    found = {job.method: job.shift for job in study.compared if job.shift is not None}
    assert found == {"RankNet-shifted": 0.2, "RankCNN-shifted": 0.2}
    for job in study.compared:
        settings = json.loads(Steps(study, CODES).compare_options(wildcards_of(job)))["settings"]
        assert settings.get("shift") == job.shift
    of_pixels = {name: one["methods"] for name, one in config["comparisons"].items()}
    for name in ("RankNet", "RankCNN"):
        assert of_pixels["faces-shifted"][f"{name}-shifted"] == of_pixels["faces-pixels"][name], "all else is the same"
    own, moved = (config["comparisons"][name]["settings"] for name in ("faces-pixels", "faces-shifted"))
    assert {**own, "shift": 0.2} == moved
    section = {"settings": {"shift": 0.2}}
    for model in ("boosted-trees", "ridge"):
        assert method_settings(section, {"model": {"name": model}}) == {"shift": 0.2}
    assert method_settings(section, {"model": {"name": "ridge"}, "settings": {"shift": None}}) == {}


@pytest.mark.parametrize(
    ("shift", "message"),
    [
        (0.2, r"web-queries.methods.RankNet has the setting shift, which moves pictures: mq2008-label1 has no pixels"),
        (0, r"shift is 0: expected more than 0"),
        (0.6, r"shift is 0.6: expected at most 0.5"),
    ],
)
def test_moves_that_cannot_be_are_refused(config: dict[str, Any], shift: float, message: str) -> None:
    settings = {**config["comparisons"]["web-queries"]["settings"], "shift": shift}
    with pytest.raises(ConfigError, match=message):
        check_config(changed(config, "web-queries", "settings", to=settings))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"feature_counts": [46, 5]}, r"counted.feature_counts is \[46, 5\]: expected ascending numbers, \[5, 46\]"),
        ({"feature_counts": [5, 5]}, r"counted.feature_counts is \[5, 5\]: a value occurs twice"),
        ({"feature_counts": [0, 5]}, r"counted.feature_counts\[0\] is 0: expected at least 1"),
        ({"feature_counts": [2.5]}, r"counted.feature_counts\[0\] is 2.5: expected a whole number"),
        ({"feature_counts": []}, r"counted.feature_counts is \[\]: expected at least one value"),
        (
            {"methods": {"RankCNN": {"family": "rank", "model": {"name": "cnn"}, "loss": "RankNet"}}},
            r"counted.methods.RankCNN is a cnn, which reads whole pictures, not some of their pixels",
        ),
    ],
)
def test_counts_that_cannot_be_are_refused(config: dict[str, Any], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_config(counted(config, **changes))


def test_two_comparisons_may_share_a_method_but_not_a_count(config: dict[str, Any]) -> None:
    first = counted(config)
    section = first["comparisons"]["counted"]
    for counts, refused in (([10, 20], False), ([20, 46], True)):
        other = {**first, "comparisons": {**first["comparisons"], "again": {**section, "feature_counts": counts}}}
        if refused:
            with pytest.raises(
                ConfigError, match=r"RankNet also runs on mq2008-label1 in comparisons.counted as RankNet-of-46"
            ):
                check_config(other)
        else:
            check_config(other)


def test_names_that_checks_know_are_those_that_there_are() -> None:
    models = get_args(MethodKeys.model_fields["model"].annotation)
    names = {name for model in models for name in get_args(model.model_fields["name"].annotation)}
    assert {*names, MATRIX_FACTORIZATION} == set(MODELS)
    assert set(LOSSES) <= set(loss_names())
    for name in loss_names():
        loss(name)


def changed(config: dict[str, Any], *path: str, to: Any) -> dict[str, Any]:
    copied = copy.deepcopy(config)
    section = copied["comparisons"]
    for key in path[:-1]:
        section = section[key]
    section[path[-1]] = to
    return copied


WEB, FACES = ("web-queries", "methods"), ("faces-pixels", "methods")


@pytest.mark.parametrize(
    ("path", "to", "message"),
    [
        ((*WEB, "RankNet", "loss"), "RankNut", r"methods.RankNet.loss is 'RankNut': .*did you mean RankNet\?"),
        ((*WEB, "RankNet", "loss"), "RankNet(", r"methods.RankNet.loss is 'RankNet\(': expected a text"),
        ((*WEB, "RankNet", "model"), {"name": "mpl"}, r"model.name is \"mpl\": .*did you mean mlp\?"),
        ((*WEB, "RankNet", "model"), {"name": "mlp"}, r"the key .*RankNet.model.hidden is missing"),
        (
            (*WEB, "RankNet", "model"),
            {"name": "linear", "hidden": [3]},
            r"unknown key .*model.hidden \(the keys of linear: name\)",
        ),
        (
            (*WEB, "RankNet", "target"),
            "value",
            r"RankNet.target is value: items of mq2008-label1 have only relevance labels",
        ),
        ((*WEB, "ranknet"), {}, r"expected a name of letters, digits and hyphens that starts with a capital"),
        ((*WEB, "Class-RF", "loss"), "logistic", r"Class-RF.loss is 'logistic': random-forest requires squared"),
        (("web-queries", "settings"), {"optimiser": "adam"}, r"methods.RankNet is trained without learning_rate"),
        (("web-queries", "datasets"), ["mq2008-label3"], r"datasets\[0\] is 'mq2008-label3', which nothing defines"),
        (("web-queries", "datasets"), ["movielens-nsr1"], r"methods read features, and ratings have none"),
        (("faces-pixels", "folds"), [1, 2], r"faces-pixels.folds has 2, but images.aaf makes 1"),
        ((*FACES, "Reg-l2", "target"), "relevance", r"Reg-l2 is a regression: it needs target: value"),
        (
            ("faces-vgg16", "datasets"),
            ["aaf"],
            r"also runs on aaf in comparisons.faces-pixels as RankNet: give it another name",
        ),
    ],
)
def test_what_cannot_be_is_refused(config: dict[str, Any], path: tuple[str, ...], to: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_config(changed(config, *path, to=to))
