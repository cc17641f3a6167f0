# Tables and figures. Those of chapter 5 and of the comparisons are made from the runs, the others from the library's
# closed forms alone.
from shlex import quote

from rankbound_study.figures import figure_specs, title
from rankbound_study.results.neural_names import FEATURES_TABLE, table_named, table_of

FIGURES = figure_specs()
COMPARISON_TABLE = "table_neural_"
OF_RUNS = ("table_5_1", "table_flattery", "table_sensitivity", "table_claims", COMPARISON_TABLE)


def comparison_tables(of_faces):
    """Return the tables of the comparisons in the configuration: of faces, or of queries."""
    names = [name for name in config["tables"] if name.startswith(COMPARISON_TABLE) and name != FEATURES_TABLE]
    tables = [table_named(name) for name in names]
    return [table.name for table in tables if table.of_faces == of_faces]


def compared_jobs(by_features):
    """Return the unshifted methods with all features; or those of feature counts, with their plain versions."""
    plain = [job for job in study.compared if job.shift is None]
    if not by_features:
        return [job for job in plain if job.features is None]
    some = {(job.instances.name, job.base) for job in plain if job.features is not None}
    return [job for job in plain if (job.instances.name, job.base) in some]


def comparison_files(needs, numbers, methods=(), by_features=False):
    """Return the files of the comparisons for the tables of these numbers: those that are needed and exist."""
    jobs = [job for job in compared_jobs(by_features) if table_of(job.instances.data_set.dataset).number in numbers]
    images = [study.converted_path(job.instances.source) for job in jobs if job.instances.kind == "images"]
    chosen = [job for job in jobs if job.method in methods] if methods else jobs
    files = {
        "runs": "<results>/runs.parquet",
        "epochs": "<results>/epochs.parquet",
        "images": images[0] if images else [],
        "predictions": [f"{job.stem}.predictions.parquet" for job in chosen if job.instances.kind == "images"],
        "weights": [f"{job.stem}.weights.safetensors" for job in chosen],
    }
    return {name: files[name] for name in needs if files[name]}


def comparison_table_files(wildcards):
    """Return the inputs of a comparison table; those of faces also read predictions, pairs and ages."""
    if wildcards.table == FEATURES_TABLE:
        return comparison_files(["runs", "epochs", "predictions", "images"], [1, 2, 3], by_features=True)
    about = table_named(wildcards.table)
    needs = ["runs", "epochs", *(["predictions", "images"] if about.of_faces else [])]
    return comparison_files(needs, [about.number])


def comparison_figure_files(wildcards):
    """Return the inputs of a comparison figure."""
    spec = FIGURES[wildcards.figure]
    return comparison_files(spec.needs, spec.data, spec.methods, spec.by_features)


def comparison_flags(wildcards, input):
    """Return the files as flags, by name; missing files have none."""
    return file_flags(input, ("runs", "epochs", "images", "predictions", "weights"))


def file_flags(input, names):
    """Return the inputs of a rule that exist, each as a flag of its name."""
    paths = {name: getattr(input, name) for name in names if hasattr(input, name)}
    listed = {name: [path] if isinstance(path, str) else list(path) for name, path in paths.items()}
    flags = {name.replace("_", "-"): " ".join(map(quote, files)) for name, files in listed.items() if files}
    return " ".join(f"--{name} {files}" for name, files in flags.items())


def figure_labels(source):
    """Return a figure's labels in Snakemake's report: its title and its source."""
    return lambda wildcards: {"figure": title(wildcards.figure), "from": source}


def figure_caption(wildcards):
    """Return a figure's caption in Snakemake's report."""
    return FIGURES[wildcards.figure].caption


def figure_code(wildcards):
    """Return the digest of a figure's code, whose own module is imported by name."""
    return codes.of_step("figure", modules=[f"rankbound_study.figures.{FIGURES[wildcards.figure].module}"])


rule table_5_1:
    input:
        runs="<results>/runs.parquet",
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
    localrule: True
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        code=codes.of_step("table"),
        table="table_5_1",
        folder=subpath(output.csv, parent=True),
        metrics=lambda wildcards, output: f"--metrics {quote(output.metrics)}",
        options=steps.result_options,
    shell:
        "python -m rankbound_study table {params.table} --runs {input.runs:q} --out-dir {params.folder:q} {params.metrics}"
        " --options {params.options:q} > {log:q} 2>&1"


