# Tables and figures, from closed forms, from the runs or from the comparisons: a job makes those that are made from the
# same files. Their modules describe what they are made from. Figures with pictures of a data set have its licence, so
# they stay apart.


for family, names in families([name for name in config["tables"] if name in TABLES], TABLES).items():

    rule:
        name:
            family
        input:
            **spec_files(TABLES[names[0]]),
        output:
            csv=[
                report(
                    f"<results>/tables/{name}.csv",
                    caption="../report/caption.rst",
                    category="Tables",
                    labels={"table": TABLES[name].title or name},
                )
                for name in names
            ],
            beside=[f"<results>/tables/{name}{suffix}" for name in names for suffix in TABLES[name].beside],
            metrics=["<results>/metrics.json" for name in names if TABLES[name].metrics],
        log:
            f"<logs>/table/{family}.log",
        localrule: True
        threads: 1
        resources:
            mem_mb=4000,
            runtime=20,
        params:
            step=step,
            code=made_code("table", names),
            names=names,
            captions=[f"**{TABLES[name].title or name}**: {TABLES[name].caption}" for name in names],
            folder=subpath(output[0], parent=True),
            files=file_flags,
            metrics=metrics_flag,
            options=steps.result_options(*TABLES[names[0]].options),
        shell:
            "{params.step} table {params.names} {params.files} --out-dir {params.folder:q} {params.metrics}"
            " --options {params.options:q} > {log:q} 2>&1"


for family, names in families(config["figures"], FIGURES).items():

    rule:
        name:
            family
        input:
            **spec_files(FIGURES[names[0]]),
        output:
            svg=[
                report(
                    str(figure_file(Path("<results>"), name, ".svg")),
                    caption="../report/caption.rst",
                    category="Figures",
                    labels={"figure": title(name), "from": " and ".join(FIGURES[name].needs) or "closed forms"},
                )
                for name in names
            ],
            pdf=[str(figure_file(Path("<results>"), name, ".pdf")) for name in names],
        log:
            f"<logs>/figure/{family}.log",
        localrule: True
        threads: 1
        resources:
            mem_mb=2000,
            runtime=10,
        params:
            step=step,
            code=made_code("figure", names),
            names=names,
            captions=[f"**{title(name)}**: {FIGURES[name].caption}" for name in names],
            files=file_flags,
            options=steps.result_options(*FIGURES[names[0]].options),
        shell:
            "{params.step} figure {params.names} {params.files} --out {output:q} --options {params.options:q}"
            " > {log:q} 2>&1"
