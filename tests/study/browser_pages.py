"""Pages in a browser that is driven like a person's: by keys, and judged by axe-core's rules of accessibility."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from rankbound_study.report.render import policy_source

WITHOUT_BROWSER = "no browser here: `apt-get install chromium` for these tests"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

BROKEN_RULES = """async rules => {
  const asked = {resultTypes: ["violations"], selectors: false, ...(rules.length && {runOnly: rules})};
  const nodes = (await axe.run(document, asked)).violations.flatMap(rule => rule.nodes.map(node => [rule.id, node]));
  const bare = [...document.querySelectorAll("table:not(:has(th))")].map(table => table.outerHTML.slice(0, 100));
  const broken = nodes.map(([rule, node]) => `${rule}: ${node.html.slice(0, 100)} ${node.any[0]?.message ?? ""}`);
  return [...broken, ...bare.map(table => `a table without headings: ${table}`)];
}"""
SCHEMES = {"light": [], "dark": ["color-contrast"]}
"""Colours of a page, and the rules that may break in these alone; none for all rules."""

FOCUSED = """() => {
  const part = document.activeElement, shown = part.matches(".md-option") ? part.nextElementSibling : part;
  const {outlineStyle, opacity} = getComputedStyle(shown), {width, height} = shown.getBoundingClientRect();
  const outlined = outlineStyle !== "none" || part.matches("input[type=text]");
  return {html: part.outerHTML.slice(0, 100), seen: outlined && opacity > 0 && width > 0 && height > 0};
}"""
TIMEOUT = 300_000
"""Milliseconds; a page takes less than a second on an idle machine."""


def with_probe(page: str, probe: str) -> str:
    """Return the page with a script at the end of its head, which its policy admits: `seen` returns what it `found`."""
    script = f"""
      const found = {{failures: []}};
      addEventListener("error", event => found.failures.push(event.message));
      addEventListener("securitypolicyviolation", event => found.failures.push(event.violatedDirective));
      addEventListener("load", () => {{
        {probe}
        const told = document.createElement("script");
        told.type = "application/json"; told.id = "found"; told.textContent = JSON.stringify(found);
        document.body.append(told);
      }});"""
    policy = page.replace("script-src ", f"script-src {policy_source(script)} ", 1)
    return policy.replace("</head>", f"<script>{script}</script></head>", 1)


def seen(page: Path, profile: Path, *flags: str) -> dict[str, Any]:
    """Return what a probe in a page reports from a browser that has no network."""
    if BROWSER is None:
        pytest.skip(WITHOUT_BROWSER)
    always = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    always += ["--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=5000", f"--user-data-dir={profile}"]
    drawn = subprocess.run(
        [BROWSER, *always, *flags, "--dump-dom", page.as_uri()], capture_output=True, text=True, check=True, timeout=300
    ).stdout
    told = re.search(r'<script type="application/json" id="found">(.*?)</script>', drawn, re.DOTALL)
    assert told, "the page's scripts did not run to their end"
    found: dict[str, Any] = json.loads(told[1])
    return found


@contextmanager
def driven() -> Iterator[Any]:
    """Yield a page of Playwright without content, into which axe-core is loaded with every file."""
    pytest.importorskip("axe_playwright_python", reason="the extra faults is not installed")
    if BROWSER is None:
        pytest.skip(WITHOUT_BROWSER)
    from playwright.sync_api import sync_playwright

    axe = (files("axe_playwright_python") / "axe.min.js").read_text("utf-8")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"], timeout=TIMEOUT)
        shown = browser.new_context(reduced_motion="reduce", bypass_csp=True).new_page()
        shown.set_default_timeout(TIMEOUT)
        shown.add_init_script(axe)
        yield shown
        browser.close()


def broken_rules(page: Path, scheme: str, shown: Any) -> list[str]:
    """Return the rule, the element and the reason of everything wrong on a page in light or dark colours."""
    shown.emulate_media(color_scheme=scheme)
    shown.goto(page.as_uri())
    found: list[str] = shown.evaluate(BROKEN_RULES, SCHEMES[scheme])
    return found


def unseen_stops(shown: Any, count: int) -> list[str]:
    """Return those of the next `count` elements that the tabulator reaches on which the focus is not seen."""
    stops = []
    for _ in range(count):
        shown.keyboard.press("Tab")
        stops.append(shown.evaluate(FOCUSED))
    return [stop["html"] for stop in stops if not stop["seen"]]
