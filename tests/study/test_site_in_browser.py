"""The documentation site: built as `make docs` builds it, and every page opened in a real browser without a network."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any
from urllib.parse import unquote, urldefrag, urlparse

import pytest
from browser_pages import BROWSER, SCHEMES, WITHOUT_BROWSER, broken_rules, driven, unseen_stops

from tests.library.refusals import problems

ROOT = Path(__file__).resolve().parents[2]
BUILDER = ROOT / ".venv-docs" / "bin" / "python"
PROBE = Path(__file__).with_name("site_probe.html")
PROBE_PAGE = "probe.html"

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(BROWSER is None, reason=WITHOUT_BROWSER),
    pytest.mark.skipif(not BUILDER.exists(), reason="no MkDocs here: `make docs` installs it"),
]

QUESTIONS = problems("searches")


class Handler(SimpleHTTPRequestHandler):
    """Serve the site, and keep what the page posts."""

    posted: Queue[Any]

    def do_POST(self) -> None:
        self.posted.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built in a copy of the pages, by the commands of `make docs`."""
    folder = tmp_path_factory.mktemp("site")
    for name in ("src", "website", "CHANGELOG.md", "config.yaml", "mkdocs.yml"):
        (folder / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copytree(ROOT / "published_results" / "tables", folder / "results" / "tables")
    write = [sys.executable, "-m", "website", folder / "docs", folder / "results"]
    subprocess.run(write, cwd=ROOT, check=True)
    environment = {**os.environ, "PYTHONPATH": "src"}
    build = [BUILDER, "-m", "mkdocs", "build", "--strict"]
    built = subprocess.run(build, cwd=folder, env=environment, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder / "site"


@pytest.fixture(scope="module")
def seen(site: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the browser sees on every page, and what the search finds first."""
    pages = [str(page.relative_to(site)) for page in pages_of(site)]
    (site / "asked.json").write_text(json.dumps({"pages": pages, "questions": list(QUESTIONS)}), "utf-8")
    shutil.copy(PROBE, site / PROBE_PAGE)
    found: dict[str, Any] = next(_opened(site, tmp_path_factory.mktemp("profile")))
    assert "error" not in found, found["error"]
    return found


def pages_of(site: Path) -> list[Path]:
    """Return the pages that a reader is led to."""
    return sorted(page for page in site.rglob("*.html") if page.name not in ("404.html", PROBE_PAGE))


def _opened(site: Path, profile: Path) -> Iterator[Any]:
    """Yield what the probe posts from a browser that reaches this machine alone."""
    posted: Queue[Any] = Queue()
    handler = type("PostedHere", (Handler,), {"posted": posted})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(site))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
        flags += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", f"--user-data-dir={profile}"]
        # Without it, a browser without a window stays open as well, but has no address to debug.
        flags += ["--remote-debugging-port=0"]
        address = f"http://127.0.0.1:{server.server_port}/{PROBE_PAGE}"
        browser = subprocess.Popen([BROWSER, *flags, address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield posted.get(timeout=600)
        finally:
            browser.terminate()
            browser.wait()
            server.shutdown()


def test_every_page_is_whole_fits_a_phone_and_asks_nothing_of_another_host(seen: dict[str, Any], site: Path) -> None:
    pages, requests = seen["pages"], set[str]()
    for page, found in pages.items():
        assert (found["headings"], found["language"]) == (1, "en"), page
        assert found["title"], page
        for name in ("missing", "unnamed", "undrawn", "latex"):
            assert not found[name], (page, name, found[name])
        assert [link for link in found["links"] if _broken(link, seen)] == [], page
        assert found["overflow"] <= 0, page
        requests |= set(found["requests"])
    assert {name for name in requests if urlparse(name).hostname != "127.0.0.1"} == set()
    assert requests
    assert min(pages[name]["formulas"] for name in ("losses.html", "reference/metrics.html")) > 50
    assert "/paper.html" in {urlparse(link).path for link in pages["paper/index.html"]["links"]}
    for name in ("rankbound.pdf", "paper.pdf"):
        assert (site / "paper" / name).read_bytes().startswith(b"%PDF")


def _broken(link: str, seen: dict[str, Any]) -> bool:
    address, place = urldefrag(link)
    if urlparse(address).hostname != "127.0.0.1":
        return not address.startswith("https://")
    path = urlparse(address).path.lstrip("/") or "index.html"
    if not path.endswith(".html"):
        return path not in ("paper/rankbound.pdf", "paper/paper.pdf")
    return path not in seen["pages"] or (bool(place) and unquote(place) not in seen["pages"][path]["ids"])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_screen_readers_can_use_every_page(scheme: str, site: Path) -> None:
    # The whole report has a test of its own, and the many entries of the reference have the colours of other pages.
    left_out = {"paper"} if scheme == "light" else {"paper", "reference"}
    pages = [page for page in pages_of(site) if page.parent.name not in left_out]
    with driven() as shown:
        broken = {str(page.relative_to(site)): broken_rules(page, scheme, shown) for page in pages}
    assert {page: rules for page, rules in broken.items() if rules} == {}


def test_the_keyboard_alone_reaches_text_search_code_and_sources(site: Path) -> None:
    with driven() as shown:
        shown.goto((site / "training_loops.html").as_uri())
        assert unseen_stops(shown, 45) == []
        shown.goto((site / "index.html").as_uri())
        shown.keyboard.press("Tab")
        shown.keyboard.press("Enter")
        shown.keyboard.press("Tab")
        assert shown.evaluate("document.activeElement.closest('main') !== null")
        # Afresh: the theme closes the search when a jump to a heading ends.
        shown.goto((site / "losses.html").as_uri())
        shown.keyboard.press("/")
        shown.keyboard.type("padded tensors")
        shown.wait_for_selector(".md-search-result__item a")
        shown.keyboard.press("ArrowDown")
        shown.keyboard.press("Enter")
        shown.wait_for_url("**/reference/lists.html*")
        shown.locator(".md-code__button").first.focus()
        shown.keyboard.press("Enter")
        shown.wait_for_selector("text=Copied to clipboard")
        source = shown.locator("details").first
        source.locator("summary").focus()
        shown.keyboard.press("Enter")
        assert source.get_attribute("open") is not None


def test_the_search_finds_what_a_new_user_asks(seen: dict[str, Any]) -> None:
    found = {question: [urlparse(link).path.lstrip("/") for link in links] for question, links in seen["first"].items()}
    assert [question for question, page in QUESTIONS.items() if page not in found[question]] == []


def test_a_formula_with_an_unknown_command_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text("# A page\n\nGood: $x$, bad: $\\nosuch x$\n")
    code = (
        "from markdown import markdown; text = open('docs/page.md').read(); names = ['pymdownx.arithmatex', "
        "'website.extensions']; markdown(text, extensions=names, extension_configs={names[0]: {'generic': True}})"
    )
    environment = {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
    command = [BUILDER, "-c", code]
    refused = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert refused.returncode == 1
    assert "docs/page.md:3: formula" in refused.stderr
    assert "\\nosuch is no command" in refused.stderr
