"""The report's page in a real browser without a network: what it shows, how its tables sort, that it fits a phone."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from test_document import DRAWN, results_folder

from rankbound.cli import main

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no browser here: `apt-get install chromium` for these tests")

PROBE = """<script>
const failures = [];
addEventListener("error", event => failures.push(event.message));
addEventListener("securitypolicyviolation", event => failures.push(event.violatedDirective));
addEventListener("load", () => {
  const column = (table, index) => [...table.tBodies[0].rows].map(row => row.cells[index].textContent.trim());
  const table = document.querySelector("#table-5-1 table.sortable"), headings = [...table.tHead.rows[0].cells];
  const index = headings.findIndex(heading => heading.classList.contains("number"));
  const before = column(table, index), found = {before};
  for (const name of ["ascending", "descending", "original"]) {
    headings[index].querySelector("button").click();
    found[name] = column(table, index);
    found[name + " told"] = headings[index].getAttribute("aria-sort");
  }
  found.failures = failures;
  found.text = document.body.innerText;
  found.drawings = [...document.querySelectorAll("svg.figure")].map(one => one.getBoundingClientRect().width);
  found.overflow = document.documentElement.scrollWidth - innerWidth;
  found.background = getComputedStyle(document.body.parentElement).backgroundColor;
  const told = document.createElement("script");
  told.type = "application/json"; told.id = "found"; told.textContent = JSON.stringify(found);
  document.body.append(told);
});
</script></head>"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with a claims table, and with a script in its head that reports what it sees."""
    folder = results_folder(tmp_path_factory.mktemp("page"))
    assert main(["claims", "--out-dir", str(folder / "tables")]) == 0
    html = folder / "index.html"
    assert main(["document", "--results", str(folder), "--out", str(folder / "a.pdf"), "--html", str(html)]) == 0
    html.write_text(html.read_text("utf-8").replace("</head>", PROBE, 1), "utf-8")
    return html


def seen(page: Path, profile: Path, *flags: str) -> dict[str, Any]:
    assert BROWSER is not None
    always = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    always += ["--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=5000", f"--user-data-dir={profile}"]
    drawn = subprocess.run(
        [BROWSER, *always, *flags, "--dump-dom", page.as_uri()], capture_output=True, text=True, check=True, timeout=300
    ).stdout
    told = re.search(r'<script type="application/json" id="found">(.*?)</script>', drawn, re.DOTALL)
    assert told, "the page's scripts did not run to their end"
    found: dict[str, Any] = json.loads(told[1])
    return found


@pytest.fixture(scope="module")
def light(page: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return seen(page, tmp_path_factory.mktemp("profile"), "--window-size=1300,900")


def test_nothing_fails_and_nothing_is_asked_of_the_network(light: dict[str, Any]) -> None:
    assert light["failures"] == []


def test_findings_claims_and_drawings_are_there(light: dict[str, Any]) -> None:
    assert "Of 73 claims of the seeds" in light["text"]
    assert "A list with all relevant items at the bottom can score higher" in light["text"]
    assert "Table 5.1" in light["text"]
    assert len(light["drawings"]) == len(DRAWN)
    assert min(light["drawings"]) > 400


def test_a_column_of_numbers_sorts_up_down_and_back(light: dict[str, Any]) -> None:
    numbers = [[float(text.split()[0]) for text in light[name]] for name in ("ascending", "descending")]
    assert numbers[0] == sorted(numbers[0])
    assert numbers[1] == sorted(numbers[1], reverse=True)
    assert numbers[0] != numbers[1]
    assert light["original"] == light["before"]
    assert [light[f"{name} told"] for name in ("ascending", "descending", "original")] == [
        "ascending",
        "descending",
        None,
    ]


def test_a_phone_needs_no_sideways_scrolling(page: Path, tmp_path: Path) -> None:
    assert seen(page, tmp_path, "--window-size=500,900")["overflow"] <= 0


def test_dark_pages_for_those_who_want_them(page: Path, light: dict[str, Any], tmp_path: Path) -> None:
    dark = seen(page, tmp_path, "--window-size=1300,900", "--blink-settings=preferredColorScheme=0")
    assert sum(map(int, re.findall(r"\d+", light["background"])[:3])) > 3 * 200
    assert sum(map(int, re.findall(r"\d+", dark["background"])[:3])) < 3 * 60
