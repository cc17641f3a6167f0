"""The study under Snakemake and DVC: stages of dvc.yaml, files to mark as current, offline plots."""
