"""Readers of the neural-ranking study (Li and Wu): runs, epochs, pairs of faces, printed scores, scores by features.

Its methods are trained under the honest protocol only: a validation part picks the epoch. Pairs are as the methods
scored them: the older face, both scores, and the classifiers' labels. Means over lists and pairs have the intervals and
tests of `rankbound.compare`.

To compare networks with linear and tree models by the number of features that a method sees, every method is trained
again on subsets of the features, drawn at random and the same for all methods. The gap is the best network minus the
best other model of its family, both by validation, on the same lists; its trend is the slope of the gaps over the
logarithm of the number of features.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rankbound.compare.scores import Floats, Integers, mean_of_known
from rankbound.compare.statistics import RESAMPLES, bootstrap, drawn_means, interval_of_mean, p_value_of_mean
from rankbound.errors import ConfigError, DataError
from rankbound.io.models import check_seal
from rankbound_study.config.data_sets import SYNTHETIC, TITLES
from rankbound_study.data.images import read_faces
from rankbound_study.results.scores import best_of, scores_of_methods
from rankbound_study.results.study_files import read_frame, read_table, scan_runs, schema
from rankbound_study.vocabulary import OF_FEATURES, STUDY

PAIR_ACCURACY = "PairAccuracy"

FAMILIES = ("rank", "regression", "classification")
CONTROLS = ("random", "oracle")
CONTROL = "control"  # the family of random order and oracle
AS_PRINTED = "-as-printed"  # suffix of methods that are trained with the optimiser, rate and batches of the paper

FEATURES_TABLE = "table_neural_features"
"""The table of scores by the number of features, of the comparisons with `feature_counts`."""


_FACES, _FEATURES, _GRADED = "aaf", "vgg16", "-graded"


@dataclass(frozen=True)
class Printed:
    """The subject of one of the paper's three tables."""

    number: int
    title: str
    metric: str
    metrics: tuple[str, ...]
    dataset: str

    @property
    def name(self) -> str:
        """The table's name in the configuration and in its file names."""
        return f"table_neural_{self.number}"

    def is_on(self, dataset: str) -> bool:
        """Check that a data set is that of the printed scores, where labels of 2 and more are relevant."""
        return dataset == f"{self.dataset.lower()}-label2"

    @property
    def of_faces(self) -> bool:
        """The table is about pairs of faces, not about documents of queries."""
        return self.number > 1


TABLES = (
    Printed(1, "web queries", "nDCG@10", ("nDCG@10", "AP"), "MSLR-WEB10K"),
    Printed(2, "faces by age, 3 x 100 x 100 pixels", PAIR_ACCURACY, (PAIR_ACCURACY,), "All-Age-Faces"),
    Printed(3, "faces by age, features of VGG16", PAIR_ACCURACY, (PAIR_ACCURACY,), "All-Age-Faces"),
)
"""The paper's three tables: our metrics, the printed one first, and the data set of the printed scores."""


def table_named(name: str) -> Printed:
    """Return the table of that name."""
    return next(table for table in TABLES if table.name == name)


def table_of(dataset: str) -> Printed:
    """Return the table of a data set."""
    return TABLES[0] if _FACES not in dataset else TABLES[2 if _FEATURES in dataset else 1]


def what_is_missing(table: Printed) -> str:
    """Explain why no method of a table has run."""
    if table.number == len(TABLES):
        return (
            "No method has run on the features of VGG16, which need its published weights: "
            "`python -m rankbound_study weights --help` explains how to make them from the publisher's file."
        )
    return f"No method has run on {table.title}: add their data sets to comparisons in the configuration."


def data_set_title(name: str) -> str:
    """Return the title of a data set of this study."""
    real = name.removeprefix(SYNTHETIC)
    titles = {_FACES: "All-Age-Faces", f"{_FACES}-{_FEATURES}": "All-Age-Faces, VGG16 features"}
    stem, found, label = real.partition("-label")
    stem, is_graded = stem.removesuffix(_GRADED), real.endswith(_GRADED)
    reading = f" (relevant: label ≥ {label})" if found else " (graded)" if is_graded else ""
    title = titles.get(real) or f"{TITLES.get(stem) or stem.upper()}{reading}"
    return f"synthetic stand-in for {title}" if real != name else title


NETWORKS = ("mlp", "cnn")  # models that are networks; others are linear or trees

_KEY = ("study", "dataset", "model", "options", "loss", "fold", "seed", "selection", "topic")
FAMILY_NAMES = {"class": "classification", "reg": "regression"}  # family by its name in runs, where the names differ

