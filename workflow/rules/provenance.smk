# Provenance: every step leaves a record of its inputs, outputs and machine (see the Snakefile); one file combines the
# records, and the paper summarises it.


rule provenance:
    input:
        runs="<results>/runs.parquet",
        epochs="<results>/epochs.parquet",
        rates="<results>/rates.parquet",
        tables=table_files,
        figures=figure_files,
    output:
        "<results>/provenance.json",
    log:
        "<logs>/provenance.log",
    # Nodes of a cluster may have no git, and no checkout with a commit.
    localrule: True
    threads: 1
    resources:
        mem_mb=1000,
        runtime=20,
    params:
        step=step,
        code=steps.code("provenance"),
        results=subpath(input.runs, parent=True),
        options=study_options,
    shell:
        "{params.step} provenance --results {params.results:q} --out {output:q} --options {params.options:q} > {log:q} 2>&1"
