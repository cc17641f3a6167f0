"""The steps: a module each, run by `python -m rankbound_study STEP`."""
