"""A finished study as an RO-Crate (https://w3id.org/ro/crate): results, workflow, environment and provenance.

The records of the steps become actions of the profile Provenance Run Crate, the workflow its main entity. Everything is
taken from the manifest of the results folder; nothing depends on the clock.
"""

import json
from datetime import datetime
from io import StringIO
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from rocrate.model.contextentity import ContextEntity
from rocrate.model.entity import Entity
from rocrate.rocrate import ROCrate

from rankbound.errors import DataError
from rankbound_study.export import whole_folder
from rankbound_study.provenance.checksums import MANIFEST, Checksum, result_files
from rankbound_study.provenance.manifest import Manifest, known_of
from rankbound_study.provenance.records import Record
from rankbound_study.provenance.verify import DIFFERS, verify

ROOT = Path(__file__).resolve().parents[3]
"""The clone of the repository, which the workflow and the environment are taken from."""

VERSION = "1.1"
WORKFLOW = "Snakefile"
BESIDE = ("workflow", "envs", "pyproject.toml", "CITATION.cff", "LICENSE")
"""What is packed of the clone besides the main file of the workflow."""

RESULTS, CONFIG = "results", "config.json"
LICENSED = ("licensed/", "paper/")
"""Results that show pictures of licensed data."""

PROFILES = tuple(f"https://w3id.org/ro/wfrun/{name}/0.5" for name in ("process", "workflow", "provenance"))

FORMATS = {
    ".csv": "text/csv",
    ".html": "text/html",
    ".json": "application/json",
    ".md": "text/markdown",
    ".parquet": "application/vnd.apache.parquet",
    ".pdf": "application/pdf",
    ".svg": "image/svg+xml",
    ".tex": "text/x-tex",
}


class Packed(NamedTuple):
    """The numbers of packed files, of files that are named by checksum only, and of steps."""

    files: int
    left_out: int
    steps: int


def write_crate(results: Path, out: Path, *, licensed: bool = False) -> Packed:
    """Write the crate of a results folder to the new folder `out`; with `licensed`, of all its files.

    Raises:
        DataError: the folder has no provenance, or files that differ from it.
        ConfigError: `out` exists.
    """
    found = [finding for finding in verify(results).findings if finding.kind in DIFFERS]
    if found:
        raise DataError(
            f"{results}: {found[0].subject}: {found[0].text} ({len(found)} such findings): a crate would state what is "
            f"not so; see python -m rankbound_study verify {results}, and run the steps again"
        )
    packing = _Packing(results, known_of(results), licensed)
    with whole_folder(out) as folder:
        packing.crate.write(folder)
    return Packed(len(packing.packed), len(packing.left_out), len(packing.manifest.steps))


class _Packing:
    """The crate of one results folder while it is made."""

    def __init__(self, results: Path, manifest: Manifest, licensed: bool) -> None:
        self.manifest, self.known = manifest, manifest.files()
        here = [*result_files(results), *([MANIFEST] if (results / MANIFEST).is_file() else [])]
        self.packed = [path for path in here if licensed or not path.startswith(LICENSED)]
        self.left_out = [path for path in here if path not in self.packed]
        self.crate = ROCrate(version=VERSION)
        # Of the profiles' context.
        self.crate.metadata.extra_terms["sha256"] = "https://w3id.org/ro/terms/workflow-run#sha256"
        self._describe()
        self.entities: dict[str, Entity] = {}
        for path in self.packed:
            properties = _properties(path, self.known.get(path) or Checksum.of(results / path))
            self.entities[path] = self.crate.add_file(results / path, f"{RESULTS}/{path}", properties=properties)
        for step in manifest.steps:
            self._add_step(step)

    def _describe(self) -> None:
        """Describe the whole: its name, its main file, the configuration and the clone's files."""
        study, version = self.manifest.config.get("study", "unknown"), self.manifest.code.version
        self.crate.name = f"Results of the study {study}"
        self.crate.description = (
            f"All results of the study {study} by rankbound {version}, with the step that made each file, its inputs, "
            "code, libraries and machine. Raw data are not included: checksums name them."
        )
        self.crate.datePublished = datetime.fromisoformat(self.manifest.created)
        self.crate.license = "https://www.apache.org/licenses/LICENSE-2.0"
        self.crate.root_dataset["conformsTo"] = [
            self._thing(profile, "CreativeWork", name=profile.split("/")[-2]) for profile in PROFILES
        ]
        self.crate.add_workflow(ROOT / WORKFLOW, WORKFLOW, main=True, lang="snakemake")
        for name in BESIDE:
            paths = (ROOT / name).rglob("*") if (ROOT / name).is_dir() else [ROOT / name]
            for path in sorted(path for path in paths if path.is_file() and path != ROOT / WORKFLOW):
                self.crate.add_file(path, path.relative_to(ROOT).as_posix())
        text = json.dumps(self.manifest.config, indent=1, sort_keys=True)
        self.crate.add_file(StringIO(text), CONFIG, properties={"name": "the study's configuration"})

    def _add_step(self, step: Record) -> None:
        """Add the action of a step, with its program (the subcommand in the version of its code), and its settings."""
        code, machine, known = step.code, step.machine, self._thing
        changed = {"description": f"with changes in {', '.join(code.modified)}"} if code.modified else {}
        program = known(
            f"#{step.subcommand}-{code.sha256[:16]}",
            "SoftwareApplication",
            name=f"python -m rankbound_study {step.subcommand}",
            softwareVersion=f"{code.version}, {f'commit {code.commit}' if code.commit else 'outside of git'}",
            sha256=code.sha256,
            **changed,
        )
        text = f"{machine.processor}, {machine.cores} cores, {machine.memory_gib:g} GiB, {machine.system}"
        settings = {"arguments": step.arguments, "libraries": step.versions, "switches": step.switches}
        stated = [
            known(f"#{name}-{step.name}", "PropertyValue", name=name, value=json.dumps(value, sort_keys=True))
            for name, value in settings.items()
            if value
        ]
        self.crate.add_action(
            program,
            f"#step-{step.name}",
            object=[*(self._used(path, checksum) for path, checksum in step.inputs.items()), *stated],
            result=[self._used(path, checksum) for path, checksum in step.outputs.items()],
            properties={
                "name": f"{step.subcommand}: {step.name}",
                "startTime": step.started,
                "endTime": step.ended.isoformat(),
                "location": known(f"#machine-{machine.name}", "Place", name=machine.name, description=text),
            },
        )

    def _used(self, path: str, checksum: Checksum) -> Entity:
        """Return a file of the crate, or the description of one that is elsewhere or was replaced."""
        if (packed := self.entities.get(path)) is not None and self.known.get(path) == checksum:
            return packed
        place = f"#file-{checksum.sha256[:16]}-{path.removeprefix('../')}"
        return self._thing(place, "CreativeWork", description="not in this crate", **_properties(path, checksum))

    def _thing(self, identifier: str, kind: str, **properties: Any) -> Entity:
        """Return what has that identifier; it is added if it is new."""
        known = self.crate.dereference(identifier)
        return known or self.crate.add(ContextEntity(self.crate, identifier, properties={"@type": kind, **properties}))


def _properties(path: str, checksum: Checksum) -> dict[str, str]:
    """Return the name, size, checksum and, if it is known, the format of a file."""
    properties = {"name": path, "contentSize": str(checksum.bytes), "sha256": checksum.sha256}
    kind = FORMATS.get(PurePosixPath(path).suffix)
    return properties | ({"encodingFormat": kind} if kind else {})
