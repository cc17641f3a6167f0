"""The study under Snakemake and DVC: stages of dvc.yaml and files to mark as current."""
