"""The report's page in a real browser without a network: what it shows, how its tables sort, that it fits a phone."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from test_document import DRAWN, results_folder
from test_svg_titles import told_figure

from rankbound_study.cli import main
from rankbound_study.figures import style
from rankbound_study.report import render
from rankbound_study.report.blocks import Cell, Document, ReportSection, TableBlock
from rankbound_study.report.render import policy_source
from tests.study.browser_pages import BROWSER, SCHEMES, broken_rules, driven, unseen_stops

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no browser here: `apt-get install chromium` for these tests")

PROBE = r"""<script>
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
  found.native = [...document.querySelectorAll("#figure-3-2 svg title")].map(title => title.textContent);
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
    with style.house_style():
        # In the place of a figure that is drawn from formulas.
        style.save(told_figure(), [folder / "figures" / f"figure_3_2.{kind}" for kind in ("svg", "pdf")])
    html = folder / "index.html"
    assert main(["document", "--results", str(folder), "--out", str(folder / "a.pdf"), "--html", str(html)]) == 0
    html.write_text(with_probe(html.read_text("utf-8"), PROBE), "utf-8")
    return html


def with_probe(page: str, probe: str) -> str:
    """Return the page with a script of the test at the end of its head, which the page's policy admits."""
    script = re.search(r"<script>(.*?)</script>", probe, re.DOTALL)
    assert script
    return page.replace("script-src ", f"script-src {policy_source(script[1])} ", 1).replace("</head>", probe, 1)


def seen(page: Path, profile: Path, *flags: str) -> dict[str, Any]:
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


def test_the_page_is_whole_and_asks_nothing_of_the_network(light: dict[str, Any]) -> None:
    assert light["failures"] == []
    for text in ("A list with all relevant items at the bottom can score higher", "Table 5.1"):
        assert text in light["text"]
    assert re.search(r"Of \d+ claims of the sources", light["text"])
    assert len(light["drawings"]) == len(DRAWN) + 1
    assert min(light["drawings"]) > 400
    # Titles of parts: browsers show them under the pointer.
    assert {"nothing, second set, above", "share, second set, below\none line: 0.1250"} <= set(light["native"])


def test_a_column_of_numbers_sorts_up_down_and_back(light: dict[str, Any]) -> None:
    up, down = ([float(text.split()[0]) for text in light[name]] for name in ("ascending", "descending"))
    assert (up, down) == (sorted(up), sorted(up, reverse=True))
    assert up != down
    assert light["original"] == light["before"]
    told = [light[f"{name} told"] for name in ("ascending", "descending", "original")]
    assert told == ["ascending", "descending", None]


def test_a_phone_needs_no_sideways_scrolling(page: Path, tmp_path: Path) -> None:
    assert seen(page, tmp_path, "--window-size=500,900")["overflow"] <= 0


def test_dark_pages_for_those_who_want_them(page: Path, light: dict[str, Any], tmp_path: Path) -> None:
    dark = seen(page, tmp_path, "--window-size=1300,900", "--blink-settings=preferredColorScheme=0")
    assert sum(map(int, re.findall(r"\d+", light["background"])[:3])) > 3 * 200
    assert sum(map(int, re.findall(r"\d+", dark["background"])[:3])) < 3 * 60


@pytest.mark.long
def test_screen_readers_and_the_keyboard_can_use_it(page: Path) -> None:
    with driven() as shown:
        assert {scheme: broken_rules(page, scheme, shown) for scheme in SCHEMES} == {scheme: [] for scheme in SCHEMES}
        assert unseen_stops(shown, 40) == []


# Numbers as the report prints them sort as numbers, in a real browser

NUMBERS = ("−0.0051", "+0.0002", "–", "1,200", "−0.4000", "0.7 – 0.9", "30", "1,200,000")
SORTED = ["−0.4000", "−0.0051", "+0.0002", "0.7 – 0.9", "30", "1,200", "1,200,000", "–"]

SORTING_PROBE = """<script>
addEventListener("load", () => {
  const table = document.querySelector("table.sortable");
  table.querySelector("button").click();
  const told = document.createElement("script");
  told.type = "application/json"; told.id = "found";
  told.textContent = JSON.stringify({ascending: [...table.tBodies[0].rows].map(row => row.textContent.trim())});
  document.body.append(told);
});
</script></head>"""


def test_minus_signs_and_thousands(tmp_path: Path) -> None:
    table = TableBlock("Numbers", "", ("number",), tuple((Cell(text),) for text in NUMBERS), 0, sortable=True)
    text = render.html(Document("t", "s", False, (ReportSection("a", "A", "", (table,)),)), tmp_path)
    (tmp_path / "index.html").write_text(with_probe(text, SORTING_PROBE), "utf-8")
    assert seen(tmp_path / "index.html", tmp_path / "profile")["ascending"] == SORTED
