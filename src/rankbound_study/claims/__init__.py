"""What the sources claim, and what holds of it: every claim has a function that decides it from the study's results.

`registry` has the claims and finds their functions, `evidence` gives these what they ask for, `verdict` is what they
return. A module decides the claims of one subject. Nothing is typed: a verdict follows from its numbers.
"""
