"""The package: light to import, in need of torch and numpy alone; its types; signals that end its commands."""

import re
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from rankbound import cli
from tests.forks import run_with_torch

SOURCE = Path(__file__).parents[2] / "src"

ONLY_THE_CORE = """
import sys
from importlib.metadata import PackageNotFoundError, packages_distributions, requires

def with_dependencies(names):
    found, waiting = set(), list(names)
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        try:
            needed = requires(name) or []
        except PackageNotFoundError:
            continue
        if name not in found:
            found.add(name)
            plain = (line.partition(";")[0] for line in needed if "extra ==" not in line)
            waiting += [line.replace("[", " ").split()[0].rstrip("<>=!~,.0123456789()") for line in plain]
    return found

allowed = with_dependencies(["torch", "numpy"]) | {"rankbound"}
owners = packages_distributions()

class Blocker:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        distributions = {owner.lower().replace("_", "-") for owner in owners.get(top, ())}
        if distributions and not distributions & allowed:
            raise ModuleNotFoundError(f"{top} is not installed here", name=top)

sys.meta_path.insert(0, Blocker())

for blocked in ("pyarrow", "polars", "scipy", "pytest"):
    try:
        __import__(blocked)
    except ModuleNotFoundError:
        continue
    raise AssertionError(f"{blocked} was not blocked")
"""

EVERY_PUBLIC_NAME = """
import numpy as np
import torch
import rankbound as rb

scores, relevance, offsets = torch.tensor([0.5, 2.0, 1.0]), torch.tensor([1, 0, 1]), torch.tensor([0, 3])
arrays = [tensor.numpy() for tensor in (scores, relevance, offsets)]
for name in ("nDCG@2", "AP", "RR", "P@2", "RBP(p=0.8)", "nRBP(p=0.8)", "nRBP"):
    assert np.isfinite(rb.metric(name)(*arrays)).all()
    assert np.isfinite(rb.extremes(name, *arrays[1:])).all()
    assert rb.minimum(name, 5, 2) <= rb.expectation(name, 5, 2) <= rb.maximum(name, 5, 2)
assert rb.evaluate([rb.metric("AP")], *arrays)
for method in ("direct", "interpolated"):
    assert len(rb.smooth_rank(scores, offsets, method=method)) == 3
for name in ("nDCG", "AP", "nRBP"):
    for bound in ("none", "min-max", "expectation", "expectation-max", "distribution", "distribution(gain=sd)"):
        leaf = scores.clone().requires_grad_()
        rb.SmoothLoss(name, bound)(leaf, relevance, offsets).sum().backward()
        assert torch.isfinite(leaf.grad).all()
        assert np.isfinite(rb.bounded(name, bound)(*arrays)).all()
    for method in ("exact", "sampled"):
        found = rb.score_distribution(name, n=40, p=20, method=method, samples=100)
        assert 0 <= found.cdf(found.expectation) <= 1
for name in rb.__all__:
    getattr(rb, name)
"""


def run(code: str, *, with_torch: bool = False) -> None:
    """In a fresh process, whose failure shows its traceback; the source alone is importable as rankbound."""
    program = f"import sys; sys.path.insert(0, {str(SOURCE)!r})\n{code}"
    if with_torch:
        done = run_with_torch(program)
    else:
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


