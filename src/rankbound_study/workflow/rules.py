"""What the workflow's rules call: the inputs and options of their steps, the command of a step, what failed.

A step's options are one JSON text with sorted keys. It holds exactly the part of the configuration that the step
depends on, so a change elsewhere never reruns the step.
"""

import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from shlex import quote, split
from threading import Thread
from typing import Any

from rankbound.errors import ConfigError
from rankbound_study.config.code_digests import CodeDigests
from rankbound_study.config.sections.description import known_sets, own_files
from rankbound_study.config.study import Request, Study
from rankbound_study.options import as_json

NOT_CONVERTED = {"homepage", "terms", "citation", "archives", "addresses", "validation_share", "seed", "by_time"}
"""Keys of a description on which no converted file depends."""


def one_of(names: Iterable[object]) -> str:
    """Return a regular expression that matches exactly `names` (and nothing if there are none)."""
    return "|".join(re.escape(str(name)) for name in names) or "(?!)"


def flags_of(values: Mapping[str, Any]) -> str:
    """Return flags with their values: a section is one word of JSON, of files each is a word."""
    words = {name: as_json(value) if isinstance(value, Mapping) else value for name, value in values.items()}
    listed = {name: [word] if isinstance(word, str | int) else word for name, word in words.items()}
    return " ".join(f"--{name.replace('_', '-')} {' '.join(map(quote, map(str, listed[name])))}" for name in listed)


class Steps:
    """Functions of a rule's wildcards, for one study.

    `output` is a rule's output with its wildcards: `<data>/folds/{source}.parquet`.
    """

    def __init__(self, study: Study, codes: CodeDigests) -> None:
        self.study, self.codes = study, codes

    def request(self, output: str, wildcards: Any) -> Request:
        """Return what a file is made from; ConfigError if the configuration requests no such file."""
        path = re.sub(r"{(\w+)}", lambda name: getattr(wildcards, name[1]), output)
        if path not in self.study.requests:
            raise ConfigError(
                f"{path} is made by no step of this configuration: its protocols, data sets, losses, boundings, "
                "methods and experiments name none. `snakemake -n` lists the files that are to be made."
            )
        return self.study.requests[path]

    def inputs(self, output: str) -> Callable[[Any], dict[str, Any]]:
        """Return an input function: the files that a step reads, by flag."""
        return lambda wildcards: dict(self.request(output, wildcards).inputs)

    def options(self, output: str) -> Callable[[Any], str]:
        """Return a parameter function: everything that a step depends on, apart from its input files."""
        return lambda wildcards: as_json(self.request(output, wildcards).options)

    def flags(self, output: str) -> Callable[[Any, Any], str]:
        """Return a parameter function: the flags for inputs that only some files of a rule have."""

        def flags(wildcards: Any, input: Any) -> str:
            names = (name for name in self.request(output, wildcards).inputs if name != "instances")
            return flags_of({name: getattr(input, name) for name in names})

        return flags

    def plain_flags(self, output: str) -> Callable[[Any], str]:
        """Return a parameter function: the options as a flag each."""
        return lambda wildcards: flags_of(self.request(output, wildcards).options)

    # Code

    def code(self, step: str, *modules: str, named: Callable[[Any], str] = lambda _: "") -> Callable[[Any], str]:
        """Return a parameter function: the digest of a step's code, read only if the step is in the plan.

        `modules` are imported by name; `named` is a parameter function, whose text names losses, models or formats.
        """
        return lambda wildcards: self.codes.of_step(step, named(wildcards), modules)

    # Data

    def format_of_source(self, wildcards: Any) -> str:
        """Return the format of a data set's raw files."""
        return self.study.described(wildcards.source).format

    def source_of_archive(self, wildcards: Any) -> str:
        """Return the data set that an archive belongs to."""
        return self.study.archives[wildcards.archive]

    def source_of_instances(self, wildcards: Any) -> str:
        """Return the data set that instances are sampled from."""
        return self.study.instances[wildcards.instances].source

    def raw_files(self, wildcards: Any) -> list[str]:
        """Return the raw files of a data set: its archive, or files that lie elsewhere."""
        archive = self.study.sources[wildcards.source].archive
        return [f"<data>/raw/{archive}"] if archive else own_files(self.study.described(wildcards.source))

    def described(self, wildcards: Any) -> str:
        """Return what conversion depends on in a data set's description."""
        return as_json(self.study.described(wildcards.source).model_dump(exclude_defaults=True, exclude=NOT_CONVERTED))

    def description_flag(self, name: str) -> str:
        """Return the flag for the description of a data set that the project does not know."""
        described = self.study.described(name).model_dump(exclude_defaults=True)
        return "" if name in known_sets() else flags_of({"description": described})

    # Resources

    def of_pictures(self, amount: int, otherwise: int) -> Callable[[Any], int]:
        """Return a resource function: an amount for jobs on pictures, another one for all others."""
        return lambda wildcards: amount if self.study.instances[wildcards.instances].kind == "images" else otherwise

    # Results

    def result_options(self, *keys: str) -> str:
        """Return these options of tables, figures and claims, as far as the configuration has them.

        The protocol is the first one of the configuration; experiments have their data sets, generated data sets the
        parameters of their planted tastes.
        """
        config, varied = self.study.config, self.study.varied_instances
        # Those that are measured like the study.
        ran = {variant.experiment: variant.datasets for variant in self.study.variants if variant.is_a_choice}
        planted = {name: getattr(section, "planted", None) for name, section in self.study.sources.items()}
        known = {
            "protocol": config.protocols[0],
            "study": config.study,
            "experiments": {name: [varied[one].data_set for one in sets] for name, sets in ran.items()},
            # With defaults.
            "planted": {name: parameters.model_dump() for name, parameters in planted.items() if parameters},
            **({"leaderboard": config.leaderboard.given()} if config.leaderboard else {}),
        }
        return as_json({key: known[key] for key in keys if key in known})

    def titles_flag(self) -> str:
        """Return the flag for the titles that descriptions give; nothing if there are none."""
        return flags_of({"titles": self.study.titles}) if self.study.titles else ""