_MODEL, _OF_METHOD, _COUNT, _SHIFT = (
    pl.col("options").str.json_path_match(f"$.{option}") for option in ("model", "family", "features", "shift")
)
_IS_CONTROL = pl.col("model").is_in(CONTROLS)
_FAMILY = pl.when(_IS_CONTROL).then(pl.lit(CONTROL)).otherwise(_OF_METHOD.replace(FAMILY_NAMES)).alias("family")

SCORE_COLUMNS = schema(
    "text: dataset family method; flag: network; int: features; text: metric; float: ours low high; int: n"
)

GAP_COLUMNS = schema(
    "text: dataset family; int: features; text: network other; float: difference low high p_value; int: n_seeds"
)
"""A row per family and number of features; without a number, the change of the gap with ten times the features.
`n_seeds` is the number of trainings of a method in each fold."""

NOT_RUN = (
    "No method has run on subsets of the features: add feature_counts, such as [5, 10, 20, 46], to a comparison of the "
    "configuration."
)


def printed_scores(table: Printed) -> pl.DataFrame:
    """Return the printed cells of a table in its order: our method name, family, printed score (null for a dash)."""
    resource = files("rankbound_study.reference").joinpath("neural_ranking_tables.csv")
    printed = pl.read_csv(resource.read_bytes(), schema_overrides={"score": pl.Float64})
    # `Reg. LR-l1` is our Reg-l1, `Rank LR` Rank-LR, and `LambdaMart` LambdaMART.
    method = pl.col("model").str.replace("LR-l", "l").str.replace("Mart", "MART").str.replace_all(r"\.? ", "-")
    return printed.filter(pl.col("table") == table.number).select(
        method.alias("method"), "family", pl.col("score").alias("printed")
    )


def read_runs(path: Path, table: Printed, metrics: Sequence[str]) -> pl.DataFrame:
    """Read test lists of one table's data sets, a row per method, fold, seed and topic; undefined scores are null.

    Columns are dataset, method, family, loss, fold, seed, topic, n, p, epoch and the metrics. Controls may come from
    any study, since they are not trained.

    Raises:
        DataError: a column is missing.
    """
    columns = [*_KEY, "n", "p", "epoch", *metrics]
    scan = scan_runs(path, columns)
    control = _IS_CONTROL & (pl.col("loss") == "none")
    own = (pl.col("study") == STUDY) & ~control & (pl.col("selection") == "validation")
    # Methods that see every feature, and no moved pictures.
    trained = own & _COUNT.is_null() & _SHIFT.is_null()
    frame = scan.filter(trained | control).select(columns).collect()
    names = [name for name in frame["dataset"].unique().sort() if table_of(name) == table]
    # Where all methods see moved pictures or some features alone, controls have nothing beside them.
    names = frame.filter(pl.col("dataset").is_in(names), ~control)["dataset"].unique().sort().to_list()
    return (
        frame.filter(pl.col("dataset").is_in(names))
        .with_columns(pl.col(list(metrics)).fill_nan(None), _FAMILY)
        .rename({"model": "method"})
        .unique(["dataset", "method", "loss", "options", "fold", "seed", "topic"], maintain_order=True)
        .drop("study", "options", "selection")
        .sort("dataset", "method", "fold", "seed", "topic")
    )