PROGRAMS = {
    "importing the package loads nothing heavy": """
import sys
before = set(sys.modules)
import rankbound
assert rankbound.__version__
assert dir(rankbound) == sorted(rankbound.__all__)
new = {name.partition('.')[0] for name in set(sys.modules) - before}
heavy = {name for name in new if name not in sys.stdlib_module_names} - {'rankbound'}
assert not heavy, heavy
try:
    rankbound.smoothrank
except AttributeError as error:
    assert 'smoothrank' in str(error)
else:
    raise AssertionError('a name that is not there is an attribute error')
""",
    "metrics are values without torch: texts, other tools' names, comparisons and closed forms of binary lists": """
import sys
import numpy as np
import rankbound as rb
metric = rb.metric('nDCG(gain=linear)@10')
assert metric == rb.metric('ndcg_cut_10', names='trec_eval') and str(metric) == 'nDCG(gain=linear)@10'
assert hash(metric) == hash(rb.metric('nDCG@10', names='ir_measures')) and metric.cutoff == 10
ranked = ('nDCG', 'AP', 'nRBP', 'P@5', 'RBP(p=0.8)', 'RR@40', 'Hit@1', 'ERR(max=4)')
for name in (*ranked, 'PairAccuracy', 'Rprec', 'Bpref'):
    mean = rb.expectation(name, 50, 25)
    assert rb.minimum(name, 50, 25) < mean < rb.maximum(name, 50, np.array(25))
    assert rb.metric(name).binary_expectation(np.array([50]), np.array([25])) == mean
assert 'torch' not in sys.modules
""",
    "small files are evaluated without torch and polars, tied relevant items and missing ones among them": """
import sys
from pathlib import Path
from rankbound.cli import main
Path('run.txt').write_text('q Q0 a 1 3 x\\nq Q0 b 2 2 x\\nq Q0 c 3 2 x\\nq Q0 d 4 1 x\\n')
Path('qrels.txt').write_text('q 0 b 2\\nq 0 e 1\\nq 0 a -1\\n')
metrics = ('nDCG@10', 'AP', 'RR', 'Hit@2', 'P@5', 'Recall@2', 'RBP(p=0.8)', 'SetF')
assert main(['evaluate', 'run.txt', 'qrels.txt', *(word for name in metrics for word in ('-m', name))]) == 0
assert not {'torch', 'polars', 'pyarrow'} & set(sys.modules)
""",
}
THE_EXTRA_IS_NAMED = """
from importlib import import_module
from rankbound.errors import RankboundError
extras = {"lightning_ir": "lightning-ir", "sentence_transformers": "rerankers", "torchmetrics": "torchmetrics"}
for module, extra in extras.items():
    try:
        import_module(f'rankbound.interop.{module}')
    except RankboundError as error:
        assert f"run pip install 'rankbound[{extra}]'" in str(error), error
    else:
        raise AssertionError(f'no error for {module}')
"""
WITH_TORCH = {
    "the core works without other packages": ONLY_THE_CORE + EVERY_PUBLIC_NAME,
    "an extra is named": ONLY_THE_CORE + THE_EXTRA_IS_NAMED,
    "arrays of Arrow are read without pandas and polars": """
import numpy as np, pyarrow as pa
from rankbound.columns import column_tensor, from_list_column
def arrow(values, kind):
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])
flat = arrow(np.arange(3.0), pa.float64())
lists = pa.ListArray.from_arrays(arrow(np.array([0, 2, 3], np.int32), pa.int32()), flat)
assert column_tensor(flat, 'scores').tolist() == from_list_column(lists)[0].tolist() == [0, 1, 2]
assert not {'pandas', 'polars'} & set(sys.modules)
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_without_torch(name: str, tmp_path: Path) -> None:
    run(f"import os; os.chdir({str(tmp_path)!r})\n{PROGRAMS[name]}")


@pytest.mark.parametrize("name", WITH_TORCH)
def test_with_torch(name: str) -> None:
    run(WITH_TORCH[name], with_torch=True)


def test_no_test_of_the_library_imports_the_study_as_the_library_itself() -> None:
    text = "import rankbound_" + "study", "from rankbound_" + "study"
    tests = Path(__file__).parent.glob("*.py")
    assert [file.name for file in tests if any(words in file.read_text("utf-8") for words in text)] == []


class Dying:
    """Does something while its destructor runs, whose exceptions Python drops."""

    def __init__(self, end: Callable[[], object]) -> None:
        self.end = end

    def __del__(self) -> None:
        self.end()


def turned_into_another_error() -> None:
    """As compiled code does, such as an import of pandas."""
    try:
        signal.raise_signal(signal.SIGTERM)
    except BaseException:
        raise AttributeError("partially initialised") from None


def sent_in_a_destructor() -> None:
    Dying(lambda: signal.raise_signal(signal.SIGTERM))
    time.sleep(5)


def not_sent() -> None:
    Dying(lambda: {}["no signal came"])
    raise KeyError("no signal came")


@pytest.mark.parametrize(
    ("work", "error", "dropped"),
    [
        (turned_into_another_error, cli._Signal, []),
        (sent_in_a_destructor, cli._Signal, []),
        (not_sent, KeyError, [KeyError]),
    ],
)
def test_a_signal_is_told_as_the_signal_and_other_errors_stay_what_they_are(
    work: Callable[[], None], error: type[BaseException], dropped: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda ignored: found.append(ignored.exc_type))
    with pytest.raises(error) as raised, cli._ended_by_signals():
        work()
    assert getattr(raised.value, "number", signal.SIGTERM) == signal.SIGTERM
    assert found == dropped


pytest.importorskip("mypy")

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import numpy as np
import torch
from torch import Tensor

import rankbound as rb

scores, relevance, offsets = torch.zeros(3, requires_grad=True), np.array([1, 0, 0]), [0, 3]
loss: Tensor = rb.loss("nDCG@10", "min-max")(scores, relevance, offsets, reduction="mean")
composed: Tensor = (0.5 * rb.loss("nDCG") + rb.loss("RankNet"))(scores, relevance, offsets, list_weights=[1.0])
value: Tensor = rb.metric("nDCG")([0.3, 0.1, 0.2], [1, 0, 0], [0, 3])
by_text: dict[str, Tensor] = rb.evaluate(["AP", "RR"], scores.detach(), relevance, offsets)
mean: dict[str, float] = rb.evaluate_run({"q": {"a": 1.0}}, {"q": {"a": 1}}, "AP").means()
"""
MISTAKES = {
    "rb.nDCG": 'Module has no attribute "nDCG"',
    'rb.loss("nDCG")(scores)': "Too few arguments",
    'rb.loss("nDCG")([0.1], relevance, offsets)': 'expected "Tensor"',
    'rb.loss("nDCG")(scores, relevance, offsets, reduction="average")': "reduction",
    'rb.loss("nDCG")(scores, relevance, offsets, weight=[1.0])': 'Unexpected keyword argument "weight"',
    'rb.loss("nDCG", temprature=2.0)': 'Unexpected keyword argument "temprature"',
    'rb.evaluate_run({}, {}, "AP").mean()': '"Evaluation" has no attribute "mean"',
}


def test_programs_are_typed_and_mistakes_are_found(tmp_path: Path) -> None:
    exec(PROGRAM, {})
    path = tmp_path / "program.py"
    path.write_text(PROGRAM + "".join(f"{line}\n" for line in MISTAKES), "utf-8")
    # The settings and the cache of `make lint`: alone, torch's types take most of a minute.
    known = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    # In a process of its own: the types of torch are ten million objects.
    command = [sys.executable, "-m", "mypy", *known, "--no-error-summary", str(path)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    found = checked.stdout
    assert not checked.stderr
    first = PROGRAM.count("\n") + 1
    by_line: dict[int, str] = defaultdict(str)
    # The cache may hold the errors of the same program elsewhere.
    for number, text in re.findall(r"program\.py:(\d+): (.*)", found):
        by_line[int(number)] += text
    assert sorted(by_line) == list(range(first, first + len(MISTAKES))), found
    for number, expected in enumerate(MISTAKES.values(), start=first):
        assert expected in by_line[number]
