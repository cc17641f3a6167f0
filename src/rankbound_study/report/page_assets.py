"""Style sheet, scripts and fixed texts of the web page; without addresses, so the page opens offline."""

from rankbound_study.figures.style import DARK, GRID, INK, MUTED
from rankbound_study.report.inline_svg import variable
from rankbound_study.report.tooltip_script import TOOLTIP_SCRIPT, TOOLTIP_STYLE

SYNTHETIC_NOTICE = (
    "<b>Synthetic data.</b> These lists and labels were generated to try out the workflow. "
    "They say nothing about MovieLens, MQ2008 or the thesis."
)

# Pictures in drawings are embedded as data.
CONTENT_POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'"
)

_SORTING = """
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0], original = [...body.rows];
  const headings = [...table.tHead.rows[0].cells];
  // Numbers have a true minus and separators of thousands.
  const number = text => parseFloat(text.replace("−", "-").replace(/,(?=\\d{3})/g, ""));
  const value = (row, index) => row.cells[index].firstChild ? row.cells[index].textContent.trim() : "";
  headings.forEach((heading, index) => heading.firstElementChild.addEventListener("click", () => {
    const next = {ascending: "descending", descending: "none"}[heading.getAttribute("aria-sort")] || "ascending";
    headings.forEach(other => other.removeAttribute("aria-sort"));
    if (next !== "none") heading.setAttribute("aria-sort", next);
    table.classList.toggle("sorted", next !== "none");
    const sign = next === "descending" ? -1 : 1;
    const numeric = heading.classList.contains("number");
    const rows = next === "none" ? original : [...original].sort((one, two) => {
      const a = value(one, index), b = value(two, index);
      if (!numeric) return sign * a.localeCompare(b);
      const x = number(a), y = number(b);
      return Number.isNaN(x) ? (Number.isNaN(y) ? 0 : 1) : Number.isNaN(y) ? -1 : sign * (x - y);
    });
    body.append(...rows);
  }));
}
"""

# Separate scripts: a browser too old for the second still sorts.
SCRIPTS = (_SORTING, TOOLTIP_SCRIPT)

