"""Try features in each library: `python -m benchmarks.features` prints the tables as Markdown.

`features.yaml` has the tables, whose cells are expressions of the programs here. A cell becomes a verdict, and the
observation behind it. The loss of a library nearest to nDCG is tried on a few short lists, its metrics on one list of a
few items, rankers and recommenders on small generated data.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import chdir
from functools import cache, partial
from importlib import import_module as use
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch

import rankbound as rb
from benchmarks import asked, losses, rows_of
from benchmarks.data import Batch, judged_lists, labelled_queries, one_list
from benchmarks.evaluators import ARRAYS, DICTIONARIES, OBJECTS, evaluated
from benchmarks.losses import Outputs, allrank, tiny_reranker
from benchmarks.page import table, write_between
from benchmarks.runner import ROOT, added_peak, versions

COMMAND, PAGE = "benchmarks.features", ROOT / "docs" / "features.md"

SOURCE_ONLY = ("RankLib", "TF-Ranking")
"""Not tried: Java, and a version of TensorFlow that does not install beside the others. Sources are read instead."""
OTHER_PYTHON = {"RecBole": ROOT / ".venv-names" / "bin" / "python"}
"""The interpreter that has a library which requires other versions than its peers do."""

NOT_TRIED, FAILS = "not tried", "fails"

TABLES: Mapping[str, Any] = rows_of("features")
"""Heading -> the columns, and the rows by name."""

YES, PARTLY, NO = "yes", "partly", "no"


class Seen(NamedTuple):
    """The result of a cell: a verdict for the table, and the observation behind it."""

    verdict: str
    note: str


def holds(is_true: Any, note: str, verdict: str = YES) -> Seen:
    """Return the verdict if the feature was observed, otherwise no."""
    return Seen(verdict if is_true else NO, note)


def main(arguments: list[str] | None = None) -> int:
    """Print the tables, and write them into the page if asked to."""
    chosen = asked(COMMAND, __doc__, arguments)
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    if chosen.library:
        own = [table["rows"] for table in TABLES.values() if chosen.library in table["columns"]]
        cells = {name: try_cell(name, row, chosen.library) for rows in own for name, row in rows.items()}
        print("\n" + json.dumps({"versions": versions([chosen.library]), "cells": cells}))
        return 0
    others = [elsewhere(library)["versions"] for library, python in OTHER_PYTHON.items() if python.exists()]
    tried = ", ".join([versions(), *others])
    parts = [f"Tried with Python {sys.version.split()[0]}, {tried}."]
    parts += [render(heading, **rows_and_columns) for heading, rows_and_columns in TABLES.items()]
    text = "\n\n".join(parts)
    if chosen.write_docs:
        write_between(PAGE, COMMAND, text)
    print(text)
    return 0


def render(heading: str, columns: Sequence[str], rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Try every feature in every library; return a table, and below it what each row means and what was seen."""
    lines, details = [], []
    for name, row in rows.items():
        print(f"features: {name}", file=sys.stderr)
        cells = {library: try_cell(name, row, library) for library in columns}
        lines.append([name, *(seen.verdict for seen in cells.values())])
        # Libraries that have the same stand together.
        alike: dict[Seen, list[str]] = {}
        for library, seen in cells.items():
            alike.setdefault(seen, []).append(library)
        observed = (f"- {', '.join(names)}: *{seen.verdict}* ({seen.note})" for seen, names in alike.items())
        details += [f"### {name}", row["meaning"], "\n".join(observed)]
    return "\n\n".join([f"## {heading}", table(["feature", *columns], lines), *details])


def try_cell(name: str, row: Mapping[str, Any], library: str) -> Seen:
    """Try a feature in a library; one that is absent or fails is a result, too."""
    cell, spec = row["cells"].get(library, row.get("each")), find_spec(library.lower().replace("-", "_"))
    if library in SOURCE_ONLY:
        return Seen(f"{cell[0]}*", f"{cell[1]}: `{cell[2]}`")
    try:
        if spec is None:
            return Seen(*elsewhere(library)["cells"][name])
        if cell is not None:
            *seen, expression = [cell] if isinstance(cell, str) else cell
            result = eval(expression, {**globals(), "library": library})
            return holds(result, seen[1], seen[0]) if seen else result
    except ModuleNotFoundError as error:
        return Seen(NOT_TRIED, f"{error.name} is not installed")
    except Exception as error:
        message = str(error).strip().splitlines() or [""]
        return Seen(FAILS, f"{type(error).__name__}: {message[0][:80]}")
    pattern = re.compile(rf"^ *(?:def|class) ((?!_)\w*(?:{row['words']})\w*)", re.MULTILINE | re.IGNORECASE)
    files = [path for folder in spec.submodule_search_locations or () for path in Path(folder).rglob("*.py")]
    names = {found for path in files if "test" not in path.name for found in pattern.findall(path.read_text("utf-8"))}
    return Seen(NOT_TRIED, f"has {', '.join(sorted(names)[:3])}") if names else Seen(NO, "no such name")