def read_runs_by_features(path: Path, table: Printed, width: int | None) -> pl.DataFrame:
    """Read test lists of methods that see some of the features, for one table's data sets; undefined scores are null.

    Columns are dataset, method (without the count in its name), run (its full name), family, network (a flag),
    features, fold, seed, topic and the table's metric. With `width`, the number of all features, the runs on all of
    them with the same model, loss and settings (except the learning rate) are included.

    Raises:
        DataError: a column is missing.
    """
    scan = scan_runs(path, [*_KEY, table.metric])
    chosen = (pl.col("study") == STUDY) & (pl.col("selection") == "validation") & _SHIFT.is_null()
    counted = _COUNT.is_not_null() | (width is not None)
    frame = scan.filter(chosen & counted).select(*_KEY, table.metric).collect()
    of_table = [name for name in frame["dataset"].unique() if table_of(name) == table]
    # Options without those that depend on the number of features.
    settings = {
        text: json.dumps({**json.loads(text), "features": None, "learning_rate": None}, sort_keys=True)
        for text in frame["options"].unique()
    }
    frame = frame.filter(pl.col("dataset").is_in(of_table)).with_columns(
        pl.col(table.metric).fill_nan(None),
        _FAMILY,
        _MODEL.is_in(NETWORKS).alias("network"),
        _COUNT.cast(pl.Int64).alias("features"),
        pl.col("options").replace(settings).alias("settings"),
        pl.col("model").alias("run"),
        pl.col("model").str.replace(f"{OF_FEATURES}\\d+$", "").alias("method"),
    )
    some = frame.filter(pl.col("features").is_not_null())
    alike = ["dataset", "method", "loss", "settings", "fold", "seed"]
    every = frame.filter(pl.col("features").is_null()).join(some.select(alike).unique(), on=alike, how="semi")
    every = every.with_columns(pl.lit(width, pl.Int64).alias("features"))
    # A count of all features repeats the training without a count.
    count = ["dataset", "method", "features"]
    every = every.join(some.select(count).unique(), on=count, how="anti")
    columns = ["dataset", "method", "run", "family", "network", "features", "fold", "seed", "topic"]
    return pl.concat([some, every]).select(*columns, table.metric).sort(columns)


def read_epochs(path: Path, methods: Sequence[str]) -> pl.DataFrame:
    """Read the epochs of these methods: dataset, method, loss, fold, seed, epoch, part, and all numeric columns."""
    frame = scan_runs(path).filter(pl.col("study") == STUDY, pl.col("model").is_in(list(methods))).collect()
    numbers = [name for name, kind in frame.schema.items() if kind == pl.Float64]
    key = ["dataset", "model", "loss", "fold", "seed", "epoch", "part"]
    return frame.select(*key, pl.col(numbers).fill_nan(None)).sort(key).rename({"model": "method"})


@dataclass(frozen=True)
class MethodMeans:
    """Means of `values` `(n_methods, n_lists)`, NaN where undefined; lists that are pairs have `faces` `(n_lists, 2)`.

    Differences and combinations are over the lists with a score of all their methods. They agree with
    `rankbound.compare.compare` to the last digit.
    """

    values: Floats
    faces: Integers | None = None

    @property
    def means(self) -> Floats:
        """The mean of each method."""
        return mean_of_known(self.values)

    def interval(self, method: int) -> tuple[float, float]:
        """Return the 95 % interval of a method's mean, clipped to 0 .. 1 for pairs."""
        _, low, high = self._around(self.values[method])
        return (low, high) if self.faces is None else (max(low, 0.0), min(high, 1.0))

    def difference(self, method: int, other: int) -> tuple[float, float, float, float]:
        """Return the mean difference of two methods, its 95 % interval and the two-sided p-value of equal means."""
        values = self.values[method] - self.values[other]
        return *self._around(values), p_value_of_mean(values, self.faces)

    def combination(self, weights: Floats) -> tuple[float, float, float, float]:
        """Return the weighted sum of all methods' means, its 95 % interval and the two-sided p-value of a zero sum."""
        used = np.flatnonzero(weights)
        values = weights[used] @ self.values[used]
        return *self._around(values), p_value_of_mean(values, self.faces)

    def _around(self, values: Floats) -> tuple[float, float, float]:
        """Return the mean and its interval: the value of a single list, NaN for several pairs of too few faces."""
        mean = float(mean_of_known(values))
        low, high = interval_of_mean(values, self.faces)
        return (mean, mean, mean) if np.isfinite(values).sum() < 2 else (mean, low, high)


@dataclass(frozen=True)
class FeatureResults:
    """Mean scores by method and number of features, and the gaps between networks and other models."""

    scores: pl.DataFrame
    gaps: pl.DataFrame

    @classmethod
    def read(cls, folder: Path) -> "FeatureResults":
        """Read the tables of a folder."""
        scores = read_table(folder / f"{FEATURES_TABLE}.csv", SCORE_COLUMNS)
        return cls(scores, read_table(folder / f"{FEATURES_TABLE}_gaps.csv", GAP_COLUMNS))

    @property
    def datasets(self) -> list[str]:
        """The data sets, in the order of the study's tables."""
        return self.scores["dataset"].unique(maintain_order=True).to_list()


_OF_RUN = ("family", "method", "network", "features")


