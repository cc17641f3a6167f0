"""The study under Snakemake and DVC: what its rules call, and files to mark as current."""
