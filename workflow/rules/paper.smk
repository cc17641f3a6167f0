# The paper: every table and figure in one document, as PDF and as HTML that works offline.


rule document:
    input:
        runs="<results>/runs.parquet",
        tables=study.table_files(),
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
        titles=" ".join(steps.titles_flag()),
        elsewhere=lambda wildcards, input: f"--elsewhere {PUBLISHED}" if input.elsewhere else "",
    shell:
        "{params.step} document --results {params.results:q} --provenance {input.provenance:q}"
        " --out {output.pdf:q} --html {output.html:q} --instances {input.instances:q} {params.titles}"
        " --paper {output.paper:q} {params.elsewhere} > {log:q} 2>&1"