def feature_results(
    runs: Path, epochs: Path, predictions: Sequence[Path] = (), images: Path | None = None
) -> FeatureResults:
    """Compute both tables from the runs, with the best methods by the validation scores of the epochs.

    Faces need their predictions, and the images for their ages and width.

    Raises:
        ConfigError: there are predictions, but no images file with the ages.
        DataError: the epochs have no validation score of a network, or of the other models of its family.
    """
    pairs = read_pairs(predictions, images) if predictions else None
    scores: list[dict[str, Any]] = []
    gaps: list[dict[str, Any]] = []
    for table in TABLES:
        # The number of all features, if they are pixels.
        width = math.prod(read_faces(images).shape) if images is not None and table is TABLES[1] else None
        frame = read_runs_by_features(runs, table, width)
        for dataset in frame["dataset"].unique().sort():
            own = frame.filter(pl.col("dataset") == dataset)
            by_run = own.with_columns(pl.col("run").alias("method"))
            own_pairs = None
            if pairs is not None and table.of_faces:
                # Those that these runs scored.
                key = ["dataset", "method", "fold", "seed"]
                scored = pairs.join(by_run.select(key).unique(), on=key, how="semi")
                own_pairs = None if scored.is_empty() else scored
            names, means = method_means(by_run, table.metric, own_pairs)
            validation = scores_of_methods(epochs, dataset, table.metric)
            lists = pl.struct("fold", "topic").filter(pl.col(table.metric).is_not_null()).n_unique().alias("n")
            found = own.group_by("run").agg(pl.col(_OF_RUN).first(), lists).to_dicts()
            seeds = {"n_seeds": own.group_by("run", "fold").agg(pl.col("seed").n_unique())["seed"].min()}
            # By family, networks first, then by method and number of features.
            for run in sorted(
                found, key=lambda of: (FAMILIES.index(of["family"]), not of["network"], of["method"], of["features"])
            ):
                run |= {"place": names.index(run["run"]), "validation": validation.get(run["run"])}
                low, high = means.interval(run["place"])
                ours = {"ours": float(means.means[run["place"]]), "low": low, "high": high, "n": run["n"]}
                scores.append({"dataset": dataset, **{of: run[of] for of in _OF_RUN}, "metric": table.metric, **ours})
            for family in FAMILIES:
                runs_of_family = [run for run in found if run["family"] == family]
                gaps += [row | seeds for row in _gaps(epochs, dataset, runs_of_family, means)]
    return FeatureResults(
        pl.DataFrame(scores, schema=SCORE_COLUMNS, orient="row"), pl.DataFrame(gaps, schema=GAP_COLUMNS, orient="row")
    )


def _gaps(epochs: Path, dataset: str, ran: Sequence[Mapping[str, Any]], means: MethodMeans) -> Iterator[dict[str, Any]]:
    """Yield the gap at every number of features at which all methods ran, then its trend.

    Where a method is missing, the best is chosen from fewer, and the gap is not comparable with the others.
    """
    methods = {run["method"] for run in ran}
    weights: dict[int, Floats] = {}
    for features in sorted({run["features"] for run in ran}):
        there = [run for run in ran if run["features"] == features]
        kinds = [[run for run in there if run["network"] == network] for network in (True, False)]
        if not all(kinds) or {run["method"] for run in there} != methods:
            continue
        best = []
        for by_name in ({run["run"]: run for run in kind} for kind in kinds):
            scores = {name: run["validation"] for name, run in by_name.items() if run["validation"] is not None}
            if (name := best_of(sorted(by_name), scores)) is None:
                lacking = f"no validation scores of {', '.join(sorted(by_name))} on {dataset}"
                raise DataError(f"{epochs}: {lacking}, which decide which one is the best")
            best.append(by_name[name])
        network, other = best
        weights[features] = np.zeros(len(means.means))
        weights[features][[network["place"], other["place"]]] = 1, -1
        names = {"family": network["family"], "network": network["method"], "other": other["method"]}
        yield {"dataset": dataset, **names, "features": features, **_tested(means, weights[features])}
    if len(weights) > 1:
        tens = np.log10(list(weights))
        slope = (tens - tens.mean()) / ((tens - tens.mean()) ** 2).sum()
        trend = slope @ np.array(list(weights.values()))
        names = {"dataset": dataset, "family": ran[0]["family"]}
        yield dict.fromkeys(GAP_COLUMNS) | names | _tested(means, trend)


def _tested(means: MethodMeans, weights: Floats) -> dict[str, float]:
    return dict(zip(("difference", "low", "high", "p_value"), means.combination(weights), strict=True))


