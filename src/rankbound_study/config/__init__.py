"""What to run: the configuration, its checks, and the jobs and files that follow from it."""
