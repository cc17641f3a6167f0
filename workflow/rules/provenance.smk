# Where everything comes from: every step leaves a record of what it read, made and ran on (the Snakefile says where); one
# file puts them together, and the paper tells it.


rule provenance:
    input:
        runs="<results>/runs.parquet",
        epochs="<results>/epochs.parquet",
        tables=study.table_files(),
        figures=study.figure_files(),
    output:
        "<results>/provenance.json",
    log:
        "<logs>/provenance.log",
    benchmark:
        "<benchmarks>/provenance.tsv"
    # Nodes of a cluster may have no git, and no checkout that could be asked for its commit.
    localrule: True
    threads: 1
    resources:
        mem_mb=1000,
        runtime=20,
    params:
        code=codes.of_step("provenance"),
        results=subpath(input.runs, parent=True),
        options=steps.study_options,
    shell:
        "python -m rankbound_study provenance --results {params.results:q} --out {output:q} --options {params.options:q} > {log:q} 2>&1"
