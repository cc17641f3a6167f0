"""Training jobs: what they read, how each kind of model is fitted, what they leave behind; all runs in one table."""
