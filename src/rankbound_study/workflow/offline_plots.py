"""Pages of `dvc plots` that open without a network.

DVC's own page loads the three scripts that draw from a public server. The same scripts come with Snakemake, for its
reports; a template of the page that holds them makes every page complete. It is written where it is used, as it has two
megabytes that are not ours.
"""

import importlib.util
from pathlib import Path

from rankbound.errors import DataError
from rankbound.io.atomic import atomic_path
from rankbound_study.workflow.programs import run_program

TEMPLATE = "offline_plots.html"
"""Inside .dvc, where paths in DVC's configuration begin; git ignores it."""

SCRIPTS = ("vega/vega.js", "vega-lite/vega-lite.js", "vega-embed/vega-embed.js")
"""In the order in which a page loads them, each under its package's name in Snakemake's assets."""

# DVC puts its plots, and a tag that reloads the page if it is asked to, in the place of the names in braces.
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
    """Write the template into `folder`/.dvc, and tell DVC to use it in this checkout; returns its path.

    Raises:
        DataError: `folder` is no checkout with DVC, or the scripts are not where Snakemake has them.
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
    """The texts of vega, vega-lite and vega-embed; DataError if this Snakemake does not have them."""
    found = importlib.util.find_spec("snakemake")
    if found is None or found.origin is None:
        raise DataError("snakemake is not installed: `pip install -e '.[study]'` in the clone")
    files = [Path(found.origin).parent / "assets/data" / name for name in SCRIPTS]
    missing = [str(file) for file in files if not file.is_file()]
    if missing:
        raise DataError(f"this version of snakemake comes without {', '.join(missing)}: 9.27 has them")
    return [file.read_text(encoding="utf-8") for file in files]


def page_template(scripts: list[str]) -> str:
    """DVC's page with these scripts inside."""
    # Inside a page, its own closing tag would end a script.
    harmless = [script.replace("</script", "<\\/script") for script in scripts]
    return _PAGE % "\n".join(f"<script>\n{script}\n</script>" for script in harmless)
