# The paper: every table and figure in one document, as PDF and as HTML that works offline.


rule document:
    input:
        runs="<results>/runs.parquet",
        tables=table_files,
        beside=[
            f"<results>/tables/{name}{end}"
            for name in config["tables"]
            if name in TABLES
            for end in TABLES[name].beside
        ],
        figures=figure_files,
        provenance="<results>/provenance.json",
        # Beside the runs: the settings of the experiments are shown, too.
        experiments=study.experiment_tables()[:1],
        instances=study.own_negatives(),
        # Of other profiles, for the paper's counter-examples.
        elsewhere=[path for path in map(PUBLISHED.joinpath, OTHER_TABLES if PAPER else ()) if path.exists()],
    output:
        pdf=report(
            "<results>/paper/rankbound.pdf",
            caption="../report/paper.rst",
            category="Paper",
            labels={"format": "PDF"},
        ),
        html="<results>/paper/index.html",
        paper=PAPER,
    log:
        "<logs>/document.log",
    localrule: True
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        step=step,
        code=steps.code("document"),
        results=subpath(input.runs, parent=True),
        titles=steps.titles_flag(),
        elsewhere=lambda wildcards, input: f"--elsewhere {PUBLISHED}" if input.elsewhere else "",
    shell:
        "{params.step} document --results {params.results:q} --provenance {input.provenance:q}"
        " --out {output.pdf:q} --html {output.html:q} --instances {input.instances:q} {params.titles}"
        " --paper {output.paper:q} {params.elsewhere} > {log:q} 2>&1"


# What the paper is made from, for those who do not train: `python -m rankbound_study report`.
rule evidence:
    input:
        runs="<results>/runs.parquet",
        epochs="<results>/epochs.parquet",
        experiments=study.experiment_tables()[:2],
        claims="<results>/tables/table_claims.csv",
        instances=[data_set.path for data_set in study.bounded_instances.values()],
    output:
        "<results>/evidence.parquet",
    log:
        "<logs>/evidence.log",
    localrule: True
    threads: 1
    resources:
        mem_mb=4000,
        runtime=20,
    params:
        step=step,
        code=steps.code("evidence"),
        results=subpath(input.runs, parent=True),
        titles=steps.titles_flag(),
        options=steps.result_options("protocol", "study"),
    shell:
        "{params.step} evidence --results {params.results:q} --instances {input.instances:q} {params.titles}"
        " --out {output:q} --options {params.options:q} > {log:q} 2>&1"
