"""Make the pages of `dvc plots` work without a network.

DVC's own page loads its three plotting scripts from a public server. Snakemake includes the same scripts for its
reports; a template with these makes every page complete. It is generated instead of committed: two megabytes of
third-party code.
"""

import importlib.util
from pathlib import Path

from rankbound.errors import DataError
from rankbound.io.atomic import atomic_path
from rankbound_study.workflow.programs import run_program

TEMPLATE = "offline_plots.html"
"""Path inside .dvc, relative to which DVC's configuration gives paths; git ignores it."""

SCRIPTS = ("vega/vega.js", "vega-lite/vega-lite.js", "vega-embed/vega-embed.js")
"""The scripts in the order in which a page loads them, by package name in Snakemake's assets."""

# DVC replaces the names in braces with its plots, and with a tag that reloads the page if requested.
_PAGE = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
{refresh_tag}
<title>Plots</title>
%s
<style>table { border-spacing: 15px; }</style>
</head>
<body>
{plot_divs}
</body>
</html>
"""


def make_plots_offline(folder: Path) -> Path:
    """Write the template into `folder`/.dvc, make DVC use it in this checkout, and return its path.

    Raises:
        DataError: `folder` is not a checkout with DVC, or Snakemake does not have the scripts.
    """
    if not (folder / ".dvc").is_dir():
        raise DataError(
            f"{folder.resolve()} has no folder .dvc: run this in the workflow's root, or name it (--folder)"
        )
    target = folder / ".dvc" / TEMPLATE
    text = page_template(scripts_of_snakemake())
    with atomic_path(target) as temporary:
        temporary.write_text(text, encoding="utf-8")
    run_program(["dvc", "config", "--local", "plots.html_template", TEMPLATE], folder)
    return target


def scripts_of_snakemake() -> list[str]:
    """Return the texts of vega, vega-lite and vega-embed; DataError if this Snakemake does not have them."""
    package = importlib.util.find_spec("snakemake")
    if package is None or package.origin is None:
        raise DataError("snakemake is not installed: `pip install -e '.[study]'` in the clone")
    files = [Path(package.origin).parent / "assets/data" / name for name in SCRIPTS]
    missing = [str(file) for file in files if not file.is_file()]
    if missing:
        raise DataError(f"this version of snakemake lacks {', '.join(missing)}: 9.27 has them")
    return [file.read_text(encoding="utf-8") for file in files]


def page_template(scripts: list[str]) -> str:
    """Return DVC's page with these scripts inside."""
    # A script's own closing tag would end it inside a page.
    harmless = [script.replace("</script", "<\\/script") for script in scripts]
    return _PAGE % "\n".join(f"<script>\n{script}\n</script>" for script in harmless)
