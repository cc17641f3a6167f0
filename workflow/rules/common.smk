# Functions of several rules: resources, flags, files and captions.
from operator import attrgetter

from rankbound_study.figures import FIRST, title
from rankbound_study.results.neural import table_of

FIGURES = figure_specs()
TABLES = table_specs()
LEADERBOARD, LAW, EFFECTS, REGIMES = "table_leaderboard", "table_law", "table_effects", "table_regimes"


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
LINEAR_ON_FACES = ("Rank-LR", "Class-LR")


def growing(amount):
    """Return a resource that grows with every attempt: twice, three times the amount.

    `amount` is a number, or a function of the wildcards. Steps of minutes request memory and time in this way: on a
    cluster, a step that was ended for exceeding either succeeds in a later attempt.
    """

    def amount_of_attempt(wildcards, attempt):
        return attempt * (amount(wildcards) if callable(amount) else amount)

    return amount_of_attempt


def study_options(wildcards):
    """Return the whole configuration except the archives' origin; their content is checked."""
    return as_json({key: value for key, value in config.items() if key != "mirror"})


def description_of_source(wildcards):
    """Return the flag for the description of a data set that the project does not know."""
    return steps.description_flag(wildcards.source)


def description_of_archive(wildcards):
    """Return the same for the data set of an archive."""
    return steps.description_flag(study.archives[wildcards.archive])


def compared_jobs(by_features):
    """Return the unshifted methods with all features; or those of feature counts, with their plain versions."""
    plain = [job for job in study.compared if job.request.settings.shift is None]
    if not by_features:
        return [job for job in plain if job.request.settings.features is None]
    some = {(job.instances.name, job.base) for job in plain if job.request.settings.features is not None}
    return [job for job in plain if (job.instances.name, job.base) in some]


def csv_files(table):
    """Return the CSV files of a table, if it is made."""
    if table not in config["tables"]:
        return []
    suffixes = [suffix for suffix in TABLES[table].beside if suffix.endswith(".csv")]
    return [f"<results>/tables/{table}{suffix}" for suffix in (".csv", *suffixes)]


def collected(part, name):
    """Return the file of collected runs, epochs or rates: those of a part, or all where there is no such part."""
    part = study.config.protocols[0] if part == FIRST else part
    if part not in study.collected:
        return f"<results>/{name}.parquet"
    return f"<results>/collected/{part}{'' if name == 'runs' else f'.{name}'}.parquet"


def comparison_files(needs, numbers, methods=(), by_features=False, part=""):
    """Return the files of the comparisons for the tables of these numbers: those that are needed and exist."""
    jobs = [job for job in compared_jobs(by_features) if table_of(job.instances.data_set.dataset).number in numbers]
    images = [job.instances.inputs["images"] for job in jobs if job.instances.kind == "images"]
    chosen = [job for job in jobs if job.model in methods] if methods else jobs
    files = {
        "runs": collected(part, "runs"),
        "epochs": collected(part, "epochs"),
        "experiments": study.experiment_tables()[:1],
        "experiment_epochs": study.experiment_tables()[1:2],
        "rates": collected(part, "rates"),
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


def spec_files(spec):
    """Return the files that a figure or a table needs and that exist."""
    return comparison_files((*spec.needs, *spec.uses), spec.data, spec.methods, spec.by_features, spec.part)


def families(names, specs):
    """Return figures or tables by rule: those made from the same files with the same options, in one job.

    A rule is named after what it makes, or after what several figures or tables are made from.
    """
    alike = {}
    for name in names:
        spec = specs[name]
        pictures = getattr(spec, "shows_pictures", False)
        alike.setdefault((as_json(spec_files(spec)), spec.options, pictures), []).append(name)
    rules = {}
    for family in alike.values():
        kind, spec = family[0].partition("_")[0], specs[family[0]]
        name = family[0] if len(family) == 1 else f"{kind}s_of_{'_and_'.join(spec.needs) or 'formulas'}"
        rules[f"{name}_{family[0]}" if name in rules else name] = family
    return rules


def file_flags(wildcards, input):
    """Return the input files of a rule as flags, by name, and the data sets' titles; missing files have none."""
    files = {name: getattr(input, name) for name in FILES if hasattr(input, name)}
    return f"{flags_of({name: paths for name, paths in files.items() if paths})} {steps.titles_flag()}".strip()


def made_code(kind, names):
    """Return a parameter function: the digest of the code of figures or tables, whose own modules are imported by name."""
    specs, package = (FIGURES, "figures") if kind == "figure" else (TABLES, "report.tables")
    return steps.code(kind, *sorted({f"rankbound_study.{package}.{specs[name].module}" for name in names}))


def metrics_flag(wildcards, output):
    """Return the flag for the study's metrics, which one table writes."""
    return flags_of({"metrics": output.metrics}) if output.metrics else ""


def claim_files(wildcards):
    """Return the files that decide claims: all runs, any experiments, and the methods' predictions on faces."""
    files = {"runs": "<results>/runs.parquet", "epochs": "<results>/epochs.parquet"}
    files |= dict(zip(("experiments", "experiment_epochs"), study.experiment_tables()))
    files |= comparison_files(["predictions", "images"], [2, 3])
    by_features = comparison_files(["predictions"], [2, 3], by_features=True)
    for name, paths in by_features.items():
        files[name] = list(dict.fromkeys([*files.get(name, []), *paths]))
    return files | comparison_files(["weights"], [2], methods=LINEAR_ON_FACES)