use rule table_5_1 as table_5_1_honest with:
    output:
        csv=report(
            "<results>/tables/table_5_1_honest.csv",
            caption="../report/table_5_1.rst",
            category="Tables",
            labels={"table": "5.1, honest protocol", "of": "mean score by loss and bounding"},
        ),
        md="<results>/tables/table_5_1_honest.md",
        tex="<results>/tables/table_5_1_honest.tex",
        summary="<results>/tables/table_5_1_honest_summary.json",
    log:
        "<logs>/table/table_5_1_honest.log",
    benchmark:
        "<benchmarks>/table/table_5_1_honest.tsv"
    params:
        code=codes.of_step("table"),
        table="table_5_1_honest",
        folder=subpath(output.csv, parent=True),
        metrics="",
        options=steps.honest_options,


rule table_flattery:
    input:
        runs="<results>/runs.parquet",
    output:
        csv=report(
            "<results>/tables/table_flattery.csv",
            caption="../report/flattery.rst",
            category="Tables",
            labels={"table": "flattery", "of": "what a test-picked epoch adds"},
        ),
        md="<results>/tables/table_flattery.md",
        tex="<results>/tables/table_flattery.tex",
    log:
        "<logs>/table/table_flattery.log",
    benchmark:
        "<benchmarks>/table/table_flattery.tsv"
    localrule: True
    threads: 1
    resources:
        mem_mb=2000,
        runtime=20,
    params:
        code=codes.of_step("table"),
        folder=subpath(output.csv, parent=True),
        options=steps.claim_options,
    shell:
        "python -m rankbound_study table table_flattery --runs {input.runs:q} --out-dir {params.folder:q}"
        " --options {params.options:q} > {log:q} 2>&1"


rule table_sensitivity:
    input:
        runs="<results>/runs.parquet",
        experiments=study.experiment_tables()[:1],
    output:
        csv=report(
            "<results>/tables/table_sensitivity.csv",
            caption="../report/sensitivity.rst",
            category="Tables",
            labels={"table": "sensitivity", "of": "how much unstated choices matter"},
        ),
        md="<results>/tables/table_sensitivity.md",
        tex="<results>/tables/table_sensitivity.tex",
    log:
        "<logs>/table/table_sensitivity.log",
    benchmark:
        "<benchmarks>/table/table_sensitivity.tsv"
    localrule: True
    threads: 1
    resources:
        mem_mb=4000,
        runtime=20,
    params:
        code=codes.of_step("table"),
        folder=subpath(output.csv, parent=True),
        files=lambda wildcards, input: file_flags(input, ("runs", "experiments")),
        options=steps.sensitivity_options,
    shell:
        "python -m rankbound_study table table_sensitivity {params.files} --out-dir {params.folder:q}"
        " --options {params.options:q} > {log:q} 2>&1"


rule worked_table:
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
    wildcard_constraints:
        table=one_of(name for name in config["tables"] if not name.startswith(OF_RUNS)),
    localrule: True
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        code=codes.of_step("table"),
        folder=subpath(output[0], parent=True),
    shell:
        "python -m rankbound_study table {wildcards.table:q} --out-dir {params.folder:q} > {log:q} 2>&1"


rule comparison_table:
    input:
        unpack(comparison_table_files),
    output:
        csv=report(
            "<results>/tables/{table}.csv",
            caption="../report/comparison_table.rst",
            category="Tables",
            labels={"table": "{table}", "of": "methods of neural ranking"},
        ),
        comparisons="<results>/tables/{table}_comparisons.csv",
        md="<results>/tables/{table}.md",
        tex="<results>/tables/{table}.tex",
    log:
        "<logs>/table/{table}.log",
    benchmark:
        "<benchmarks>/table/{table}.tsv"
    wildcard_constraints:
        table=one_of(comparison_tables(of_faces=False)),
    localrule: True
    threads: 1
    resources:
        mem_mb=2000,
        runtime=20,
    params:
        code=codes.of_step("table"),
        folder=subpath(output.csv, parent=True),
        files=comparison_flags,
    shell:
        "python -m rankbound_study table {wildcards.table:q} {params.files} --out-dir {params.folder:q} > {log:q} 2>&1"


