"""Pages run as they stand, the site names what exists, and what a release states agrees."""

import inspect
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import rankbound as rb
from rankbound import cli
from rankbound.bounds.base import kinds as bounds
from rankbound.errors import DataError
from rankbound.losses import KINDS as LOSSES
from rankbound.metrics import KINDS as METRICS
from rankbound_study import cli as study
from rankbound_study import figures
from rankbound_study.config.code_digests import LIBRARY, STUDY
from rankbound_study.config.job import TrainingJob
from rankbound_study.config.sections.base import SOURCES, of_flag
from rankbound_study.provenance.manifest import make_manifest, write_manifest
from rankbound_study.report.blocks import Document, ReportSection
from tests.release import __main__ as release
from tests.release.__main__ import COMMAND_LINE, disagreements, lowest, version_of
from tests.study.planted import write_runs
from website import WRITTEN, gallery, name_check, pages, report
from website.__main__ import main

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


# The page on extensions: its modules, and one of a claim, are all that a figure, a table and a claim need

PAGE = (ROOT / "docs" / "extend.md").read_text("utf-8")
CLAIM = """
from rankbound_study.claims.registry import decides
from rankbound_study.claims.verdicts import CONFIRMED, Ruling


@decides("X01")
def new_claim(evidence):
    return Ruling(CONFIRMED, {"less": "One", "more": "two"}, n=1)
"""
ENTRY = """
another group:
- {id: X01, source: another source, claim: One is less than two., kind: theorem, how_to_test: Compare them.,
   reason: "{less} is less than {more}."}
"""
SCRIPT = """
import json
from pathlib import Path
from rankbound_study import figures
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import claims, verdict_on
from rankbound_study.report import tables
from rankbound_study.results.study_files import StudyFiles

made = tables.make("table_losses", StudyFiles(Path("runs.parquet")), {"study": "thesis"})
made.write(Path(), "table_losses")
(block,) = tables.table_specs()["table_losses"].shown("table_losses", Path())
verdicts = [verdict_on(one.id, Evidence("thesis")).reason for one in claims() if one.id == "X01"]
size = figures.draw("figure_9_9").get_size_inches().tolist()
print(json.dumps([figures.title("figure_9_9"), size[1], verdicts, [row[0].text for row in block.rows]]))
"""


def test_a_module_is_all_that_a_figure_a_table_or_a_claim_needs(tmp_path: Path) -> None:
    for package in (LIBRARY, STUDY):
        shutil.copytree(SOURCES / package, tmp_path / package)
    figure, table = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)[:2]
    for place, text in {"figures/expected": figure, "report/tables/losses": table, "claims/less_than": CLAIM}.items():
        (tmp_path / STUDY / f"{place}.py").write_text(text, "utf-8")
    with (tmp_path / STUDY / "reference" / "claims.yaml").open("a", encoding="utf-8") as file:
        file.write(ENTRY)
    write_runs(tmp_path / "runs.parquet", topics=4)
    call: dict[str, Any] = {"env": {**os.environ, "PYTHONPATH": str(tmp_path)}, "cwd": tmp_path, "check": True}
    result = subprocess.run([sys.executable, "-c", SCRIPT], **call, capture_output=True, text=True)
    title, height, verdicts, losses = json.loads(result.stdout)
    assert (title, height, verdicts) == ("Figure 9.9", 2.5, ["One is less than two."])
    assert {"AP", "nDCG", "nRBP"} <= set(losses)
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


def test_the_page_on_statistics_runs_and_its_flags_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_targets_sections_options_and_places_of_steps_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"^make (\w+)|`make (\w+)`", README, flags=re.MULTILINE)):
        name = next(filter(None, target))
        assert re.search(rf"^{name}:", makefile, flags=re.MULTILINE), f"make {name}"
    page = (ROOT / "config" / "README.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (`.+?) \|", page, flags=re.MULTILINE)
    named = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(named) == sorted(yaml.safe_load((ROOT / "config.yaml").read_text("utf-8")))
    words = shlex.split(study.STEPS["job"].help)
    given = [after for word, after in pairwise(words) if word == "--options"]
    assert [of_flag(TrainingJob, options, "--options").method for options in given] == ["", "Rank-LR"]


