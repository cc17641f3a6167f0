# The workflow is in workflow/, where Snakemake's catalogue looks for it.
include: "workflow/rules/study.smk"


# Snakemake takes its default target from this file alone, not from included ones.
rule all:
    input:
        ALL_FILES,
