"""Pages run as they stand: their configurations and commands are valid, their examples give what they say."""

import re
import shlex
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from rankbound import cli
from rankbound_study import cli as study
from rankbound_study.config.job import TrainingJob
from rankbound_study.figures.style import house_style
from rankbound_study.report.blocks import TableFiles, plain_texts
from rankbound_study.results.study_files import StudyFiles
from tests.study.synthetic_runs import write_runs
from website import WRITTEN

pytest.importorskip("scipy.stats", reason="the statistics need scipy")

ROOT = Path(__file__).resolve().parents[2]


VALID = yaml.safe_load((ROOT / "tests/reference/valid_studies.yaml").read_text("utf-8"))


@pytest.mark.parametrize(("page", "expected"), VALID["pages"])
def test_what_the_pages_configure_is_valid_and_no_more_than_they_say(
    page: str, expected: list[str], tmp_path: Path, told: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / page).read_text("utf-8"), flags=re.DOTALL)
    monkeypatch.chdir(ROOT)
    for block, text in zip(blocks, expected, strict=True):
        (tmp_path / "mine.yaml").write_text(block, encoding="utf-8")
        assert text in told("check-config", "config.yaml", tmp_path / "mine.yaml")


@pytest.mark.parametrize(("files", "expected"), VALID["profiles"])
def test_the_configurations_of_whole_studies_are_valid(
    files: str, expected: str, told: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    paths = [name if name.endswith("yaml") else f"profiles/{name}/study.yaml" for name in files.split()]
    found = told("check-config", *paths)
    assert expected in found
    if "mslr" in files:
        assert expected in found.splitlines(keepends=True)[0]
        assert "experiment" not in found


def test_the_options_in_the_help_of_a_training_are_whole() -> None:
    words = shlex.split(study.STEPS["job"].help)
    given = [after for word, after in pairwise(words) if word == "--options"]
    assert [TrainingJob.parse(options).method for options in given] == ["", "Rank-LR"]


# The page on extensions: its figure is drawn, its table made, and the files and packages that it names exist

PAGE = (ROOT / "docs" / "extend.md").read_text("utf-8")


def module_of_the_page(number: int) -> dict[str, Any]:
    module: dict[str, Any] = {}
    exec(re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)[number], module)
    return module


def test_the_figure_of_the_page_is_drawn(tmp_path: Path) -> None:
    module = module_of_the_page(0)
    assert list(module["FIGURES"]) == ["figure_9_9"]
    with house_style():
        module["expected_ap"]().savefig(tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").stat().st_size > 1000


def test_the_table_of_the_page_is_made_and_read_back(tmp_path: Path) -> None:
    module = module_of_the_page(1)
    runs = write_runs(tmp_path / "runs.parquet", topics=4)
    table = module["make_losses"]("table_losses", StudyFiles(runs), study="thesis")
    (spec,) = module["TABLES"].values()
    TableFiles(table, plain_texts(spec.layout(table))).write(tmp_path, "table_losses")
    (block,) = spec.shown("table_losses", tmp_path)
    assert {"AP", "nDCG", "nRBP"} <= {loss.text for loss, _ in block.rows}
    assert "| AP | " in (tmp_path / "table_losses.md").read_text("utf-8")


def test_the_files_that_the_page_names_exist() -> None:
    named = re.findall(r"`((?:src|tests)/[^`]*?)`", PAGE)
    assert len(named) > 8
    folders = [name.replace("NAME.py", "") for name in named]
    assert [name for name in folders if not list(ROOT.glob(name))] == []


# The page on statistics runs as it stands, block after block, in an empty folder

STATISTICS = (Path(__file__).resolve().parents[2] / "docs" / "statistics.md").read_text("utf-8")
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_NUMBER = re.compile(r"[-+]?\d+\.\d+")


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    tables = []
    for kind, text in _BLOCK.findall(STATISTICS):
        capsys.readouterr()
        if kind == "python":
            exec(text, names)
        elif kind == "sh":
            for command, *arguments in [shlex.split(line) for line in text.splitlines() if line[:4] != "pip "]:
                assert command == "rankbound"
                assert cli.main(arguments) == 0, (arguments, capsys.readouterr().err)
        printed = capsys.readouterr().out
        if printed.startswith("A: "):
            tables.append(printed)
        elif kind == "text":
            # The same table, with numbers that another processor may round otherwise.
            assert _NUMBER.sub("#", tables[-1]).split() == _NUMBER.sub("#", text).split()
            found, expected = (list(map(float, _NUMBER.findall(one))) for one in (tables[-1], text))
            assert found == pytest.approx(expected, abs=2e-3)
    assert len(tables) == 2
    # The last block prints the intervals and Holm's p-values of the first table, of a family of two.
    shown = [line.split() for line in printed.splitlines()]
    assert [line[0] for line in shown] == re.findall(r"^(?:nDCG@10|AP) .*? ([-+]\d\.\d{4}) ", tables[0], re.MULTILINE)


def test_every_flag_that_is_named_exists(capsys: pytest.CaptureFixture[str]) -> None:
    for program in (cli, study):
        with pytest.raises(SystemExit):
            program.main(["compare", "--help"])
    known = capsys.readouterr().out
    flags = set(re.findall(r"(--[a-z][a-z-]+)", STATISTICS)) - {"--per-topic"}
    assert [flag for flag in sorted(flags) if flag not in known] == []


# The README's example runs and gives what it says; its commands are valid ones

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = ("README.md", "CONTRIBUTING.md", "config/README.md")


def test_the_library_example_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    printed = capsys.readouterr().out.splitlines()
    said = re.findall(
        r"^print\(.*?\)  # (tensor\(\[[\d., ]+\], dtype=torch.float64\)|[\d.]+)", example, flags=re.MULTILINE
    )
    assert len(printed) == len(said) == 4
    assert printed[0] == said[0]
    assert [float(line) for line in printed[1:]] == pytest.approx([float(text) for text in said[1:]], abs=5e-5)
    assert names["scores"].grad.abs().sum() > 0


@pytest.mark.parametrize(
    "page",
    [*(ROOT / name for name in PAGES), *sorted((ROOT / "docs").rglob("*.md"))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    written = [(ROOT / "docs" / name).resolve() for name in WRITTEN]
    places = [(page.parent / target).resolve() for target in targets]
    assert [place for place in places if not place.exists() and place not in written] == []


def test_every_make_target_that_is_named_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"^make (\w+)|`make (\w+)`", README, flags=re.MULTILINE)):
        name = next(filter(None, target))
        assert re.search(rf"^{name}:", makefile, flags=re.MULTILINE), f"make {name}"


@pytest.mark.parametrize(("program", "of"), [("rankbound", cli), ("python -m rankbound_study", study)])
def test_every_command_that_is_named_has_these_arguments(program: str, of: ModuleType) -> None:
    lines = re.findall(rf"^(?:\(`)?{program} ([a-z-]+ [^`#\n]+)", README, flags=re.MULTILINE)
    assert len(lines) >= 3
    for line in lines:
        assert of.own_parser().parse_args(shlex.split(line)).run


def test_the_library_tells_where_steps_of_the_study_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["convert", "mq2008"]) == 2
    assert "expected one of pack, train, " in (told := capsys.readouterr().err)
    assert "as `python -m rankbound_study convert mq2008`" in told


def test_the_page_of_the_configuration_names_every_section() -> None:
    page = (ROOT / "config" / "README.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (`.+?) \|", page, flags=re.MULTILINE)
    named = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(named) == sorted(yaml.safe_load((ROOT / "config.yaml").read_text("utf-8")))
