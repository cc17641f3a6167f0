"""The study's code and results beside Snakemake and DVC: digests of code, stages, current files."""
