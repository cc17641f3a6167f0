"""The programs of the pages run as they stand, and give what they should."""

import ast
import contextlib
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

import rankbound as rb
from benchmarks import coming_from
from benchmarks.page import around
from tests.library.conftest import Program
from tests.library.pages import blocks, follow, programs, text_of

# Read when the library is imported.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

ROOT, PAGE = Path(__file__).resolve().parents[2], "training_loops.md"
PATIENCE = 120
"""Seconds after which processes that wait for one another are given up."""

N_FEATURES, N_TOPICS = 6, {"train": 64, "vali": 12, "test": 20}


def program(section: str, kind: str = "python") -> str:
    (text,) = [text for other, text in blocks(PAGE, section) if other == kind]
    return text


def write_letor(path: Path, n_topics: int, generator: np.random.Generator) -> None:
    """Write topics whose relevance follows from two of the features; every fourth has no relevant item."""
    topics = np.repeat(np.arange(n_topics), generator.integers(5, 25, n_topics))
    features = generator.random((len(topics), N_FEATURES))
    quality = features[:, :2].sum(1) + generator.normal(0, 0.1, len(topics))
    labels = np.digitize(quality, [1.0, 1.5]) * (topics % 4 < 3)
    with path.open("w") as file:
        for item, (label, topic, row) in enumerate(zip(labels, topics, features, strict=True)):
            values = " ".join(f"{place}:{value:.6f}" for place, value in enumerate(row, start=1))
            file.write(f"{label} qid:{topic} {values} #docid = D{item} inc = 1 prob = 0.5\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, generator = tmp_path_factory.mktemp("loops"), np.random.default_rng(0)
    (folder / "MQ2008/Fold1").mkdir(parents=True)
    for part, n_topics in N_TOPICS.items():
        write_letor(folder / f"MQ2008/Fold1/{part}.txt", n_topics, generator)
    return folder


@pytest.fixture(scope="module")
def first(folder: Path) -> dict[str, Any]:
    names: dict[str, Any] = {}
    with contextlib.chdir(folder):
        exec(program("PyTorch"), names)
    return names


@pytest.fixture
def names(first: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(folder)
    return dict(first)


MOST_LINES = {PAGE: 49, "rerankers.md": 40, "search_model.md": 25, "a_table_for_the_paper.md": 20}


def test_programs_are_short() -> None:
    assert [
        page for page, most in MOST_LINES.items() if max(map(len, map(str.splitlines, programs(page)))) > most
    ] == []


def test_a_plain_loop_trains_and_is_evaluated_as_by_ir_measures(names: dict[str, Any]) -> None:
    values = rb.metric("nDCG@10")(names["scores"], names["test"].relevance, names["test"].offsets)
    assert names["ours"] == pytest.approx(float(values.nan_to_num().mean()))
    assert names["ours"] == pytest.approx(names["theirs"], abs=1e-9)
    assert values.isnan().sum() == N_TOPICS["test"] // 4
    assert float(values.nanmean()) > 0.9


# Lightning's: on its own use of PyTorch, on loaders without processes of their own, and on machines with SLURM.
@pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning")
@pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers")
@pytest.mark.filterwarnings("ignore:The `srun` command is available on your system")
def test_lightning_logs_the_mean_over_the_lists(names: dict[str, Any]) -> None:
    pytest.importorskip("pytorch_lightning", reason="the extra dev is not installed")
    exec(program("Lightning"), names)
    lists = names["validation"]
    with torch.no_grad():
        scores = names["ranker"].network(torch.from_numpy(lists.features))
    expected = rb.metric("nDCG@10")(scores, lists.relevance, lists.offsets).nanmean()
    assert float(names["ndcg"]) == pytest.approx(float(expected))
    assert float(names["ndcg"]) > 0.8


def test_the_trainer_of_transformers_trains_on_lists_of_any_length(names: dict[str, Any]) -> None:
    pytest.importorskip("sentence_transformers", reason="the extra rerankers is not installed")
    from benchmarks.losses import tiny_reranker

    tiny_reranker(Path("reranker"))
    exec(program("The Trainer of transformers"), names)
    trainer, batch = names["trainer"], names["join"](names["queries"])
    texts = {name: values for name, values in batch.items() if name != "labels"}
    with torch.no_grad():
        scores = names["reranker"].eval()(**texts).logits.flatten()
        value = trainer.compute_loss(names["reranker"], dict(batch))
    relevance, offsets = torch.tensor([2, 1, 0, 1, 0]), torch.tensor([0, 3, 5])
    torch.testing.assert_close(value, names["loss"](scores, relevance, offsets, reduction="mean"))
    expected = rb.metric("nDCG@10")(scores, relevance, offsets)
    assert names["evaluated"]["eval_ndcg"] == pytest.approx(float(expected.mean()))
    assert trainer.state.global_step == 3

    # A last batch that is not full, and longer lists in another batch.
    more = [*names["queries"], *names["queries"][::-1], names["queries"][1]]
    trainer.args.per_device_eval_batch_size = 2
    assert trainer.evaluate(more)["eval_ndcg"] == pytest.approx(float(expected[[0, 1, 1, 0, 1]].mean()))


@pytest.mark.long
def test_two_processes_train_the_network_of_one(first: dict[str, Any], folder: Path) -> None:
    """Of informative lists that are spread unevenly: the mean of two means would be another."""
    command, *words = program("Several processes", "sh").split()
    assert command == "torchrun"
    (folder / words[-1]).write_text(program("Several processes"), encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}", "OMP_NUM_THREADS": "1"}
    launched = [sys.executable, "-m", "torch.distributed.run", *words]
    subprocess.run(launched, cwd=folder, env=environment, check=True, timeout=PATIENCE)
    found = torch.load(folder / "network.pt")

    torch.manual_seed(0)
    alone = first["network"]()
    optimizer = torch.optim.SGD(alone.parameters(), lr=0.1)
    for epoch in range(3):
        order = torch.randperm(N_TOPICS["train"], generator=torch.Generator().manual_seed(epoch))
        for topics in order.split(32):
            batch = rb.collate([first["train"][int(topic)] for topic in topics])
            optimizer.zero_grad()
            first["loss"](alone(batch.features), batch.relevance, batch.offsets, reduction="mean").backward()
            optimizer.step()
    for name, weight in alone.state_dict().items():
        torch.testing.assert_close(found[name], weight, rtol=1e-6, atol=1e-6)


# PyTorch's own.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.filterwarnings("ignore:.*Function.* should not be instantiated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0")
def test_compiled_models_and_steps_have_the_loss_of_others(names: dict[str, Any]) -> None:
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    exec(program("Compiled models"), names)
    torch.testing.assert_close(names["inside"], names["outside"])
    assert names["inside"].requires_grad
    assert counters["stats"]["unique_graphs"] == 2  # for the model and the step, whatever the number of items
    exec(program("Mixed precision"), names)
    (single,) = torch.autograd.grad(names["inside"], [names["model"][2].weight])
    (half,) = torch.autograd.grad(names["value"], [names["model"][2].weight])
    torch.testing.assert_close(half, single, rtol=0.1, atol=0.1 * float(single.abs().max()))
    scores = torch.linspace(1, 2, 1000)[:-1].to(torch.bfloat16)
    assert len(scores.unique()) == 129


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
def test_transforms_agree_with_one_another(names: dict[str, Any]) -> None:
    exec(program("Transforms of torch.func"), names)
    assert names["slope"].abs().max() > 1e-3
    parameters = dict(names["model"].named_parameters())
    assert {name: slope.shape for name, slope in names["slopes"].items()} == {
        name: (3, *value.shape) for name, value in parameters.items()
    }


PAGES = ("add_a_metric", "clicks", "coming_from", "index", "unbiased_learning", "ways_to_use_a_metric")
OWN_DATA = "your_own_data.md"


@pytest.mark.parametrize("page", PAGES)
def test_the_page_is_true(page: str) -> None:
    if page in ("coming_from", "ways_to_use_a_metric"):
        pytest.importorskip("torchmetrics", reason="the extra torchmetrics is not installed")
    if page == "coming_from":
        pytest.importorskip("pytrec_eval", reason="pytrec_eval is not installed")
        pytest.importorskip("xgboost", reason="xgboost is not installed")
    names: dict[str, Any] = {}
    compared = 0
    for code in programs(f"{page}.md"):
        for statement in ast.parse(code).body:
            lines = code.splitlines()[statement.lineno - 1 : statement.end_lineno]
            shown = re.search(r"# = (.*)$", lines[-1])
            if isinstance(statement, ast.Expr) and shown:
                values = eval("\n".join(lines), names)
                found = np.concatenate(
                    [np.ravel(value) for value in (values if isinstance(values, tuple) else [values])]
                )
                expected = [float(number) for number in shown[1].split(",")]
                np.testing.assert_allclose(found, expected, atol=0.51 * 10.0 ** -digits(shown[1]), err_msg=lines[0])
                compared += 1
            else:
                exec(compile(ast.Module([statement], []), page, "exec"), names)
    assert compared


def digits(text: str) -> int:
    return min(len(number.partition(".")[2]) for number in text.replace("nan", "0.0000").split(","))


def test_texts_that_replace_others_and_comments_beside_values_are_true() -> None:
    pattern = (
        r'(?:rb\.(loss|metric|SmoothLoss|boosting_objective)\(|(ListwiseLoss)\(model, )"([^"]+)"(?:,\s+names="(.*?)")?'
    )
    texts = re.findall(pattern, text_of("coming_from.md"))
    assert len(texts) > 60
    for kind, reranker, text, tool in texts:
        read = rb.metric if kind == "metric" else rb.loss
        assert read(text, names=tool or "rankbound") is not None, (kind, reranker)
    (text,) = [text for text in programs(OWN_DATA) if "from_list_column" in text]
    names: dict[str, Any] = {}
    setup, shown = "import polars as pl\nimport rankbound as rb\n", re.findall(r"# tensor\(\[(.*?)\]", text)
    exec(setup + text.replace("rb.metric(", "value = rb.metric("), names)
    assert names["value"].tolist() == pytest.approx([float(number) for number in shown[0].split(",")], abs=5e-5)


@pytest.mark.parametrize("tool", coming_from.OF)
def test_the_numbers_of_a_tool_that_is_not_installed_here_are_ours(tool: str) -> None:
    """Theirs are stored by a command, which the page names; ours are computed again."""
    begin, end = around(f"benchmarks.coming_from --only {tool}")
    written = text_of("coming_from.md").partition(begin)[2].partition(end)[0]
    rows = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in written.splitlines() if "| `" in line]
    assert re.search(r"With \w+ \d", written)
    assert [row[0] for row in rows] == list(coming_from.OF[tool])
    for theirs, value, here, same in rows:
        text, computed = coming_from.ours(tool, theirs, coming_from.lists(coming_from.OF[tool][theirs]))
        assert text == here
        assert computed == pytest.approx(float(same), abs=1e-8)
        assert float(value) == pytest.approx(float(same), abs=1e-7)


def test_the_environment_of_those_tools_has_what_the_programs_import() -> None:
    """What is imported with the modules; torch brings some of it."""
    root, imported = Path(coming_from.__file__).parent, set[str]()
    for name in ("__init__", "coming_from", "data", "evaluators", "features", "losses", "page", "runner"):
        for node in ast.parse((root / f"{name}.py").read_text("utf-8")).body:
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            imported |= {one.partition(".")[0] for one in names}
    others = imported - sys.stdlib_module_names - {"benchmarks", "rankbound", "torch", "numpy", "jinja2"}
    listed = (root.parent / "envs/names.txt").read_text("utf-8").split()
    assert {"pyyaml" if name == "yaml" else name for name in others} <= {*listed}


@pytest.mark.long
def test_the_page_on_ones_own_data_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: Program, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = follow(OWN_DATA, program, capsys, close=0.02)
    kinds = [kind for kind, _ in blocks(OWN_DATA)]
    assert " ".join(kinds) == "sh python sh text python python python sh python sh python sh sh sh"
    assert names["ndcg"].shape == (40,)
    assert np.nanmean(names["plain"]) > 0.85
    made = {"model.safetensors", "run.txt", "runs", "train.arrow", "packed.safetensors"}
    made |= {"ratings.csv", "later.csv", "films.safetensors", "later.txt", "Fold1", "Fold2", "splits"}
    assert {path.name for path in tmp_path.iterdir()} == {"train.csv", "test.csv", *made}


# A model for search, and serving it
SEARCH, SERVE = "search_model.md", "Serve"


def test_the_page_takes_a_log_to_scores_and_serves_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: Program
) -> None:
    """In Python and by commands; rows of JSON, with and without values; a mistake in them is the client's."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for text in programs(SEARCH)[:-1]:
        exec(text, names)
    ranker, lists = names["ranker"], names["lists"]
    assert names["ndcg"] > 0.85
    assert names["tested"].evaluate("nDCG@10").means()["nDCG@10"] > 0.85
    assert list(lists.feature_names) == ["price", "stars", "brand", "in_stock"]
    assert names["best_first"].tolist() == [0, 1]
    np.testing.assert_array_equal(names["run"].scores, ranker.score_lists(names["later"]).scores)
    assert "price is missing" in ranker.encoding.inputs
    by_page = Path("model.safetensors").read_bytes()
    ((_, text),) = [block for block in blocks(SEARCH) if block[0] == "sh"]
    for line in text.splitlines():
        printed = program(line.removeprefix("rankbound "))
    # The command is the program: the same bytes.
    assert Path("model.safetensors").read_bytes() == by_page
    assert f"nDCG@10  {names['ndcg']:.4f}" in printed

    pytest.importorskip("fastapi", reason="fastapi is not installed: pip install '.[serving]'")
    with warnings.catch_warnings():
        # Of its own dependencies.
        warnings.simplefilter("ignore")
        from fastapi.testclient import TestClient

        exec(*programs(SEARCH, SERVE), names)
        client = TestClient(names["app"])
        scored = client.post("/score", json=names["rows"])
        assert scored.status_code == 200, scored.text
        assert scored.json() == ranker.score(names["rows"]).tolist()
        assert client.get("/health").json() == names["model"].info
        refused = client.post("/score", json=[{"price": "cheap", "stars": 1, "brand": "acme", "in_stock": True}])
        assert (refused.status_code, "column 'price' holds 'cheap'" in refused.json()["detail"]) == (422, True)
        assert client.post("/score", json=[{"price": 1.0}]).status_code == 422


def test_the_page_on_serving_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("torch.set_num_threads", lambda count: None)
    names: dict[str, Any] = {}
    for text in programs("serving.md"):
        exec(text, names)
    assert len(names["same"]) == 50
    assert all(np.array_equal(scores, names["scores"]) for scores in names["same"])
    cells = re.findall(r"^\| (`.*?) \|", text_of("serving.md"), re.MULTILINE)
    assert {*names["info"]} == {*re.findall(r"`(\w+)`", " ".join(cells))}


def test_known_categories_keep_their_places() -> None:
    """A model of LightGBM reads the places of its training; with a ranker of one's own, they make no difference."""
    frame = pl.DataFrame({"topic": [1, 1, 2], "relevance": [0, 1, 1], "brand": ["c", "x", "a"]})
    known = {"brand": ["a", "b", "c"]}
    lists = rb.read_lists(frame, categorical=known, missing_features="keep")
    assert lists.categories == known
    np.testing.assert_array_equal(lists.features[:, 0], [2, np.nan, 0])
    message = "row 1: column 'brand' holds 'x', expected one of its 3 known categories; missing_features='keep' reads"
    with pytest.raises(rb.errors.DataError, match=message):
        rb.read_lists(frame, categorical=known)