@cache
def elsewhere(library: str) -> Mapping[str, Any]:
    """Return the cells of a library by feature, and its version, as the interpreter that has it prints them."""
    python = OTHER_PYTHON.get(library)
    if python is None or not python.exists() or python == Path(sys.executable):
        raise ModuleNotFoundError(name=library)
    command = [python, "-m", COMMAND, "--library", library]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found: Mapping[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


# Programs that try a feature.


def differ(one: Any, other: Any) -> bool:
    return not np.allclose(one, other)


def refusal(call: Callable[..., object], *arguments: Any, **keywords: Any) -> str:
    """Return the error that a call raises, or nothing."""
    try:
        call(*arguments, **keywords)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
    return ""


# Losses and training.

INFORMATIVE = Batch(torch.tensor([2.0, 1.0, 3.0, 1.0, 0.5]), torch.tensor([1, 0, 0, 0, 1]), [3, 2])
FLAT = INFORMATIVE.scores, INFORMATIVE.relevance, INFORMATIVE.offsets
APART = [Batch(*both, [len(both[0])]) for both in zip(*(one.split([3, 2]) for one in FLAT[:2]), strict=True)]
"""Its two lists."""
_THREE = torch.tensor([1.0, 2.0, 3.0])
WITH_UNINFORMATIVE = Batch(torch.cat([FLAT[0], _THREE]), torch.cat([FLAT[1], 0 * _THREE.long()]), [3, 2, 3])
"""The same, and a list without relevant items."""
LONG = 3_000
"""Items of a list, of whose pairs an array takes 36 MB: more than any allocator keeps from earlier probes."""
QUIET = {"objective": "lambdarank", "verbosity": -1}
"""Settings of LightGBM."""


def _sentence_transformers(batch: Batch) -> losses.Prepared:
    model = Outputs(batch.scores)
    loss = use("sentence_transformers.cross_encoder.losses").LambdaLoss(model, mini_batch_size=-1)
    inputs = [["q"] * len(batch.sizes), [["d"] * size for size in batch.sizes]]
    return partial(loss, inputs, batch.relevance.split(batch.sizes)), model.outputs


TORCH: Mapping[str, Callable[[Batch], losses.Prepared]] = {
    "rankbound": partial(losses.rankbound_loss, "nDCG"),
    "allRank": partial(losses.allrank_loss, "nDCG"),
    "pytorchltr": partial(losses.pytorchltr_loss, "LambdaRank"),
    "sentence-transformers": _sentence_transformers,
}


def rax_arrays(batch: Batch = INFORMATIVE) -> tuple[Any, Any, Any]:
    """Return scores, relevance and the number of each item's list."""
    segments = np.repeat(np.arange(len(batch.sizes)), batch.sizes)
    arrays = batch.scores.numpy(), batch.relevance.numpy().astype("float32"), segments
    return tuple(map(use("jax.numpy").array, arrays))


def lightgbm_tree(batch: Batch = INFORMATIVE) -> Any:
    """Return the predictions of a tree whose only feature are the scores."""
    rows, how = batch.scores.numpy()[:, None], {"min_data_in_bin": 1}
    data = use("lightgbm").Dataset(rows, batch.relevance.numpy(), group=batch.sizes, params=how)
    settings = {**QUIET, "min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 0}
    return use("lightgbm").train(settings, data, 1).predict(rows)


def xgboost_tree(batch: Batch = INFORMATIVE, **columns: Any) -> Any:
    data = xgboost_data(batch.scores.numpy()[:, None], batch.relevance.numpy(), batch.sizes, **columns)
    return xgboost_scores(data, 1, min_child_weight=0)


def step(library: str, batch: Batch) -> Any:
    """Return the mean loss of lists, whose gradient is computed as well, or the predictions of a tree."""
    if library in TORCH:
        return float(losses.step_of(TORCH[library])(batch)()[0])
    if library == "Rax":
        scores, relevance, segments = rax_arrays(batch)
        of = use("jax").jit(use("jax").value_and_grad(losses.rax_loss))
        return float(use("jax").block_until_ready(of(scores, relevance, segments=segments))[0])
    return {"LightGBM": lightgbm_tree, "XGBoost": xgboost_tree}[library](batch)


def without_padding(library: str) -> Seen:
    together, apart = step(library, INFORMATIVE), np.mean([step(library, one) for one in APART])
    return holds(abs(together - apart) < 1e-5, f"both lists {together:.3f}, mean of each alone {apart:.3f}")


def flat_refused(library: str) -> Seen:
    call, _ = TORCH[library](INFORMATIVE)
    error = refusal(call.func, FLAT[0], FLAT[1].to(call.args[1].dtype), *call.args[2:])
    return Seen(NO, f"refuses flat scores ({error.partition(':')[0]})" if error else "takes flat scores for one list")


def memory(library: str) -> Seen:
    step(library, one_list(20))
    added = added_peak(partial(step, library, one_list(LONG)))
    return holds(added < 4 * LONG**2 / 2, f"{max(added, 0.0) / 1e6:.0f} MB")


def uninformative(library: str) -> Seen:
    alone, with_it = (np.atleast_1d(step(library, batch)) for batch in (INFORMATIVE, WITH_UNINFORMATIVE))
    return holds(not differ(alone, with_it[: len(alone)]), f"{alone[0]:.3f} becomes {with_it[0]:.3f}")


def compiled_by_torch(library: str) -> Seen:
    call, _ = TORCH[library](INFORMATIVE)
    whole = torch.compile(call.func, fullgraph=True, backend="eager")
    with torch.no_grad():
        error = refusal(whole, *call.args, **call.keywords)
        same = not error and torch.allclose(call(), whole(*call.args, **call.keywords))
    return holds(same, f"torch.compile: {error}" if error else "by torch.compile")


def texts(loss_of: Callable[[Any], Any]) -> bool:
    """Return whether the gradient of a loss on texts reaches the weights of a language model."""
    with tempfile.TemporaryDirectory() as folder:
        model = tiny_reranker(Path(folder))
    queries, documents, labels = labelled_queries([3, 4]).values()
    loss_of(model)([queries, documents], list(map(torch.tensor, labels))).backward()
    return any(weight.grad is not None and bool(weight.grad.any()) for weight in model.parameters())


SHOWN = np.array([[3.0, 2.0, 1.0], [1.0, 3.0, 2.0], [2.0, 1.0, 3.0]])
"""The scores of three items by three rankers, which are shown in turn."""


# Rankers, of 20 lists of 10 items.

SIZES = [10] * 20
ROWS = np.random.default_rng(0).normal(size=(200, 3)).astype("float32")
RELEVANCE = (ROWS[:, 0] > 0).astype(int)
"""Relevance that follows the first of three features."""
BRANDS = np.random.default_rng(1).integers(0, 6, 200)
OF_BRANDS = np.isin(BRANDS, [0, 2, 5]).astype(int)
"""Relevance that follows a category, whose numbers have no order."""
MIXED = np.column_stack([BRANDS, np.where(ROWS[:, 1] > 1, np.nan, ROWS[:, 1])])
CATEGORICAL: Mapping[str, Any] = {"feature_types": ["c", "q"], "enable_categorical": True}
JUDGED = judged_lists(ROWS.reshape(20, 10, 3), RELEVANCE)


def separates(scores: Any, relevance: Any = RELEVANCE) -> bool:
    """Return whether relevant items have higher scores on average."""
    return bool(scores[relevance > 0].mean() > scores[relevance == 0].mean())


def trained(**recipe: Any) -> rb.Ranker:
    return rb.train_ranker(JUDGED, **{"epochs": 3} | recipe)


def lightgbm_trees(rows: Any = ROWS, relevance: Any = RELEVANCE, **columns: Any) -> Any:
    return use("lightgbm").train(QUIET, use("lightgbm").Dataset(rows, relevance, group=SIZES, **columns), 5)


def lightgbm_curves(rounds: int, data: Any = None, **settings: Any) -> dict[str, Any]:
    """Return the values of those metrics that LightGBM has, tree by tree; it skips the others silently."""
    lgb, values = use("lightgbm"), dict[str, Any]()
    data, callbacks = data or lgb.Dataset(ROWS, RELEVANCE, group=SIZES), [lgb.record_evaluation(values)]
    lgb.train({**QUIET, **settings}, data, rounds, valid_sets=[data], callbacks=callbacks)
    return values


def xgboost_data(rows: Any = ROWS, relevance: Any = RELEVANCE, sizes: Sequence[int] = SIZES, **columns: Any) -> Any:
    return use("xgboost").DMatrix(rows, relevance, qid=np.repeat(np.arange(len(sizes)), sizes), **columns)


def xgboost_trees(data: Any = None, trees: int = 5, **settings: Any) -> Any:
    return use("xgboost").train({"objective": "rank:ndcg", **settings}, data or xgboost_data(), trees)


def xgboost_scores(data: Any = None, *trees: int, **settings: Any) -> Any:
    data = data or xgboost_data()
    return xgboost_trees(data, *trees, **settings).predict(data)


def seen_in(train: Callable[[Callable[[Any], Any]], object]) -> list[int]:
    """Return all sizes of groups of which a function that a user writes has told `see`, which returns derivatives."""
    seen: list[int] = []

    def see(groups: Any) -> Any:
        seen.extend(groups)
        return np.ones(len(ROWS)), np.ones(len(ROWS))

    train(see)
    return seen


def attends(score: Callable[..., Any], *more: Any) -> bool:
    """Return whether the score of the first of four items changes with the features of the last."""
    rows = torch.randn(4, 3)
    with torch.no_grad():
        before = float(score(rows, *more).flatten()[0])
        rows[3] += 1
        return abs(float(score(rows, *more).flatten()[0]) - before) > 1e-6


def attention_of_allrank() -> bool:
    transformer = allrank("config").TransformerConfig(N=1, d_ff=8, h=1, positional_encoding=None, dropout=0.0)
    layers = {"sizes": [8], "input_norm": False, "activation": None, "dropout": 0.0}
    ranker = allrank("models.model").make_model(layers, transformer, {"d_output": 1}, n_features=3).eval()
    return attends(lambda rows: ranker.score(rows[None], torch.zeros(1, 4, dtype=torch.bool), None))


def mixed_by_rankbound() -> Any:
    """Return the scores of items with categories and missing values."""
    brands, topics = np.array([*"uvwxyz"])[BRANDS], np.repeat(np.arange(20), 10).astype(str)
    table = {"topic": topics, "brand": brands, "price": MIXED[:, 1], "relevance": OF_BRANDS}
    lists = rb.read_lists(table, categorical=["brand"], missing_features="keep")
    ranker = rb.train_ranker(lists, missing_features="indicator", epochs=5, learning_rate=0.1)
    return ranker.score_lists(lists).scores


def stored(save: Callable[[Any], object], name: str, read: Callable[[Path], Any]) -> Any:
    """Return what is read from a file of this name that was saved."""
    with tempfile.TemporaryDirectory() as folder:
        save(path := Path(folder, name))
        return read(path)


def exported_by_rankbound() -> bool:
    reference, _ = use("onnx.reference").ReferenceEvaluator, use("onnxscript")
    ranker = trained(model="mlp")
    by_onnx = stored(ranker.export, "ranker.onnx", lambda path: reference(str(path)).run(None, {"features": ROWS})[0])
    graph = stored(ranker.export, "ranker.pt2", lambda path: torch.export.load(path).module())
    others = by_onnx, graph(torch.from_numpy(ROWS)).detach()
    return all(np.allclose(one, ranker.score(ROWS), atol=1e-5) for one in others)


# Recommenders, and strengths of items.

CHOICES = [
    (u, i, (5 * i + 3 * u) % 16) for u in range(20) for i in range(16) if i % 2 == u % 2 and i // 2 != u // 2 % 8
]
"""User, item and time: even users choose even items and odd users odd ones, each all but one."""
BASELINES = ("popularity", "item-knn", "ease")
BPR: Mapping[str, Any] = {"factors": 8, "iterations": 100, "learning_rate": 0.1, "random_state": 0}
"""Settings of implicit."""
THREE_TO_ONE, AS_PLACES = [("a", "b")] * 3 + [("b", "a")], [(0, 1)] * 3 + [(1, 0)]
LOG_3 = 1.0986
"""The difference of strengths under which the first wins three of four."""


def alike(recommended: Iterable[tuple[Any, Any]]) -> bool:
    """Return whether most users are recommended an item of their kind."""
    return bool(np.mean([int(user) % 2 == int(item) % 2 for user, item in recommended]) > 0.75)


@cache
def split() -> rb.Split:
    users, items, times = zip(*CHOICES, strict=True)
    table = {"topic": [*map(str, users)], "item": [*map(str, items)], "time": times}
    return rb.leave_last_out(table, time="time", relevance=None)


@cache
def recommender(model: str) -> rb.Ranker:
    recipe = {} if model in BASELINES else {"loss": "BPR", "epochs": 30, "learning_rate": 0.05, "negatives": 2}
    return rb.train_ranker(split().training, model=model, **recipe)


def recommended(model: str) -> Iterable[tuple[Any, Any]]:
    run = recommender(model).recommend(split().training, k=1, exclude=split().training)
    return zip(run.topics, run.items, strict=True)


@cache
def implicit(model: str = "bpr.BayesianPersonalizedRanking", **settings: Any) -> tuple[Any, Any, Any]:
    """Return a fitted model, what it was trained on (users by items), and what each user chose besides."""
    users, items, _ = zip(*CHOICES, strict=True)
    matrix = use("scipy.sparse").csr_matrix((np.ones(len(users), np.float32), (users, items)))
    training, tested = use("implicit.evaluation").leave_k_out_split(matrix, K=1, random_state=0)
    module, _, name = model.rpartition(".")
    fitted = getattr(use(f"implicit.{module}"), name)(**settings)
    fitted.fit(training, show_progress=False)
    return fitted, training, tested


def recommended_by_implicit(*model: str, **settings: Any) -> Any:
    fitted, training, _ = implicit(*model, **settings)
    return enumerate(fitted.recommend(np.arange(20), training, N=1, filter_already_liked_items=True)[0][:, 0])


@cache
def recbole(model: str) -> Any:
    """Return the parts of RecBole after a training, whose files stay until the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="recbole-")
    lines = ["user_id:token\titem_id:token\ttimestamp:float", *("\t".join(map(str, row)) for row in CHOICES)]
    path = Path(folder.name, "tiny", "tiny.inter")
    path.parent.mkdir()
    path.write_text("\n".join(lines), encoding="utf-8")
    # RecBole 1.2.1 uses names that NumPy 2 lacks.
    vars(np).update({"float": float, "float_": np.float64, "complex_": np.complex128, "unicode_": np.str_})
    settings = {"data_path": folder.name, "checkpoint_dir": folder.name, "use_gpu": False, "show_progress": False}
    settings |= {"state": "CRITICAL", "epochs": 30, "learning_rate": 0.05, "embedding_size": 8, "seed": 0, "topk": [3]}
    settings |= {"load_col": {"inter": ["user_id", "item_id", "timestamp"]}, "metrics": ["NDCG"]}
    settings |= {
        "valid_metric": "NDCG@3",
        "eval_args": {"split": {"LS": "valid_and_test"}, "order": "TO", "mode": "full"},
    }
    config = use("recbole.config").Config(model=model, dataset="tiny", config_dict=settings)
    dataset = use("recbole.data").create_dataset(config)
    training, validation, test = use("recbole.data").data_preparation(config, dataset)
    fitted = use("recbole.utils").get_model(model)(config, training.dataset)
    with chdir(folder.name):
        # Where it writes for TensorBoard, too.
        trainer = use("recbole.utils").get_trainer(config["MODEL_TYPE"], model)(config, fitted)
        trainer.fit(training, validation, saved=True, show_progress=False)
    return SimpleNamespace(folder=folder, dataset=dataset, test=test, model=fitted, trainer=trainer)


def recommended_by_recbole(model: str) -> Iterable[tuple[Any, Any]]:
    parts, users = recbole(model), np.arange(1, 21)
    top = use("recbole.utils.case_study").full_sort_topk(users, parts.model, parts.test, k=1, device="cpu")[1]
    names = parts.dataset.id2token
    return zip(names("user_id", users), names("item_id", top[:, 0].numpy()), strict=True)


# Metrics and evaluation.

TIED = 0.8155, 0.75
"""The means of nDCG and RR over both orders of a relevant and an irrelevant item."""
TWO_LISTS = torch.tensor([2.0, 1.0, 2.0, 1.0]), torch.tensor([0, 0, 1, 0]), torch.tensor([0, 0, 1, 1])
"""Scores, labels and lists, of which only the second has a relevant item."""


def means(library: str, scores: Sequence[float], relevance: Sequence[int]) -> list[float]:
    """Return nDCG, and RR or (the same for a single relevant item) AP, of the scores and the relevance of a list."""
    rows = torch.tensor([scores]), torch.tensor([relevance])
    match library:
        case "Rax":
            tools, lists = use("rax"), [use("jax.numpy").array(one[0].float()) for one in rows]
            return [float(metric(*lists, topn=10)) for metric in (tools.ndcg_metric, tools.mrr_metric)]
        case "allRank":
            tools = allrank("models.metrics")
            return [float(metric(rows[0], rows[1].float(), ats=[10])) for metric in (tools.ndcg, tools.mrr)]
        case "pytorchltr":
            return [float(use("pytorchltr.evaluation").ndcg(*rows, torch.tensor([len(scores)]), k=10)[0])]
        case "LightGBM":
            return [*lightgbm_metrics("ndcg map", scores, relevance).values()]
        case "torchmetrics":
            tools, lists = use("torchmetrics.retrieval"), (rows[0][0], rows[1][0], 0 * rows[1][0])
            return [float(one(top_k=10)(*lists)) for one in (tools.RetrievalNormalizedDCG, tools.RetrievalMRR)]
    door = {"rankbound": ARRAYS, "ranx": OBJECTS}.get(library, DICTIONARIES)
    found = evaluated(library, (np.array([scores]), np.array([relevance])), door)()
    return [found["nDCG@10"], found["RR"]]


def lightgbm_metrics(names: str, scores: Sequence[float], relevance: Sequence[int]) -> dict[str, float]:
    data = use("lightgbm").Dataset(np.zeros((len(scores), 1)), relevance, group=[len(scores)], init_score=scores)
    values = lightgbm_curves(1, data, metric=names.split(), eval_at=[10])["training"]
    return {name.partition("@")[0]: series[0] for name, series in values.items()}


def ties(library: str) -> Seen:
    values = [*zip(*(means(library, [1.0, 1.0], labels) for labels in ([0, 1], [1, 0])), strict=True)]
    averaged = [max(abs(value - mean) for value in pair) < 1e-4 for pair, mean in zip(values, TIED, strict=False)]
    note = "; ".join(f"{one:.2f} and {other:.2f}" for one, other in values)
    return holds(any(averaged), note, YES if all(averaged) else PARTLY)


def undefined(library: str) -> Seen:
    value = means(library, [2.0, 1.0], [0, 0])[0]
    return holds(value != value, f"{value:.0f}")


DOCUMENTS = "abcdefgh"
QRELS = {f"q{i}": {DOCUMENTS[i % 4]: 1} for i in range(20)}
RUNS = {
    name: {f"q{i}": {d: (step * i + 3 * j) % 7 + j / 10 for j, d in enumerate(DOCUMENTS)} for i in range(20)}
    for name, step in (("x", 1), ("y", 2))
}
TO_FUSE = [{"q": {"a": 2.0, "b": 1.0}}, {"q": {"c": 1.0, "a": 0.5}}]


def compared_by_ranx(how: str, *more: Any) -> Any:
    runs = [use("ranx").Run(run, name=name) for name, run in RUNS.items()]
    return getattr(use("ranx"), how)(use("ranx").Qrels(QRELS), runs, *more)


def counted(names: Iterable[str], pattern: str = "") -> Seen:
    """Return the number of the names in which a regular expression is found, and the first of them."""
    found = sorted(name for name in names if re.search(pattern, name))
    return Seen(str(len(found)), ", ".join(found[:6]) + ", ..." * (len(found) > 6))


if __name__ == "__main__":
    os.environ |= {"JAX_PLATFORMS": "cpu", "HF_HUB_OFFLINE": "1", "MPLBACKEND": "agg"}
    sys.exit(main())
