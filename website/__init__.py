"""The documentation site beside MkDocs: `mkdocs.yml` says what the site is, this package adds what MkDocs lacks.

`python -m website` writes the pages that come from code (gallery, report, index of names, command line, changes), with
the packages of the study. `extensions` runs inside MkDocs, in an environment that has neither torch nor numpy.
"""

WRITTEN = (
    "changes.md",
    "gallery.md",
    "paper.md",
    "reference/command_line.md",
    "reference/index.md",
    "reference/steps.md",
)
"""The pages that `python -m website` writes into docs/, where git ignores them."""
