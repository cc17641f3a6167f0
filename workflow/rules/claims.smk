# One table with every claim of the sources and its verdict: theorems by themselves, all others from all trainings.


rule theorems:
    output:
        "<results>/theorems.json",
    log:
        "<logs>/table/theorems.log",
    localrule: True
    threads: 1
    resources:
        mem_mb=4000,
        runtime=10,
    params:
        step=step,
        code=steps.code("theorems"),
    shell:
        "{params.step} theorems --out {output:q} > {log:q} 2>&1"


rule claims:
    input:
        unpack(claim_files),
        theorems="<results>/theorems.json",
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
        step=step,
        code=steps.code("claims"),
        folder=subpath(output.csv, parent=True),
        files=file_flags,
        options=steps.result_options("study"),
    shell:
        "{params.step} claims --theorems {input.theorems:q} {params.files} --out-dir {params.folder:q} --options {params.options:q} > {log:q} 2>&1"