GAPS = ((6, 10), (11, 20), (21, 30), (31, 99))
"""Groups of age differences, in years, with their own accuracy; only pairs more than 5 years apart are drawn."""

AGE_GAP_COLUMNS = schema("text: method; int: from_years to_years n; float: accuracy low high")

READINGS = ("BothRight", "SameLabel", "BothWrong", "Ties")
"""Shares of pairs. A classifier labels a face "older" if that is more likely than not: both labels are right, equal or
wrong. `Ties` have equal scores and count as half a correct pair each."""


def read_pairs(predictions: Sequence[Path], images: Path | None) -> pl.DataFrame:
    """Read one row per method, fold, seed and pair.

    The columns are the key, `older` and `younger` (rows of the images file), their ages and scores, the `years` between
    them, and 0 or 1 for each of `READINGS` and for `PairAccuracy`, in which a tie counts half.

    Raises:
        ConfigError: there is no images file.
        DataError: a list of the predictions is not a pair of faces of different ages.
    """
    if images is None:
        raise ConfigError("predictions of faces were given without their ages: give the images file with --images FILE")
    ages = read_faces(images).ages.astype(np.int64)
    return pl.concat([_pairs_of(path, ages) for path in predictions]).sort("dataset", "method", "fold", "seed", "topic")


def _pairs_of(path: Path, ages: Integers) -> pl.DataFrame:
    columns = ["study", "dataset", "model", "loss", "fold", "seed", "topic", "items", "scores"]
    frame = read_frame(path, "predictions", columns).filter(pl.col("study") == STUDY)
    items, scores = (frame[name].explode().to_numpy() for name in ("items", "scores"))
    if not (frame["items"].list.len() == 2).all() or (len(items) and not 0 <= items.min() <= items.max() < len(ages)):
        raise DataError(f"{path}: column 'items' should hold pairs of rows of the images file, which has {len(ages)}")
    pairs, scored = items.reshape(-1, 2), scores.reshape(-1, 2).astype(np.float64)
    years = ages[pairs[:, 0]] - ages[pairs[:, 1]]
    if not years.all():
        topic = frame["topic"][int(np.flatnonzero(years == 0)[0])]
        raise DataError(f"{path}: the faces of {topic!r} have the same age")
    order = np.where(years[:, None] > 0, [0, 1], [1, 0])
    faces, of_faces = (np.take_along_axis(values, order, 1).T for values in (pairs, scored))
    sides = {
        f"{side}{part}": values[place]
        for part, values in (("", faces), ("_age", ages[faces]), ("_score", of_faces))
        for place, side in enumerate(("older", "younger"))
    }
    older, younger = of_faces
    # Scores of a squared loss are shares, 0 .. 1; all other classifiers' are log-odds.
    even = 0.5 * frame["loss"].str.starts_with("squared").to_numpy()
    right, wrong, tied = (older > even) & (younger < even), (older < even) & (younger > even), older == younger
    readings = (right, ~right & ~wrong, wrong, tied)
    return frame.select("dataset", pl.col("model").alias("method"), "fold", "seed", "topic").with_columns(
        *(pl.Series(name, values) for name, values in sides.items()),
        pl.Series("years", np.abs(years)),
        pl.Series(PAIR_ACCURACY, (older > younger) + 0.5 * tied),
        *(pl.Series(name, values.astype(np.float64)) for name, values in zip(READINGS, readings, strict=True)),
    )


def compared(pairs: pl.DataFrame, value: str) -> tuple[tuple[str, ...], MethodMeans]:
    """Return the methods of one data set and their means of a column over the pairs, averaged over seeds.

    Their errors allow for shared faces; a face in two folds counts once.
    """
    methods, wide = _by_method(pairs, value, ("older", "younger"))
    missing = [method for method in methods if wide[method].null_count()]
    if missing:
        raise DataError(f"predictions: {missing[0]} scored other pairs than the other methods; train it again")
    faces = wide.select("older", "younger").to_numpy().astype(np.int64)
    return methods, MethodMeans(wide.select(methods).to_numpy().T.astype(np.float64), faces)


def method_means(frame: pl.DataFrame, metric: str, pairs: pl.DataFrame | None) -> tuple[tuple[str, ...], MethodMeans]:
    """Return the methods and their per-list means; those of faces allow for pairs that share a face."""
    if metric == PAIR_ACCURACY and pairs is not None:
        return compared(pairs, PAIR_ACCURACY)
    methods, wide = _by_method(frame, metric)
    return methods, MethodMeans(wide.select(pl.col(methods).cast(pl.Float64).fill_null(math.nan)).to_numpy().T)


