"""Benchmarks against public libraries: time, memory, and their ratios to ours.

`python -m benchmarks --help` lists the options; docs/benchmarks.md describes the method. `questions` has a row for each
question, `runner` measures them, `page` has the tables and the figure, `data` generates what is measured on.
"""
