"""Typed readers of a study's results: runs, epochs, predictions and weights, with their names and means.

They do not judge, and are independent of tables, figures and the report.
"""
