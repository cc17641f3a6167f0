"""The study: every table and figure of the theses it repeats, step by step from the raw archives.

`python -m rankbound_study STEP` runs a step; the workflow's rules call these. Layers, each of which imports those after
it alone: commands; workflow and export; report; figures; claims; results; jobs; models; data; config. The library
`rankbound` knows nothing of any of them.
"""
