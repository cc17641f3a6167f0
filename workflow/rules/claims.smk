# One table with every claim of the sources and its verdict, from all trainings.

LINEAR_ON_FACES = ("Rank-LR", "Class-LR")


def claim_files(wildcards):
    """Return the files that decide claims: all runs, any experiments, and the methods' predictions on faces."""
    files = {"runs": "<results>/runs.parquet", "epochs": "<results>/epochs.parquet"}
    files |= dict(zip(("experiments", "experiment_epochs"), study.experiment_tables()))
    files |= comparison_files(["predictions", "images"], [2, 3])
    return files | comparison_files(["weights"], [2], methods=LINEAR_ON_FACES)


rule claims:
    input:
        unpack(claim_files),
    output:
        csv=report(
            "<results>/tables/table_claims.csv",
            caption="../report/claims.rst",
            category="Tables",
            labels={"table": "claims of the sources, with verdicts"},
        ),
        md="<results>/tables/table_claims.md",
        tex="<results>/tables/table_claims.tex",
    log:
        "<logs>/table/claims.log",
    localrule: True
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        code=steps.code("claims"),
        folder=subpath(output.csv, parent=True),
        files=file_flags,
        options=steps.result_options("study"),
    shell:
        "python -m rankbound_study claims {params.files} --out-dir {params.folder:q} --options {params.options:q} > {log:q} 2>&1"
