"""Pages of `dvc plots` that draw without a network."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.workflow.project import Project


@pytest.fixture(scope="module")
def page(pulled: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of `dvc plots diff`, between the commit and a changed table."""
    clone = pulled.copy(tmp_path_factory.mktemp("plots") / "clone")
    table = clone.path("results/tables/table_5_1.csv")
    # Generated data have no printed scores: without any, nothing would be drawn.
    rows = [line.split(",") for line in table.read_text("utf-8").splitlines()]
    column = rows[0].index("published")
    rows[1][column] = "0.5"
    table.write_text("\n".join(",".join(row) for row in rows) + "\n", "utf-8")
    assert "written" in clone.run("rankbound_study", "offline-plots")
    clone.run("dvc", "plots", "diff", "HEAD", "-o", "pages")
    return clone.path("pages/index.html")


def test_a_page_names_nothing_outside_itself(page: Path) -> None:
    text = page.read_text("utf-8")
    assert "vegaEmbed(" in text
    outside = r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)\s*=\s*[\"'](?!data:)[^\"']*"
    assert re.findall(outside, _without_scripts(text)) == []
    assert "jsdelivr.net/npm/vega@" not in _without_scripts(text)


def test_a_browser_without_a_network_draws_it(page: Path, tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no browser here: `apt-get install chromium` for this test")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    flags += ["--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=5000", f"--user-data-dir={tmp_path}"]
    drawn = subprocess.run(
        [browser, *flags, "--dump-dom", page.as_uri()], capture_output=True, text=True, check=True, timeout=300
    ).stdout
    assert re.search(r"<canvas\b[^>]*\bclass=\"marks\"", drawn), "the scripts ran, but drew nothing"


def test_the_template_is_of_this_checkout_alone(page: Path) -> None:
    folder = page.parents[1]
    status = subprocess.run(["git", "status", "--short"], cwd=folder, check=True, capture_output=True, text=True).stdout
    assert ".dvc" not in status
    assert "html_template = offline_plots.html" in (folder / ".dvc/config.local").read_text("utf-8")


def test_outside_a_checkout_it_says_so(tmp_path: Path) -> None:
    assert "has no folder .dvc" in Project(tmp_path).run("rankbound_study", "offline-plots", status=2)


def _without_scripts(text: str) -> str:
    """The page without what is between the tags of its scripts, which name their authors' addresses."""
    return re.sub(r"(<script\b[^>]*>).*?(</script>)", r"\1\2", text, flags=re.DOTALL)
