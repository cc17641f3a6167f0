"""The configuration of a study: its checks, and the jobs and files that follow from it."""
