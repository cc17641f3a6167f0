# Tables and figures. Those of chapter 5 and of the comparisons are made from the runs, the others from the library's
# closed forms alone. Their modules describe what they are made from.


# A rule per table: its module describes what it is made from, its options, and its files.
for table in [name for name in config["tables"] if name in TABLES]:

    rule:
        name:
            table
        input:
            **spec_files(TABLES[table]),
        output:
            csv=report(
                f"<results>/tables/{table}.csv",
                caption="../report/caption.rst",
                category="Tables",
                labels={"table": TABLES[table].title or table},
            ),
            beside=[f"<results>/tables/{table}{suffix}" for suffix in TABLES[table].beside],
            metrics=["<results>/metrics.json"] * TABLES[table].metrics,
        log:
            f"<logs>/table/{table}.log",
        localrule: True
        threads: 1
        resources:
            mem_mb=4000,
            runtime=20,
        params:
            step=step,
            code=steps.code("table", f"rankbound_study.report.tables.{TABLES[table].module}"),
            table=table,
            caption=TABLES[table].caption,
            folder=subpath(output.csv, parent=True),
            files=file_flags,
            metrics=metrics_flag,
            options=steps.result_options(*TABLES[table].options),
        shell:
            "{params.step} table {params.table} {params.files} --out-dir {params.folder:q} {params.metrics}"
            " --options {params.options:q} > {log:q} 2>&1"


rule figure_of_formulas:
    output:
        svg=report(
            "<results>/figures/{figure}.svg",
            caption="../report/caption.rst",
            category="Figures",
            labels=figure_labels("closed forms"),
        ),
        pdf="<results>/figures/{figure}.pdf",
    log:
        "<logs>/figure/{figure}.log",
    wildcard_constraints:
        figure=one_of(name for name in config["figures"] if not FIGURES[name].needs_runs and not FIGURES[name].needs),
    localrule: True
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        step=step,
        code=figure_code,
        caption=figure_caption,
    shell:
        "{params.step} figure {wildcards.figure:q} --out {output.svg:q} --out {output.pdf:q} > {log:q} 2>&1"


rule figure_of_runs:
    input:
        runs="<results>/runs.parquet",
        epochs="<results>/epochs.parquet",
    output:
        svg=report(
            "<results>/figures/{figure}.svg",
            caption="../report/caption.rst",
            category="Figures",
            labels=figure_labels("runs"),
        ),
        pdf="<results>/figures/{figure}.pdf",
    log:
        "<logs>/figure/{figure}.log",
    wildcard_constraints:
        figure=one_of(name for name in config["figures"] if FIGURES[name].needs_runs),
    localrule: True
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        step=step,
        code=figure_code,
        caption=figure_caption,
        files=file_flags,
        options=steps.result_options("protocol", "study"),
    shell:
        "{params.step} figure {wildcards.figure:q} {params.files} --out {output.svg:q} --out {output.pdf:q}"
        " --options {params.options:q} > {log:q} 2>&1"


rule figure_of_comparisons:
    input:
        unpack(comparison_figure_files),
    output:
        svg=report(
            "<results>/figures/{figure}.svg",
            caption="../report/caption.rst",
            category="Figures",
            labels=figure_labels("methods of neural ranking"),
        ),
        pdf="<results>/figures/{figure}.pdf",
    log:
        "<logs>/figure/{figure}.log",
    wildcard_constraints:
        figure=one_of(name for name in config["figures"] if FIGURES[name].needs and not FIGURES[name].shows_pictures),
    localrule: True
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        step=step,
        code=figure_code,
        caption=figure_caption,
        files=file_flags,
    shell:
        "{params.step} figure {wildcards.figure:q} {params.files} --out {output.svg:q} --out {output.pdf:q}"
        " > {log:q} 2>&1"


# Figures with pictures of a data set have its licence, so they stay apart.
use rule figure_of_comparisons as figure_with_pictures with:
    output:
        svg=report(
            "<results>/licensed/{figure}.svg",
            caption="../report/caption.rst",
            category="Figures",
            labels=figure_labels("methods of neural ranking"),
        ),
        pdf="<results>/licensed/{figure}.pdf",
    wildcard_constraints:
        figure=one_of(name for name in config["figures"] if FIGURES[name].shows_pictures),
