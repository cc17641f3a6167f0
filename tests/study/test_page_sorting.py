"""Numbers as the report prints them sort as numbers, in a real browser."""

from pathlib import Path

from test_page_in_browser import pytestmark as pytestmark
from test_page_in_browser import seen, with_probe

from rankbound_study.report import render
from rankbound_study.report.columns import Cell, TableBlock
from rankbound_study.report.content import Document, ReportSection

NUMBERS = ("−0.0051", "+0.0002", "–", "1,200", "−0.4000", "0.7 – 0.9", "30", "1,200,000")
SORTED = ["−0.4000", "−0.0051", "+0.0002", "0.7 – 0.9", "30", "1,200", "1,200,000", "–"]

PROBE = """<script>
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
    (tmp_path / "index.html").write_text(with_probe(text, PROBE), "utf-8")
    assert seen(tmp_path / "index.html", tmp_path / "profile")["ascending"] == SORTED
