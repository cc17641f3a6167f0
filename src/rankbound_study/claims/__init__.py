"""Verdicts on the claims of the sources: a declaration or a function decides each claim from the study's results.

`registry` has the claims and finds what decides them, `rules` turn many tests into one verdict, `evidence` provides the
results, and `verdicts` has the return value and the table of all. A module decides the claims of one subject. No
verdict is written by hand: each follows from its numbers.
"""
