# The whole study: raw archives -> lists -> training instances -> runs -> tables, figures and the paper.
# `snakemake --cores 2` makes all of it; `snakemake -n` lists what is missing and why. Every step is a subcommand of
# `python -m rankbound_study`; its rule names its dependencies, and config.yaml says what to run.
import os
import sys
import threading
from pathlib import Path

from snakemake.utils import min_version

from rankbound.errors import ConfigError
from rankbound_study.config.check import check_config, config_files
from rankbound_study.config.code_digests import CodeDigests
from rankbound_study.config.comparisons import VGG16_FILE
from rankbound_study.config.lines import refuse_code
from rankbound_study.config.steps import Steps, one_of
from rankbound_study.config.score_distributions import KIND
from rankbound_study.config.study import Study
from rankbound_study.figures import figure_file, figure_specs
from rankbound_study.report.tables import table_names, table_specs
from rankbound_study.warm import server

min_version("9.14")  # path variables


# Snakemake runs the Python code that a configuration may hold. That of files named by --configfile has run by now:
# `python -m rankbound_study check-config` refuses it without running it.
try:
    refuse_code(Path("config.yaml"))
except ConfigError as error:
    sys.exit(str(error))


configfile: "config.yaml"


try:
    check_config(
        config,
        files=config_files(workflow),
        flags=list(workflow.config_settings.config),
        figures=figure_specs(),
        tables=table_names(),
    )
except ConfigError as error:
    # Only the message: a traceback of this file would add nothing.
    sys.exit(str(error))

study = Study(config)
codes = CodeDigests()
steps = Steps(study, codes)
figure_files = [
    str(figure_file(Path("<results>"), name, suffix)) for name in config["figures"] for suffix in (".svg", ".pdf")
]


onstart:
    # With a limit of jobs per second, snakemake schedules another search for jobs one second after every search: after
    # 200 of them, 200 searches a second keep a core busy. Starting jobs is slower than the limit anyway.
    workflow.scheduler.job_rate_limiter = None
    # The handler of SIGTERM takes this lock in a thread that may already hold it: a plain lock would wait forever.
    workflow.scheduler._lock = threading.RLock()
    for reason in study.left_out.values():
        print(reason, file=sys.stderr)
    # On a cluster, steps start elsewhere, or under limits of their own.
    if workflow.local_exec:
        workflow.warm_server = server.start()


# The steps run with snakemake's Python, one thread each (lists are small: two parallel jobs beat two threads), and
# reuse the memory of freed tensors instead of returning it after each operation.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
os.environ.setdefault("RANKBOUND_MIRROR", config.get("mirror", ""))
os.environ.update(
    POLARS_MAX_THREADS="1",
    PYTHONHASHSEED="0",
    # Every step leaves a record of its inputs, outputs and machine there, on any node.
    RANKBOUND_PROVENANCE=str(Path(config["pathvars"]["results"], "provenance")),
    CUBLAS_WORKSPACE_CONFIG=":4096:8",
    MALLOC_MMAP_THRESHOLD_="1073741824",
    MALLOC_TRIM_THRESHOLD_="4294967296",
)


wildcard_constraints:
    source=one_of(study.sources),
    instances=one_of(study.instances),
    protocol=study.place_pattern,
    model=one_of([*study.models, *study.methods]),
    loss=one_of(study.losses),
    bounding=one_of(study.boundings),
    figure=one_of(config["figures"]),
    table=one_of(name for name in config["tables"] if not name.startswith("table_5_1")),


report: "workflow/report/study.rst"


localrules:
    all,
    data,
    tables,
    runs,
    figures,
    paper,
    demo,


rule all:
    input:
        study.table_files(),
        figure_files,
        study.experiment_tables(),
        "<results>/paper/rankbound.pdf",
        "<results>/paper/index.html",


include: "workflow/rules/data.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/results.smk"
include: "workflow/rules/claims.smk"
include: "workflow/rules/provenance.smk"
include: "workflow/rules/paper.smk"


rule data:
    input:
        study.data_files(),


rule tables:
    input:
        study.distribution_files(),


rule runs:
    input:
        "<results>/runs.parquet",
        "<results>/epochs.parquet",
        "<results>/rates.parquet",
        study.experiment_tables(),


rule figures:
    input:
        study.table_files(),
        figure_files,


rule paper:
    input:
        "<results>/paper/rankbound.pdf",
        "<results>/paper/index.html",


# `snakemake --workflow-profile profiles/demo` runs the same rules on generated data; this target fails on other data.
rule demo:
    input:
        rules.all.input if not study.converted else "use --workflow-profile profiles/demo",
