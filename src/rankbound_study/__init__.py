"""The study: every table and figure of the theses that it reproduces, step by step from the raw archives.

`python -m rankbound_study STEP` runs a step; the workflow's rules call these steps, which `steps.toml` lists. The
layers, each of which imports only those after it: steps; commands; workflow and export; report; figures; claims;
results; jobs; models; data; config. The library `rankbound` imports none of them.
"""