@pytest.mark.parametrize(("program", "of"), [("rankbound", cli), ("python -m rankbound_study", study)])
def test_every_command_that_is_named_has_these_arguments(program: str, of: ModuleType) -> None:
    lines = re.findall(rf"^(?:\(`)?{program} ([a-z-]+ [^`#\n]+)", README, flags=re.MULTILINE)
    assert len(lines) >= 3
    for line in lines:
        assert of.own_parser().parse_args(shlex.split(line)).run


# The pages of the documentation site without building it: names, the reference, navigation, gallery, report

DOCS = ROOT / "docs"
CONFIGURED = yaml.safe_load((ROOT / "config.yaml").read_text("utf-8"))
NAVIGATION = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]


def test_the_pages_name_what_exists_and_navigation_and_reference_name_all() -> None:
    assert list(name_check.problems(DOCS)) == []
    entries = [entry for page in DOCS.rglob("*.md") for entry in name_check.ENTRY.findall(page.read_text())]
    for kind in (*METRICS.values(), *LOSSES.values(), *bounds().values()):
        names = {f"{kind.__module__}.{kind.__name__}", f"rankbound.{kind.__name__}"}
        assert len(names & set(entries)) == 1, kind
    listed = re.findall(r"[\w/]+\.md", NAVIGATION)
    assert sorted(listed) == sorted({*WRITTEN} | {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")})


def test_names_that_are_gone_are_told_with_page_and_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gone = {
        "call `rb.no_such_loss(scores)`": "rb.no_such_loss is no public name",
        "::: rankbound.losses.smooth.Gone": "rankbound.losses.smooth.Gone does not exist",
        "from rankbound.gone import loss": "rankbound.gone does not exist",
        "`rankbound.Gone.method`": "rankbound.Gone.method does not exist",
        "[a page](gone.md#place)": "gone.md does not exist",
        "![a picture](../images/gone.svg)": "../images/gone.svg does not exist",
    }
    (tmp_path / "docs/reference").mkdir(parents=True)
    text = "# A page\n\n`rb.metric`, rankbound.losses.smooth.SmoothLoss\n"
    (tmp_path / "docs/reference/page.md").write_text(text + "\n".join(gone))
    assert main(tmp_path / "docs") == 1
    error = capsys.readouterr().err
    for line, name in enumerate(gone.values(), 4):
        assert f"docs/reference/page.md:{line}: {name}" in error
    # Besides that, the reference lacks its entries.
    assert "0 entries `::: rankbound.metric`, expected one" in error


def test_the_gallery_has_every_figure_with_its_caption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gallery, "_drawn", lambda *place: False)
    assert gallery.write(tmp_path, tmp_path / "results", ["figure_1_1", "figure_5_2"]) == []
    text = (tmp_path / "gallery.md").read_text("utf-8")
    for name, spec in figures.figure_specs().items():
        assert f"{{ #{name} }}" in text
        assert spec.caption in re.sub(r"\\(.)", r"\1", text)
    assert "python -m rankbound_study figure figure_1_1 --out figure_1_1.svg" in text
    assert "snakemake --cores 2 results/figures/figure_5_2.svg" in text


def test_pictures_of_people_are_not_shown(tmp_path: Path) -> None:
    licensed = next(name for name, spec in figures.figure_specs().items() if spec.shows_pictures)
    results = tmp_path / "results"
    for name in (licensed, "figure_5_2"):
        file = figures.figure_file(results, name, ".svg")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("<svg/>", "utf-8")
    specs = figures.figure_specs()
    assert not gallery._drawn(licensed, specs[licensed], tmp_path, results)
    assert gallery._drawn("figure_5_2", specs["figure_5_2"], tmp_path, results)
    assert {file.name for file in tmp_path.glob("*.svg")} == {"figure_5_2.svg", "figure_5_2.dark.svg"}


def test_pages_from_code_have_every_name_and_colours_change_at_once(tmp_path: Path) -> None:
    (tmp_path / "reference").mkdir()
    pages.write(ROOT, tmp_path)
    names = (tmp_path / "reference" / "index.md").read_text("utf-8")
    for name in set(rb.__all__) - {"__version__"}:
        assert f"| `rb.{name}` | {(inspect.getdoc(getattr(rb, name)) or '').splitlines()[0]} |" in names
    assert "--bound" in (tmp_path / "reference" / "command_line.md").read_text("utf-8")
    assert "](docs/" not in (tmp_path / "changes.md").read_text("utf-8")
    assert gallery.recoloured("#000 #fff", {"#000": "#fff", "#fff": "#000"}) == "#fff #000"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A folder of results that has only tables, as in a fresh clone."""
    shutil.copytree(ROOT / "published_results" / "tables", tmp_path / "results" / "tables")
    return tmp_path / "results"


def drawing(folder: Path, name: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    drawn = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9" width="9pt" height="9pt"><g id="{text}"/></svg>'
    (folder / f"{name}.svg").write_text(drawn, "utf-8")


def test_the_report_is_made_from_tables_alone_and_names_what_it_lacks(results: Path, tmp_path: Path) -> None:
    docs, drawn = tmp_path / "docs", "figure_1_1"
    drawing(docs / "gallery", drawn, "from-the-gallery")
    # Pictures of people among them, which the gallery leaves out.
    specs = figures.figure_specs()
    for name in CONFIGURED["figures"]:
        drawing(figures.figure_file(results, name, ".svg").parent, name, "from-results")
    report.write(docs, results, [drawn], CONFIGURED)
    page, whole = ((docs / name).read_text("utf-8") for name in ("paper.md", "paper/index.html"))
    for name in ("rankbound.pdf", "paper.pdf"):
        assert (docs / "paper" / name).read_bytes().startswith(b"%PDF")
    assert "Questions and answers" in (docs / "paper" / "paper.html").read_text("utf-8")
    assert "from-the-gallery" in whole
    assert "from-results" not in whole
    for name in set(CONFIGURED["figures"]) - {drawn}:
        assert f"(gallery.md#{name})" in page
        assert f"<code>{gallery.command(name, specs[name], configured=True)}</code>" in whole
    assert f"(gallery.md#{drawn})" not in page
    for name in CONFIGURED["tables"]:
        assert (f"`{name}`" in page) != (results / "tables" / f"{name}.csv").exists()
    assert '<a href="../paper.html">' in whole
    assert "Does it train better rankers?" in page
    assert "(limitations.md)" in page


def test_the_page_marks_synthetic_data_and_shows_characters_as_they_are() -> None:
    sections = (
        ReportSection("abstract", "Abstract", "p < 5 % of $x$ and `y_i`"),
        *map(empty, ("findings", "provenance")),
    )
    page = report.page(Document("a*b*", "", synthetic=True, sections=sections), [], [])
    assert report.render.SYNTHETIC in page
    assert "a\\*b\\*." in page
    assert "p \\< 5\N{NO-BREAK SPACE}% of \\$x\\$ and \\`y\\_i\\`" in page
    assert "lacks" not in page


def empty(anchor: str) -> ReportSection:
    return ReportSection(anchor, anchor, "")


def test_finished_studies_name_their_file(results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report.render, "write_pdf", lambda *content: None)
    manifest = make_manifest(results, {"study": "mine", "protocols": ["honest"], "boundings": ["none"]})
    write_manifest(manifest, results / "provenance.json")
    report.write(tmp_path, results, [], CONFIGURED)
    page = (tmp_path / "paper.md").read_text("utf-8")
    assert re.search(r"configuration, SHA-256 \| [0-9a-f]{64} ", page)
    assert "(limitations.md)" not in page
    (results / "tables" / "table_claims.csv").write_text("changed", "utf-8")
    with pytest.raises(DataError, match=r"results/tables/table_claims\.csv: its content is not what"):
        report.write(tmp_path, results, [], CONFIGURED)


def test_a_damaged_table_or_drawing_is_named(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    docs = tmp_path / "docs"
    shutil.copytree(DOCS, docs, ignore=shutil.ignore_patterns("gallery", "paper"))
    drawing(docs / "gallery", "figure_5_2", "<")
    monkeypatch.setattr(gallery, "write", lambda *place: ["figure_5_2"])
    monkeypatch.setattr(pages, "write", lambda *place: None)
    assert main(docs, results) == 1
    assert f"{results}/figures/figure_5_2.svg: not as the step wrote it" in capsys.readouterr().err
    (results / "tables" / "table_5_1.csv").write_text("dataset\n\0", "utf-8")
    assert main(docs, results) == 1
    assert f"the report cannot be made: {results}/tables/table_5_1.csv: not as" in capsys.readouterr().err


# What a release states agrees, and a lie is found; the locked environment has every package with checksums

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone that is ready for the release of 1.2.0."""
    for name, text in {
        "src/rankbound/_version.py": '__version__ = "1.2.0"\n',
        "CITATION.cff": "cff-version: 1.2.0\nversion: 1.2.0\n",
        "CHANGELOG.md": "# Changes\n\n## 1.2.0 (2030-01-01)\n\n## 1.1.0\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def git(clone: Path, *arguments: str) -> None:
    named = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *named, *arguments], cwd=clone, check=True, capture_output=True)


