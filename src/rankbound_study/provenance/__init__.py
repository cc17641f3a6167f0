"""Provenance of results: a record of every step, a manifest of all records, and checks of a folder against both."""
