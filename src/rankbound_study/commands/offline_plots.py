"""The step `offline-plots`: pages of `dvc plots` that work without a network.

DVC's own page loads its three plotting scripts from a public server. Snakemake includes the same scripts for its
reports; a template with these makes every page complete. It is generated instead of committed: two megabytes of
third-party code.
"""

import argparse
from pathlib import Path

SUMMARY = "Make the pages of `dvc plots show` and `dvc plots diff` work without a network, in this checkout"
EXAMPLES = """\
  python -m rankbound_study offline-plots && dvc plots diff HEAD~1"""

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


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--folder", type=Path, metavar="DIR", default=Path(), help="the workflow's root (default: the working folder)"
    )


def run(arguments: argparse.Namespace) -> None:
    """Write the template, and make DVC use it."""
    import snakemake
    from dvc.config import Config  # type: ignore[import-untyped]

    from rankbound.errors import DataError
    from rankbound.io.atomic import atomic_path

    folder = arguments.folder.resolve() / ".dvc"
    if not folder.is_dir():
        raise DataError(f"{folder.parent} has no folder .dvc: run this in the workflow's root, or name it (--folder)")
    files = [Path(str(snakemake.__file__)).parent / "assets/data" / name for name in SCRIPTS]
    missing = [str(file) for file in files if not file.is_file()]
    if missing:
        raise DataError(f"this version of snakemake lacks {', '.join(missing)}: 9.27 has them")
    # A script's own closing tag would end it inside a page.
    scripts = [file.read_text(encoding="utf-8").replace("</script", "<\\/script") for file in files]
    with atomic_path(folder / TEMPLATE) as temporary:
        temporary.write_text(
            _PAGE % "\n".join(f"<script>\n{script}\n</script>" for script in scripts), encoding="utf-8"
        )
    with Config(str(folder)).edit("local") as settings:
        settings["plots"] = {"html_template": TEMPLATE}
    print(f"written: {folder / TEMPLATE}; `dvc plots show` and `dvc plots diff` now write pages with all their scripts")
