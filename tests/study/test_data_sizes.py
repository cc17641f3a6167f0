"""The number of topics that check-config assumes: what is stated, or what the beginning of files tells."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rankbound_study.config.estimate import OTHER_LISTS, topics_of
from rankbound_study.config.sections.description import DescriptionKeys


def topics(description: dict[str, Any], **section: Any) -> int:
    described = DescriptionKeys.model_validate(description)
    sources = {"mine": SimpleNamespace(**{"size": None, **section})}
    study: Any = SimpleNamespace(sources=sources, generated=[], described=lambda source: described)
    return topics_of(study, "mine")


def letor(path: Path, queries: int) -> Path:
    lines = [f"{row % 3} qid:{10_000 + row // 8} 1:{row % 7} 2:0.25 3:1" for row in range(8 * queries)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("queries", [300, 12_000])
def test_queries_are_counted_in_short_files_and_estimated_in_long_ones(queries: int, tmp_path: Path) -> None:
    path = letor(tmp_path / "web.txt", queries)
    found = topics({"format": "letor", "path": str(path), "random_parts": 5})
    assert found == pytest.approx(queries, rel=0 if queries == 300 else 0.02)


def test_files_of_folds_repeat_the_queries(tmp_path: Path) -> None:
    for fold in (1, 2):
        for split in ("train", "test"):
            letor(tmp_path / f"{split}{fold}.txt", 100)
    pattern = {"count": 2, "train": ["train{fold}.txt"], "test": ["test{fold}.txt"]}
    assert topics({"format": "letor", "path": str(tmp_path), "fold_pattern": pattern}) == 200


def test_groups_are_the_lines_of_their_files(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt", "c.txt"):
        (tmp_path / name).write_text("0 1:1\n" * 40)
        (tmp_path / f"{name}.query").write_text("10\n" * 4)
    assert topics({"format": "lightgbm", "path": str(tmp_path), "parts": ["a.txt", "b.txt", "c.txt"]}) == 12


@pytest.mark.parametrize("header", [True, False])
def test_users_are_those_of_their_column(header: bool, tmp_path: Path) -> None:
    path = tmp_path / "ratings.dat"
    rows = [f"{row % 5}::{row // 40}::4" for row in range(2_000)]
    path.write_text("\n".join([*(["item::user::rating"] if header else []), *rows]) + "\n")
    names = ("user", "item", "rating") if header else ("2", "1", "3")
    columns = dict(zip(("topic", "item", "rating"), names, strict=True))
    description = {"format": "ratings", "path": str(path), "columns": columns, "separator": "::", "header": header}
    assert topics(description) == 50


def test_what_is_stated_or_not_to_be_seen(tmp_path: Path) -> None:
    (tmp_path / "web.txt.gz").write_bytes(b"")
    (tmp_path / "empty.txt").write_bytes(b"\n")
    assert topics({"format": "letor", "path": str(tmp_path / "empty.txt"), "random_parts": 5}) == OTHER_LISTS
    packed = {"format": "letor", "path": str(tmp_path / "web.txt.gz"), "random_parts": 5}
    assert topics(packed) == OTHER_LISTS
    assert topics({**packed, "sizes": {"topics": 70, "rows": 900}}) == 70
    assert topics(packed, size=33) == 33
