# The whole study: raw archives -> lists -> training instances -> runs -> tables, figures and the paper.
# `snakemake --cores 2` makes all of it; `snakemake -n` says what is missing and why. Every step is a subcommand
# of `python -m rankbound_study`, what it depends on is in its rule, and what to run is in config.yaml.
import os
import sys
import threading
from pathlib import Path

from snakemake.utils import min_version

from rankbound.errors import ConfigError
from rankbound_study.config.comparisons import VGG16_FILE
from rankbound_study.config.check import check_config, config_files
from rankbound_study.config.study import Study
from rankbound_study.config.steps import Steps, one_of
from rankbound_study.config.code_digests import CodeDigests

min_version("9.14")  # path variables


configfile: "config.yaml"


try:
    check_config(
        config,
        schema=Path(workflow.basedir, "workflow/schemas/config.schema.json"),
        files=config_files(workflow),
        flags=list(workflow.config_settings.config),
    )
except ConfigError as error:
    # The message alone: a traceback of this file would say nothing more.
    sys.exit(str(error))

study = Study(config)
codes = CodeDigests()
steps = Steps(study, codes)


onstart:
    # With its limit of jobs per second snakemake looks for jobs again a second after each time that it looked for jobs:
    # after 200 of them 200 times a second, which takes a core. Starting them takes longer than the limit allows anyway.
    workflow.scheduler.job_rate_limiter = None
    # The handler of SIGTERM takes this lock in the thread that may be holding it: with a plain one that waits for ever.
    workflow.scheduler._lock = threading.RLock()
    for reason in study.left_out.values():
        print(reason, file=sys.stderr)


# The steps run with the Python that runs snakemake, one thread each (lists are small: two jobs side by side beat two
# threads), and keep the memory of freed tensors for the next ones instead of handing it back after each operation.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
os.environ.setdefault("RANKBOUND_MIRROR", config.get("mirror", ""))
os.environ.update(
    POLARS_MAX_THREADS="1",
    PYTHONHASHSEED="0",
    # Every step leaves a record there of what it read, made and ran on, on whatever node that was.
    RANKBOUND_PROVENANCE=str(Path(config["pathvars"]["results"], "provenance")),
    CUBLAS_WORKSPACE_CONFIG=":4096:8",
    MALLOC_MMAP_THRESHOLD_="1073741824",
    MALLOC_TRIM_THRESHOLD_="4294967296",
)


wildcard_constraints:
    source=one_of(study.sources),
    instances=one_of(study.instances),
    protocol=one_of(study.places),
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
        study.figure_files(),
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
        study.experiment_tables(),


rule figures:
    input:
        study.table_files(),
        study.figure_files(),


rule paper:
    input:
        "<results>/paper/rankbound.pdf",
        "<results>/paper/index.html",


# `snakemake --workflow-profile profiles/demo` runs the same rules on generated data; this target checks that it does.
rule demo:
    input:
        rules.all.input if not study.fetched else "use --workflow-profile profiles/demo",
