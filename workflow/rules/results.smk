# Tables and figures. Those of chapter 5 and of the comparisons are made from the runs, the others from the library's
# closed forms alone. Their modules describe what they are made from.
from shlex import quote

from rankbound_study.figures import title
from rankbound_study.results.neural_names import table_of

FIGURES = figure_specs()
TABLES = table_specs()
LEADERBOARD, LAW, EFFECTS, REGIMES = "table_leaderboard", "table_law", "table_effects", "table_regimes"


def compared_jobs(by_features):
    """Return the unshifted methods with all features; or those of feature counts, with their plain versions."""
    plain = [job for job in study.compared if job.shift is None]
    if not by_features:
        return [job for job in plain if job.features is None]
    some = {(job.instances.name, job.base) for job in plain if job.features is not None}
    return [job for job in plain if (job.instances.name, job.base) in some]


def csv_files(table):
    """Return the CSV files of a table, if it is made."""
    if table not in config["tables"]:
        return []
    suffixes = [suffix for suffix in TABLES[table].beside if suffix.endswith(".csv")]
    return [f"<results>/tables/{table}{suffix}" for suffix in (".csv", *suffixes)]


def comparison_files(needs, numbers, methods=(), by_features=False):
    """Return the files of the comparisons for the tables of these numbers: those that are needed and exist."""
    jobs = [job for job in compared_jobs(by_features) if table_of(job.instances.data_set.dataset).number in numbers]
    images = [study.converted_path(job.instances.source) for job in jobs if job.instances.kind == "images"]
    chosen = [job for job in jobs if job.method in methods] if methods else jobs
    files = {
        "runs": "<results>/runs.parquet",
        "epochs": "<results>/epochs.parquet",
        "experiments": study.experiment_tables()[:1],
        "experiment_epochs": study.experiment_tables()[1:2],
        "rates": "<results>/rates.parquet",
        "leaderboard": csv_files(LEADERBOARD),
        "law": csv_files(LAW),
        "effects": csv_files(EFFECTS),
        "regimes": csv_files(REGIMES),
        "instances": [data_set.path for data_set in study.bounded_instances.values()],
        "images": images[0] if images else [],
        "predictions": [f"{job.stem}.predictions.parquet" for job in chosen if job.instances.kind == "images"],
        "weights": [f"{job.stem}.weights.safetensors" for job in chosen],
    }
    return {name: files[name] for name in needs if files[name]}


def comparison_figure_files(wildcards):
    """Return the inputs of a comparison figure."""
    return spec_files(FIGURES[wildcards.figure])


def spec_files(spec):
    """Return the files that a figure or a table needs and that exist."""
    return comparison_files((*spec.needs, *spec.uses), spec.data, spec.methods, spec.by_features)


FILES = (
    "runs",
    "epochs",
    "experiments",
    "experiment_epochs",
    "rates",
    "leaderboard",
    "law",
    "effects",
    "regimes",
    "instances",
    "images",
    "predictions",
    "weights",
)


def file_flags(wildcards, input):
    """Return the input files of a rule as flags, by name, and the data sets' titles; missing files have none."""
    paths = {name: getattr(input, name) for name in FILES if hasattr(input, name)}
    listed = {name: [path] if isinstance(path, str) else list(path) for name, path in paths.items()}
    flags = {name.replace("_", "-"): " ".join(map(quote, files)) for name, files in listed.items() if files}
    return " ".join([*(f"--{name} {files}" for name, files in flags.items()), *steps.titles_flag()])


def metrics_flag(wildcards, output):
    """Return the flag for the study's metrics, which one table writes."""
    return " ".join(f"--metrics {quote(path)}" for path in output.metrics)


def figure_labels(source):
    """Return a figure's labels in Snakemake's report: its title and its source."""
    return lambda wildcards: {"figure": title(wildcards.figure), "from": source}


def figure_caption(wildcards):
    """Return a figure's caption in Snakemake's report."""
    return FIGURES[wildcards.figure].caption


def figure_code(wildcards):
    """Return the digest of a figure's code, whose own module is imported by name."""
    return codes.of_step("figure", modules=[f"rankbound_study.figures.{FIGURES[wildcards.figure].module}"])


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
            code=steps.code("table", f"rankbound_study.report.tables.{TABLES[table].module}"),
            table=table,
            caption=TABLES[table].caption,
            folder=subpath(output.csv, parent=True),
            files=file_flags,
            metrics=metrics_flag,
            options=steps.result_options(*TABLES[table].options),
        shell:
            "python -m rankbound_study table {params.table} {params.files} --out-dir {params.folder:q} {params.metrics}"
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
        code=figure_code,
        caption=figure_caption,
    shell:
        "python -m rankbound_study figure {wildcards.figure:q} --out {output.svg:q} --out {output.pdf:q} > {log:q} 2>&1"


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
        code=figure_code,
        caption=figure_caption,
        files=file_flags,
        options=steps.result_options("protocol", "study"),
    shell:
        "python -m rankbound_study figure {wildcards.figure:q} {params.files} --out {output.svg:q} --out {output.pdf:q}"
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
        code=figure_code,
        caption=figure_caption,
        files=file_flags,
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