_LAYOUT = """
* { box-sizing: border-box; }
html { font: 106.25%/1.55 system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif; color: var(INK);
  background: var(--page); -webkit-text-size-adjust: 100%; scroll-behavior: smooth; }
body { max-width: 62rem; margin: 0 auto; padding: 2.5rem 1.25rem 5rem; }
h1 { font-size: clamp(1.7rem, 4.2vw, 2.5rem); line-height: 1.15; letter-spacing: -.015em; margin: .2rem 0 .5rem;
  text-wrap: balance; }
h2 { font-size: 1.4rem; line-height: 1.25; margin: 0 0 1rem; }
section { margin-top: 3.25rem; padding-top: 1.5rem; border-top: 1px solid var(GRID); }
p, li { max-width: 44rem; }
.eyebrow { text-transform: uppercase; letter-spacing: .12em; font-size: .75rem; font-weight: 600; color: var(--accent);
  margin: 0; }
.subtitle { color: var(MUTED); margin: 0 0 1.25rem; }
.banner { border: 2px solid var(--warn); border-radius: .4rem; padding: .7rem 1rem; max-width: none; }
body.synthetic::before { content: "synthetic data"; position: fixed; right: 0; top: 0; z-index: 2; font-size: .8rem;
  font-weight: 600; padding: .2rem .8rem; background: var(--warn); color: var(--page); border-radius: 0 0 0 .4rem; }
nav ul { list-style: none; display: flex; flex-wrap: wrap; gap: .4rem 1.4rem; margin: 0; padding: 0; }
a { color: var(--accent); text-underline-offset: .18em; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; border-radius: 2px; }
.skip { position: absolute; left: -99rem; } .skip:focus { position: static; }
.findings { padding-left: 0; list-style: none; counter-reset: finding; display: grid; gap: 1.1rem; }
.findings li { min-width: 0; counter-increment: finding; padding-left: 2.6rem; position: relative; color: var(MUTED); }
.findings li::before { content: counter(finding); position: absolute; left: 0; top: .1rem; width: 1.75rem;
  height: 1.75rem; line-height: 1.75rem; text-align: center; border-radius: 50%; background: var(--tint);
  color: var(--accent); font-weight: 600; font-size: .85rem; font-variant-numeric: tabular-nums; }
.findings strong { display: block; color: var(INK); font-size: 1.08rem; line-height: 1.35; }
.small { overflow-x: auto; } .small table { width: auto; margin: .5rem 0 .2rem; }
.small td { white-space: nowrap; } .small td.label { white-space: normal; min-width: 9rem; }
.columns { columns: 2 24rem; column-gap: 3rem; } .columns .table { break-inside: avoid; margin-top: 0; }
figure { margin: 2.5rem 0; }
.drawing, .table { overflow-x: auto; }
svg.figure { display: block; width: 100%; min-width: 34rem; max-width: calc(var(--width) * 1.35); height: auto;
  margin: 0 auto; }
figcaption, caption { color: var(MUTED); font-size: .9rem; line-height: 1.45; text-align: left; }
figcaption { max-width: 48rem; margin: .6rem auto 0; } caption { padding: 0 0 .6rem; }
caption b, figcaption b { color: var(INK); }
.table { margin: 1.5rem 0 2.2rem; }
table { border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums; width: 100%; }
th, td { padding: .28rem .6rem; vertical-align: baseline; } td { white-space: nowrap; }
td.label { white-space: normal; overflow-wrap: anywhere; }
td.prose { white-space: normal; min-width: 13rem; } td.prose small { display: block; margin-left: 0; }
#table-5-1 td.label { white-space: nowrap; }
th:first-child, td:first-child { padding-left: 0; }
.label { text-align: left; } .number { text-align: right; }
thead th { border-bottom: 1.5px solid var(INK); vertical-align: bottom; line-height: 1.25; }
tr.group td { border-top: 1px solid var(GRID); } table.sorted tr.group td { border-top: 0; }
tbody tr:hover { background: var(--tint); }
td small { color: var(MUTED); font-size: .82em; margin-left: .25em; display: inline-block; min-width: 3.7em; }
th button { font: inherit; font-weight: 600; color: inherit; background: none; border: 0; padding: 0; cursor: pointer;
  text-align: inherit; }
th button::after { content: " ↕"; color: var(MUTED); font-size: .8em; }
th[aria-sort] button::after { color: var(--accent); }
th[aria-sort=ascending] button::after { content: " ↑"; } th[aria-sort=descending] button::after { content: " ↓"; }
@media (prefers-reduced-motion: reduce) { html { scroll-behavior: auto; } }
@media print {
  @page { size: A4; margin: 15mm; }
  html { font-size: 9.5pt; } body { padding: 0; max-width: none; }
  h2 { break-after: avoid; }
  nav, .skip, .screen, th button::after { display: none; content: none; }
  section { break-before: auto; margin-top: 1.5rem; } figure, tr, .findings li { break-inside: avoid; }
  .drawing, .table { overflow: visible; } svg.figure { min-width: 0; max-width: 100%; max-height: 215mm; }
  table { font-size: 7.5pt; } th, td { padding: .12rem .3rem; } thead { display: table-header-group; }
  body.synthetic::before { position: fixed; }
}
"""

_PAGE_LIGHT = "--page: #ffffff; --tint: #eef4f9; --accent: #00629b; --warn: #a8480b;"
_PAGE_DARK = "--page: #14171a; --tint: #1f272e; --accent: #7cc0ee; --warn: #ff9a5c;"


def stylesheet() -> str:
    """Return the page's style sheet, with the house colours as variables, light and dark."""
    light = "".join(f"{variable(color)}: {color};" for color in DARK)
    dark = "".join(f"{variable(color)}: {other};" for color, other in DARK.items())
    layout = _LAYOUT + TOOLTIP_STYLE
    for word, color in (("INK", INK), ("MUTED", MUTED), ("GRID", GRID)):
        layout = layout.replace(f"var({word})", f"var({variable(color)})")
    return (
        f":root {{ {light} {_PAGE_LIGHT} }}\n"
        # Dark colours are for screens only.
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} {_PAGE_DARK} }} }}"
        f"{layout}"
    )
