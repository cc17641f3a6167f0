# The workflow is workflow/Snakefile, where Snakemake's catalogue looks for it.
include: "workflow/Snakefile"


# Snakemake takes its default target from this file alone, not from included ones.
workflow.default_target = "all"
