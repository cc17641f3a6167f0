"""The names of experiments' variants, and the settings that do not change their trainings."""

VARIANT = "@"
"""Separates the study's name from the variant's, in runs and folders: `thesis@factors-16`."""

TESTING = ("test_nsr", "test_relevant", "judged_by")
"""The settings that change how a training is measured, not how it is done."""
