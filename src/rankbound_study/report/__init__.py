"""Tables and the report, built from the results and rendered as Markdown, LaTeX, HTML and PDF."""
