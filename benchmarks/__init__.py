"""Benchmarks against public libraries: time, memory, and their ratios to ours.

`python -m benchmarks --help` lists the options; docs/benchmarks.md describes the method. `questions` has a row for each
question, `measure` the clock and the probes, `report` the tables and the figure.
"""
