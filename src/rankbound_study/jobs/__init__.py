"""Training jobs: their inputs, the fitting of each kind of model, their outputs, and the table of all runs."""
