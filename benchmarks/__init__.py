"""Side by side with public libraries: how long, how much memory, and how many times ours.

`python -m benchmarks --help` says how to run it; docs/benchmarks.md what is measured, and how. A file is one question;
`timing` races the contenders, `report` and `plot` show what came out.
"""
