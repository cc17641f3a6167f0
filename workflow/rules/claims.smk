# One table with every claim of the sources and its verdict, from all trainings.

LINEAR_ON_FACES = ("Rank-LR", "Class-LR")


def claim_files(wildcards):
    """Return the files that decide claims: all runs, any experiments, and the methods' predictions on faces."""
    files = {"runs": "<results>/runs.parquet", "epochs": "<results>/epochs.parquet"}
    files |= dict(zip(("experiments", "experiment_epochs"), study.experiment_tables()))
    files |= comparison_files(["predictions", "images"], [2, 3])
    return files | comparison_files(["weights"], [2], methods=LINEAR_ON_FACES)


def claim_flags(wildcards, input):
    """Return the files as flags, by name; missing files have none."""
    names = ("runs", "epochs", "experiments", "experiment_epochs", "predictions", "weights", "images")
    return file_flags(input, names)


rule claims:
    input:
        unpack(claim_files),
    output:
        csv=report(
            "<results>/tables/table_claims.csv",
            caption="../report/claims.rst",
            category="Tables",
            labels={"table": "claims", "of": "verdicts on what the sources claim"},
        ),
        md="<results>/tables/table_claims.md",
        tex="<results>/tables/table_claims.tex",
    log:
        "<logs>/table/claims.log",
    benchmark:
        "<benchmarks>/table/claims.tsv"
    localrule: True
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        code=codes.of_step("claims"),
        folder=subpath(output.csv, parent=True),
        files=claim_flags,
        options=steps.claim_options,
    shell:
        "python -m rankbound_study claims {params.files} --out-dir {params.folder:q} --options {params.options:q} > {log:q} 2>&1"
