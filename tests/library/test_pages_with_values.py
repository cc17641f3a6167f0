"""The pages of the library that show values run from top to bottom, and give what they say."""

import ast
import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

import rankbound as rb

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = ("add_a_metric.md", "coming_from.md", "index.md", "unbiased_learning.md", "ways_to_use_a_metric.md")


@pytest.mark.parametrize("page", PAGES)
def test_the_page_is_true(page: str) -> None:
    if page in ("coming_from.md", "ways_to_use_a_metric.md"):
        pytest.importorskip("torchmetrics", reason="the extra torchmetrics is not installed")
    names: dict[str, Any] = {}
    compared = 0
    for block in re.findall(r"^ *```python\n(.*?)^ *```", (DOCS / page).read_text("utf-8"), re.DOTALL | re.MULTILINE):
        code = dedent(block)
        lines = code.splitlines()
        for statement in ast.parse(code).body:
            source = "\n".join(lines[statement.lineno - 1 : statement.end_lineno])
            shown = re.search(r"# = (.*)$", source)
            if isinstance(statement, ast.Expr) and shown:
                values = as_tuple(eval(source, names))
                found = np.concatenate([np.ravel(value) for value in values])
                expected = [float(number) for number in shown[1].split(",")]
                np.testing.assert_allclose(found, expected, atol=0.51 * 10.0 ** -digits(shown[1]), err_msg=source)
                compared += 1
            else:
                exec(compile(ast.Module([statement], []), page, "exec"), names)
    assert compared


def test_the_texts_that_replace_those_of_other_libraries_are_read() -> None:
    page = (DOCS / "coming_from.md").read_text("utf-8")
    texts = re.findall(r'(?:rb\.(loss|metric|SmoothLoss|boosting_objective)\(|(ListwiseLoss)\(model, )"([^"]+)"', page)
    assert len(texts) > 60
    for kind, reranker, text in texts:
        assert (rb.metric(text) if kind == "metric" else rb.loss(text)) is not None, (kind, reranker)


def as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def digits(text: str) -> int:
    """The fewest digits behind the point among the numbers shown."""
    return min(len(number.partition(".")[2]) for number in text.replace("nan", "0.0000").split(","))
