# Tables and figures. Those of chapter 5 are made from the runs, the others from the library's closed forms alone.
from rankbound.paper.figures import FIGURES


def figure_code(wildcards):
    """The package files behind one figure: its own module is imported by name."""
    return code_inputs("figure", [f"rankbound.paper.figures.{FIGURES[wildcards.figure].module}"])


rule table_5_1:
    input:
        runs="<results>/runs.parquet",
        code=code_inputs("table"),
    output:
        csv=report(
            "<results>/tables/table_5_1.csv",
            caption="../report/table_5_1.rst",
            category="Tables",
            labels={"table": "5.1", "of": "mean score by loss and bounding"},
        ),
        md="<results>/tables/table_5_1.md",
        tex="<results>/tables/table_5_1.tex",
        summary="<results>/tables/table_5_1_summary.json",
        metrics="<results>/metrics.json",
    log:
        "<logs>/table/table_5_1.log",
    benchmark:
        "<benchmarks>/table/table_5_1.tsv"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        folder=subpath(output.csv, parent=True),
        options=steps.result_options,
    shell:
        "rankbound table table_5_1 --runs {input.runs:q} --out-dir {params.folder:q} --metrics {output.metrics:q}"
        " --options {params.options:q} > {log:q} 2>&1"


rule worked_table:
    input:
        code=code_inputs("table"),
    output:
        report(
            "<results>/tables/{table}.csv",
            caption="../report/worked_table.rst",
            category="Tables",
            labels={"table": "{table}", "of": "worked example"},
        ),
    log:
        "<logs>/table/{table}.log",
    benchmark:
        "<benchmarks>/table/{table}.tsv"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        folder=subpath(output[0], parent=True),
    shell:
        "rankbound table {wildcards.table:q} --out-dir {params.folder:q} > {log:q} 2>&1"


rule figure_of_formulas:
    input:
        code=figure_code,
    output:
        svg=report(
            "<results>/figures/{figure}.svg",
            caption="../report/figure.rst",
            category="Figures",
            labels={"figure": "{figure}", "from": "closed forms"},
        ),
        pdf="<results>/figures/{figure}.pdf",
    log:
        "<logs>/figure/{figure}.log",
    benchmark:
        "<benchmarks>/figure/{figure}.tsv"
    wildcard_constraints:
        figure=one_of(name for name in config["figures"] if not FIGURES[name].needs_runs),
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    shell:
        "rankbound figure {wildcards.figure:q} --out {output.svg:q} --out {output.pdf:q} > {log:q} 2>&1"


rule figure_of_runs:
    input:
        runs="<results>/runs.parquet",
        code=figure_code,
    output:
        svg=report(
            "<results>/figures/{figure}.svg",
            caption="../report/figure.rst",
            category="Figures",
            labels={"figure": "{figure}", "from": "runs"},
        ),
        pdf="<results>/figures/{figure}.pdf",
    log:
        "<logs>/figure/{figure}.log",
    benchmark:
        "<benchmarks>/figure/{figure}.tsv"
    wildcard_constraints:
        figure=one_of(name for name in config["figures"] if FIGURES[name].needs_runs),
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        options=steps.result_options,
    shell:
        "rankbound figure {wildcards.figure:q} --runs {input.runs:q} --out {output.svg:q} --out {output.pdf:q}"
        " --options {params.options:q} > {log:q} 2>&1"
