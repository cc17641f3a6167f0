"""The results of a study as files hold them: the typed readers of runs, epochs, predictions and weights, and the names
and means of what they hold.

Nothing here judges, and nothing here knows of tables, figures or the report.
"""
