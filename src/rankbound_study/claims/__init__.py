"""Verdicts on the claims of the sources: a declaration or a function decides each claim from the study's results.

`registry` has the claims and finds what decides them, `declared` is the form of a declaration, `evidence` provides the
results, and `verdict` is the return value. A module decides the claims of one subject. No verdict is written by hand:
each follows from its numbers.
"""
