"""The documentation site beside MkDocs: `mkdocs.yml` says what the site is, this package adds what MkDocs lacks.

`python -m website` writes the pages that come from code (gallery, report, index of names, command line, changes), from
`templates` and with the packages of the study. `extensions` runs inside MkDocs, without torch and numpy.
"""

_REFERENCE = ("command_line", "index", "names", "steps")
WRITTEN = ("changes.md", "gallery.md", "paper.md", *(f"reference/{name}.md" for name in _REFERENCE))
"""The pages that `python -m website` writes into docs/, where git ignores them."""