def test_a_clone_that_agrees_has_nothing_to_do_and_the_versions_tag(clone: Path) -> None:
    assert version_of(clone) == "1.2.0"
    assert list(disagreements(clone)) == []
    git(clone, "init", "-q")
    git(clone, "add", ".")
    git(clone, "commit", "-q", "-m", "all")
    assert list(disagreements(clone)) == []
    git(clone, "tag", "v1.1.0")
    assert "has the tag v1.1.0, expected v1.2.0" in next(disagreements(clone))
    git(clone, "tag", "v1.2.0")
    assert list(disagreements(clone)) == []


@pytest.mark.parametrize(
    ("file", "before", "after", "expected"),
    [
        ("CITATION.cff", "\nversion: 1.2.0", "\nversion: 1.1.0", "CITATION.cff has the version 1.1.0, expected 1.2.0"),
        ("CITATION.cff", "\nversion: 1.2.0", "", "CITATION.cff has the version none, expected 1.2.0"),
        ("CHANGELOG.md", "1.2.0 (2030-01-01)", "Unreleased", "CHANGELOG.md begins with Unreleased: name that section"),
        ("CHANGELOG.md", "## 1.2.0 (2030-01-01)", "", "CHANGELOG.md begins with 1.1.0, expected 1.2.0"),
    ],
)
def test_what_states_another_version_is_named(clone: Path, file: str, before: str, after: str, expected: str) -> None:
    path = clone / file
    path.write_text(path.read_text().replace(before, after))
    (problem,) = disagreements(clone)
    assert problem.startswith(expected)


