# The whole study: raw archives -> lists -> training instances -> runs -> tables, figures and the paper.
# `snakemake --cores 2` makes all of it; `snakemake -n` lists what is missing and why. Every step is a subcommand of
# `python -m rankbound_study`; its rule names its dependencies, and config.yaml says what to run.
import sys
from pathlib import Path

from snakemake.utils import min_version

from rankbound.errors import ConfigError
from rankbound_study.config.check import check_config, config_sources, refuse_code
from rankbound_study.config.code_digests import CodeDigests
from rankbound_study.config.study import KIND, Study
from rankbound_study.figures import figure_file, figure_specs
from rankbound_study.options import as_json
from rankbound_study.report.paper import OTHER_TABLES
from rankbound_study.report.tables import table_names, table_specs
from rankbound_study.vocabulary import EXPERIMENTS, VGG16_FILE
from rankbound_study.workflow.rules import Steps, end_by_signal_in_a_thread, failures, flags_of, one_of, step_command

min_version("9.14")  # path variables

# Snakemake runs the Python code that a configuration may hold. That of files named by --configfile has run by now:
# `python -m rankbound_study check-config` refuses it without running it.
try:
    refuse_code(Path("config.yaml"))
except ConfigError as error:
    sys.exit(str(error))


configfile: "config.yaml"


try:
    study = Study(
        check_config(config, **config_sources(workflow, config), figures=figure_specs(), tables=table_names())
    )
except ConfigError as error:
    # Only the message: a traceback of this file would add nothing.
    sys.exit(str(error))

codes = CodeDigests()
steps = Steps(study, codes)
step = step_command(config["pathvars"]["results"], config.get("mirror", ""))
table_files = [f"<results>/tables/{name}.csv" for name in config["tables"]]
figure_files = [
    str(figure_file(Path("<results>"), name, suffix)) for name in config["figures"] for suffix in (".svg", ".pdf")
]
# The report of every study; for those of the sources, a paper of a few pages, and what it is made from as one file.
PAPER = ["<results>/paper/paper.pdf", "<results>/paper/paper.html"] if study.of_the_sources else []
EVIDENCE = ["<results>/evidence.parquet"] if PAPER and study.experiments else []
REPORT = ["<results>/paper/rankbound.pdf", "<results>/paper/index.html", *PAPER, *EVIDENCE]
PUBLISHED = Path("published_results")
ALL_FILES = [*table_files, *figure_files, *study.experiment_tables(), *REPORT]


onstart:
    end_by_signal_in_a_thread()
    for reason in study.left_out.values():
        print(reason, file=sys.stderr)


onerror:
    print(failures(log), file=sys.stderr)


onsuccess:
    page = Path(config["pathvars"]["results"], "paper", "index.html")
    if page.exists():
        print(f"report: {page}", file=sys.stderr)


wildcard_constraints:
    source=one_of(study.sources),
    instances=one_of(study.instances),
    protocol=study.place_pattern,
    model=one_of(sorted({job.model for job in study.jobs})),
    loss=one_of(sorted({job.request.loss for job in study.jobs})),
    bounding=one_of(sorted({job.request.bounding for job in study.jobs})),


report: "../report/study.rst"


# With `--sdm apptainer`, steps run in the image of envs/apptainer.def, with the code of this clone.
container: "study.sif"


# Targets, and rules that `use rule` makes of local ones: they do not inherit that.
localrules:
    all,
    data,
    tables,
    runs,
    figures,
    paper,
    demo,
    compared_controls,
    join,
    collect_experiments,


include: "common.smk"
include: "data.smk"
include: "tables.smk"
include: "train.smk"
include: "results.smk"
include: "claims.smk"
include: "provenance.smk"
include: "paper.smk"


rule data:
    input:
        [data_set.path for data_set in study.instances.values()],


rule tables:
    input:
        [file.path for file in study.distributions],


rule runs:
    input:
        "<results>/runs.parquet",
        "<results>/epochs.parquet",
        "<results>/rates.parquet",
        study.experiment_tables(),


rule figures:
    input:
        table_files,
        figure_files,


rule paper:
    input:
        REPORT,


# `snakemake --workflow-profile profiles/demo` runs the same rules on generated data; this target fails on other data.
rule demo:
    input:
        ALL_FILES if not study.converted else "use --workflow-profile profiles/demo",
