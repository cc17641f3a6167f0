"""Benchmarks against public libraries: time, memory, and their ratios to ours.

`python -m benchmarks --help` lists the options; docs/benchmarks.md describes the method. Each question is a file;
`timing` races the contenders, `report` and `plot` render the results.
"""