def test_this_clone_its_oldest_versions_and_its_pythons_agree() -> None:
    assert all("begins with Unreleased" in problem or "has the tag" in problem for problem in disagreements(ROOT))
    pins = dict(re.findall(r"^([\w-]+)==(\S+)", (ROOT / "envs/oldest.txt").read_text("utf-8"), re.MULTILINE))
    assert pins == lowest(PROJECT, COMMAND_LINE)
    claimed = [one.rpartition(" ")[2] for one in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", one)]
    assert tuple(claimed) == release.CLAIMED
    assert PROJECT["requires-python"] == f">={release.CLAIMED[0]}"


# The locked environment: every package at the version that the tests ran with, and with checksums

ENVS = ROOT / "envs"


def names_and_versions(text: str) -> dict[str, str]:
    pins = re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in pins}


def test_locked_packages_have_checksums_and_the_versions_of_the_tests() -> None:
    lock = (ENVS / "lock.txt").read_text("utf-8")
    entries = re.split(r"^(?=\w)", lock, flags=re.MULTILINE)[1:]
    assert len(entries) == len(names_and_versions(lock)) > 150
    for entry in entries:
        assert re.search(r"^    --hash=sha256:[0-9a-f]{64}", entry, re.MULTILINE), entry
    assert not re.search(r"https?:|file:|^-", lock, re.MULTILINE)
    lock, ran = (names_and_versions((ENVS / name).read_text("utf-8")) for name in ("lock.txt", "cpu.txt"))
    assert {name: lock[name] for name in lock.keys() & ran.keys()} == {
        name: ran[name] for name in lock.keys() & ran.keys()
    }
    # Those of other systems, and what installs the project.
    assert lock.keys() - ran.keys() == {"httpx2-jsfetch", "pyreadline3", "pywin32", "setuptools", "tzdata"}
    assert "torch" not in lock
