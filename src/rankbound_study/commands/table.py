"""The step `table`: make one table of the thesis or of the neural-ranking study."""

import argparse
from pathlib import Path
from typing import Any

SUMMARY = "Make a table: 5.1 and neural_1 to neural_3 from the runs table, the worked examples only from the library"
EXAMPLES = """\
  python -m rankbound_study table table_5_1 --runs results/runs.parquet --out-dir results/tables \\
      --metrics results/metrics.json
  python -m rankbound_study table table_2_2 --out-dir results/tables
  python -m rankbound_study table table_neural_1 --runs results/runs.parquet --epochs results/epochs.parquet \\
      --out-dir results/tables"""

_OF_RUNS = ("table_5_1", "table_flattery", "table_sensitivity", "table_neural_")
_OF_METHODS = "table_neural_"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "name",
        metavar="NAME",
        help="table_5_1, table_5_1_honest, table_flattery, table_sensitivity, table_neural_1 to _3, "
        "table_neural_features, or a worked table such as table_2_2 (table_claims: the step `claims`)",
    )
    parser.add_argument("--runs", type=Path, metavar="FILE", help="the runs table (not for worked tables)")
    parser.add_argument(
        "--epochs",
        type=Path,
        metavar="FILE",
        help="epochs table, whose validation scores select the best methods",
    )
    parser.add_argument("--experiments", type=Path, metavar="FILE", help="the experiments' runs (table_sensitivity)")
    parser.add_argument("--out-dir", type=Path, metavar="DIR", required=True, help="where NAME.csv (.md, .tex) goes")
    parser.add_argument("--metrics", type=Path, metavar="FILE", help="also write the means as nested JSON (table_5_1)")
    parser.add_argument(
        "--predictions",
        type=Path,
        metavar="FILE",
        nargs="*",
        default=[],
        help="the predictions of the methods that score faces (table_neural_2, table_neural_3, table_neural_features)",
    )
    parser.add_argument("--images", type=Path, metavar="FILE", help="the images file, for the ages of the faces")
    parser.add_argument("--options", default="{}", metavar="JSON", help="protocol (published, honest), study, model")


def run(arguments: argparse.Namespace) -> None:
    """Compute and write the table in all its forms."""
    from rankbound.errors import ConfigError
    from rankbound_study.options import parse_options

    options = parse_options(arguments.options)
    if arguments.name.startswith(_OF_RUNS) and arguments.runs is None:
        raise ConfigError(f"{arguments.name} is made from runs: give the runs table with --runs FILE")
    if arguments.name.startswith(_OF_METHODS) and arguments.epochs is None:
        raise ConfigError(
            f"{arguments.name} compares with the best method by validation: give the table of epochs with --epochs FILE"
        )
    if arguments.name in ("table_5_1", "table_5_1_honest"):
        _write_table_5_1(arguments.name, arguments.runs, arguments.out_dir, arguments.metrics, options)
    elif arguments.name == "table_flattery":
        _write_flattery(arguments.runs, arguments.out_dir, options)
    elif arguments.name == "table_sensitivity":
        _write_sensitivity(arguments.runs, arguments.experiments, arguments.out_dir, options)
    elif arguments.name == "table_neural_features":
        _write_feature_table(arguments)
    elif arguments.name.startswith("table_neural_"):
        _write_neural_table(arguments)
    else:
        from rankbound_study.claims.worked import worked_table
        from rankbound_study.report.output import write_text

        write_text(arguments.out_dir / f"{arguments.name}.csv", worked_table(arguments.name).write_csv())


def _write_table_5_1(name: str, runs: Path, folder: Path, metrics: Path | None, options: dict[str, str]) -> None:
    from rankbound_study.report import summary, table_files, table_layout, tables
    from rankbound_study.report.output import write_json
    from rankbound_study.results.scores import RunsChoice

    table = tables.table_5_1(runs, RunsChoice.from_options(options))
    table_files.write_table(folder, name, table, table_layout.texts(table))
    write_json(folder / f"{name}_summary.json", summary.summarise(table))
    if metrics is not None:
        write_json(metrics, summary.metrics(table))


def _write_flattery(runs: Path, folder: Path, options: dict[str, str]) -> None:
    from rankbound.errors import ConfigError
    from rankbound_study.report import flattery, table_files

    if set(options) != {"study"}:
        raise ConfigError(f"{flattery.NAME}: found the options {sorted(options)}, expected only study")
    table = flattery.table_flattery(runs, options["study"])
    table_files.write_table(folder, flattery.NAME, table, flattery.texts(table))


def _write_sensitivity(runs: Path, experiments: Path | None, folder: Path, options: dict[str, Any]) -> None:
    from rankbound.errors import ConfigError
    from rankbound_study.claims.evidence import Evidence
    from rankbound_study.config.data_sets import DataSet
    from rankbound_study.report import sensitivity, table_files

    if set(options) != {"study", "experiments"}:
        raise ConfigError(f"{sensitivity.NAME}: found the options {sorted(options)}, expected study and experiments")
    evidence = Evidence(options["study"], runs=runs, experiments=experiments)
    columns = {name: [DataSet(*column) for column in listed] for name, listed in options["experiments"].items()}
    table = sensitivity.table_sensitivity(evidence, columns)
    table_files.write_table(folder, sensitivity.NAME, table, sensitivity.texts(table))


def _write_neural_table(arguments: argparse.Namespace) -> None:
    from rankbound_study.report import neural_layout, neural_tables, table_files
    from rankbound_study.results.neural_names import table_named

    about = table_named(arguments.name)
    table = neural_tables.neural_table(about, arguments.runs, arguments.epochs, arguments.predictions, arguments.images)
    folder = arguments.out_dir
    if about.of_faces:
        table_files.write_csv(folder, f"{about.name}_by_age_gap", table.gaps)
    table_files.write_csv(folder, f"{about.name}_comparisons", table.comparisons)
    table_files.write_table(folder, about.name, table.scores, neural_layout.texts(table.scores, about))


def _write_feature_table(arguments: argparse.Namespace) -> None:
    from rankbound_study.report import neural_feature_layout, table_files
    from rankbound_study.results import neural_features

    table = neural_features.feature_results(arguments.runs, arguments.epochs, arguments.predictions, arguments.images)
    table_files.write_csv(arguments.out_dir, f"{arguments.name}_gaps", table.gaps)
    table_files.write_table(arguments.out_dir, arguments.name, table.scores, neural_feature_layout.texts(table))