use rule comparison_table as face_table with:
    output:
        csv=report(
            "<results>/tables/{table}.csv",
            caption="../report/comparison_table.rst",
            category="Tables",
            labels={"table": "{table}", "of": "methods of neural ranking"},
        ),
        comparisons="<results>/tables/{table}_comparisons.csv",
        by_age_gap="<results>/tables/{table}_by_age_gap.csv",
        md="<results>/tables/{table}.md",
        tex="<results>/tables/{table}.tex",
    wildcard_constraints:
        table=one_of(comparison_tables(of_faces=True)),


use rule comparison_table as features_table with:
    output:
        csv=report(
            "<results>/tables/{table}.csv",
            caption="../report/comparison_table.rst",
            category="Tables",
            labels={"table": "{table}", "of": "methods by the number of features"},
        ),
        gaps="<results>/tables/{table}_gaps.csv",
        md="<results>/tables/{table}.md",
        tex="<results>/tables/{table}.tex",
    wildcard_constraints:
        table=FEATURES_TABLE,


rule figure_of_formulas:
    output:
        svg=report(
            "<results>/figures/{figure}.svg",
            caption="../report/figure.rst",
            category="Figures",
            labels=figure_labels("closed forms"),
        ),
        pdf="<results>/figures/{figure}.pdf",
    log:
        "<logs>/figure/{figure}.log",
    benchmark:
        "<benchmarks>/figure/{figure}.tsv"
    wildcard_constraints:
        figure=one_of(name for name in config["figures"] if not FIGURES[name].needs_runs and not FIGURES[name].needs),
    localrule: True
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        code=figure_code,
        caption=figure_caption,
    shell:
        "python -m rankbound_study figure {wildcards.figure:q} --out {output.svg:q} --out {output.pdf:q} > {log:q} 2>&1"


rule figure_of_runs:
    input:
        runs="<results>/runs.parquet",
    output:
        svg=report(
            "<results>/figures/{figure}.svg",
            caption="../report/figure.rst",
            category="Figures",
            labels=figure_labels("runs"),
        ),
        pdf="<results>/figures/{figure}.pdf",
    log:
        "<logs>/figure/{figure}.log",
    benchmark:
        "<benchmarks>/figure/{figure}.tsv"
    wildcard_constraints:
        figure=one_of(name for name in config["figures"] if FIGURES[name].needs_runs),
    localrule: True
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        code=figure_code,
        caption=figure_caption,
        options=steps.result_options,
    shell:
        "python -m rankbound_study figure {wildcards.figure:q} --runs {input.runs:q} --out {output.svg:q} --out {output.pdf:q}"
        " --options {params.options:q} > {log:q} 2>&1"


rule figure_of_comparisons:
    input:
        unpack(comparison_figure_files),
    output:
        svg=report(
            "<results>/figures/{figure}.svg",
            caption="../report/figure.rst",
            category="Figures",
            labels=figure_labels("methods of neural ranking"),
        ),
        pdf="<results>/figures/{figure}.pdf",
    log:
        "<logs>/figure/{figure}.log",
    benchmark:
        "<benchmarks>/figure/{figure}.tsv"
    wildcard_constraints:
        figure=one_of(name for name in config["figures"] if FIGURES[name].needs and not FIGURES[name].shows_pictures),
    localrule: True
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        code=figure_code,
        caption=figure_caption,
        files=comparison_flags,
    shell:
        "python -m rankbound_study figure {wildcards.figure:q} {params.files} --out {output.svg:q} --out {output.pdf:q}"
        " > {log:q} 2>&1"


# Figures with pictures of a data set have its licence, so they stay apart.
use rule figure_of_comparisons as figure_with_pictures with:
    output:
        svg=report(
            "<results>/licensed/{figure}.svg",
            caption="../report/figure.rst",
            category="Figures",
            labels=figure_labels("methods of neural ranking"),
        ),
        pdf="<results>/licensed/{figure}.pdf",
    wildcard_constraints:
        figure=one_of(name for name in config["figures"] if FIGURES[name].shows_pictures),