def step_command(results: str, mirror: str) -> Callable[[Any, Any], str]:
    """Return a parameter function: the command of a step, before its name, with the variables that it needs.

    They stand in the command, not in Snakemake's environment, which other workflows may share (`module`). Steps run
    with Snakemake's Python, except in a container, which has its own; in one thread each (lists are small: two parallel
    jobs beat two threads); and reuse the memory of freed tensors instead of returning it after each operation.

    Args:
        results: the folder in whose `provenance` every step leaves a record of inputs, outputs and machine.
        mirror: a folder or address of archives, unless RANKBOUND_MIRROR names one.
    """
    variables = {
        "PATH": f"${{SINGULARITY_CONTAINER:+$PATH:}}{quote(str(Path(sys.executable).parent))}{os.pathsep}$PATH",
        "RANKBOUND_MIRROR": f"${{RANKBOUND_MIRROR-{quote(mirror)}}}",
        "RANKBOUND_PROVENANCE": quote(str(Path(results, "provenance"))),
        "POLARS_MAX_THREADS": "1",
        "PYTHONHASHSEED": "0",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "MALLOC_MMAP_THRESHOLD_": "1073741824",
        "MALLOC_TRIM_THRESHOLD_": "4294967296",
    }
    command = " ".join([*(f"{name}={text}" for name, text in variables.items()), "python -m rankbound_study"])
    # Snakemake takes what depends on resources for no reason to run a step again: it differs between machines.
    return lambda wildcards, resources: command


def end_by_signal_in_a_thread() -> None:
    """Let another thread handle SIGTERM as before.

    Snakemake's handler waits for a lock, for ever if the main thread holds it, which it interrupts.
    """
    handler = signal.getsignal(signal.SIGTERM)
    if callable(handler):
        signal.signal(signal.SIGTERM, lambda *arguments: Thread(target=handler, args=arguments).start())


def failures(logs: Sequence[str]) -> str:
    """Return the logs of steps that failed; with `--quiet rules`, Snakemake's own logs have only their commands."""
    text = "".join(Path(log).read_text(encoding="utf-8", errors="replace") for log in logs)
    if re.search(r"^Error in (rule|group) ", text, re.MULTILINE):
        return ""
    places = [Path(*split(place)) for place in re.findall(r" > ('.+?'|\S+) 2>&1' returned non-zero", text)]
    return "\n".join(f"{place}:\n{place.read_text('utf-8', 'replace')}" for place in places if place.is_file())