def _by_method(frame: pl.DataFrame, value: str, fixed: Sequence[str] = ()) -> tuple[tuple[str, ...], pl.DataFrame]:
    """Return the methods, and a column of means over seeds for each of them, a row per list."""
    columns = [pl.col(name).first() for name in fixed]
    averaged = frame.group_by("method", "fold", "topic").agg(*columns, pl.col(value).mean())
    wide = averaged.pivot("method", index=["fold", "topic", *fixed], values=value).sort("fold", "topic")
    return tuple(sorted(set(wide.columns) - {"fold", "topic", *fixed})), wide


def explained(pairs: pl.DataFrame) -> dict[str, tuple[float, float, float, int]]:
    """Return R^2 of each method's scores as ages, its interval, and the number of test faces, each once per fold."""
    columns = {"": "face", "_age": "age", "_score": "score"}
    sides = [
        pairs.select("method", "fold", *(pl.col(f"{side}{part}").alias(name) for part, name in columns.items()))
        for side in ("older", "younger")
    ]
    faces = pl.concat(sides).group_by("method", "fold", "face").agg(pl.col("age").first(), pl.col("score").mean())
    found = {}
    for (method,), own in faces.sort("method", "fold", "face").group_by("method", maintain_order=True):
        true: Floats = own["age"].to_numpy().astype(np.float64)
        found[str(method)] = (*r_squared(own["score"].to_numpy(), true), len(true))
    return found


def r_squared(predicted: Floats, true: Floats, resamples: int = RESAMPLES, seed: int = 0) -> tuple[float, float, float]:
    r"""Return the coefficient of determination of predictions, and the limits of its bootstrap interval over units.

    $$R^2 = 1 - \frac{\sum_u (t_u - p_u)^2}{\sum_u (t_u - \bar t)^2}$$

    is 1 for perfect predictions, 0 for the mean $\bar t$ (recomputed in each resample), and negative for worse ones.
    Both arrays are `(n_units,)`. NaN if the true values are constant.
    """
    if not len(true) or np.ptp(true) == 0:
        return math.nan, math.nan, math.nan

    def explained(missed: Any, centred: Any, squares: Any) -> Any:
        """Return R^2 from means over units; NaN for constant true values."""
        variance = squares - centred**2
        varies = variance > 1e-12 * squares  # else that of a constant
        return 1 - np.divide(missed, variance, out=np.full(np.shape(variance), np.nan), where=varies)

    def of_units(*sample: Any, axis: int = -1) -> Any:
        return explained(*(column.mean(axis) for column in sample))

    centred = true - true.mean()
    columns = np.stack([(true - predicted) ** 2, centred, centred**2])
    resampled = explained(*drawn_means(columns, resamples, seed))
    interval = bootstrap(of_units, columns, resampled=resampled)
    return float(explained(*columns.mean(1))), *interval


def by_gap(pairs: pl.DataFrame) -> pl.DataFrame:
    """Return the accuracy by method and group of age differences, with the number of pairs and its interval."""
    rows = []
    for low, high in GAPS:
        within = pairs.filter(pl.col("years").is_between(low, high))
        if within.is_empty():
            continue
        methods, means = compared(within, PAIR_ACCURACY)
        count = means.values.shape[1]
        for place, method in enumerate(methods):
            rows.append((method, low, high, count, float(means.means[place]), *means.interval(place)))
    return pl.DataFrame(rows, schema=AGE_GAP_COLUMNS, orient="row").sort("method", "from_years")


def coefficients(path: Path, shape: tuple[int, int, int]) -> Floats | None:
    """Read the coefficients `shape` of the first fold and seed in a weights file; None if it holds no linear model.

    They refer to pixels from 0 to 1, whatever the model's own scale; those of a regression are in years.
    """
    from safetensors.numpy import load_file

    check_seal(path)
    tensors = load_file(path)
    size = math.prod(shape)
    found = [name for name in sorted(tensors) if name.endswith("weight") and tensors[name].size == size]
    if not found:
        return None
    first = found[0].rpartition("/")[0]
    deviation = np.asarray(tensors.get(f"{first}/scale.deviation", 1.0), dtype=np.float64).reshape(-1, 1, 1)
    values = tensors[found[0]].astype(np.float64).reshape(shape)
    scaled: Floats = values / deviation * float(tensors.get(f"{first}/target.deviation", 1.0))
    return scaled
