"""A finished study as an RO-Crate (https://w3id.org/ro/crate): results, workflow, environment and provenance.

The records of the steps become actions of the profile Provenance Run Crate, the workflow its main entity. Everything is
taken from the manifest of the results folder; nothing depends on the clock.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from io import StringIO
from pathlib import Path, PurePosixPath
from typing import Any

from rocrate.model.contextentity import ContextEntity
from rocrate.model.entity import Entity
from rocrate.rocrate import ROCrate

from rankbound.errors import DataError
from rankbound_study.export import whole_folder
from rankbound_study.provenance.checksums import MANIFEST, Checksum, result_files
from rankbound_study.provenance.manifest import Manifest
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
"""Results that show pictures of licensed data: named by checksum alone."""

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


def write_crate(results: Path, out: Path) -> tuple[int, int, int]:
    """Write the crate of a results folder to the new folder `out`.

    Returns:
        The numbers of packed files, of files that are named by checksum only, and of steps.

    Raises:
        DataError: the folder has no provenance, or files that differ from it.
        ConfigError: `out` exists.
    """
    report = verify(results)
    found = [finding for finding in report.findings if finding.kind in DIFFERS]
    if found:
        raise DataError(
            f"{results}: {found[0].subject}: {found[0].text} ({len(found)} such findings): a crate would state what is "
            f"not so; see python -m rankbound_study verify {results}, and run the steps again"
        )
    manifest, here = report.manifest, [*result_files(results), MANIFEST]
    packed = [path for path in here if not path.startswith(LICENSED)]
    with whole_folder(out) as folder:
        _Crate(results, manifest, packed).crate.write(folder)
    return len(packed), len(here) - len(packed), len(manifest.steps)


class _Crate:
    """The crate of one results folder while it is made."""

    def __init__(self, results: Path, manifest: Manifest, packed: Sequence[str]) -> None:
        self.known, self.entities = manifest.files(), dict[str, Entity]()
        crate = self.crate = ROCrate(version=VERSION)
        # Of the profiles' context.
        crate.metadata.extra_terms["sha256"] = "https://w3id.org/ro/terms/workflow-run#sha256"
        study, version = manifest.config.get("study", "unknown"), manifest.code.version
        crate.name = f"Results of the study {study}"
        crate.description = (
            f"All results of the study {study} by rankbound {version}, with the step that made each file, its inputs, "
            "code, libraries and machine. Raw data are not included: checksums name them."
        )
        crate.datePublished = datetime.fromisoformat(manifest.created)
        crate.license = "https://www.apache.org/licenses/LICENSE-2.0"
        crate.root_dataset["conformsTo"] = [
            self._thing(profile, "CreativeWork", name=profile.split("/")[-2]) for profile in PROFILES
        ]
        crate.add_workflow(ROOT / WORKFLOW, WORKFLOW, main=True, lang="snakemake")
        for name in BESIDE:
            paths = (ROOT / name).rglob("*") if (ROOT / name).is_dir() else [ROOT / name]
            for path in sorted(path for path in paths if path.is_file()):
                crate.add_file(path, path.relative_to(ROOT).as_posix())
        text = json.dumps(manifest.config, indent=1, sort_keys=True)
        crate.add_file(StringIO(text), CONFIG, properties={"name": "the study's configuration"})
        for file in packed:
            properties = _properties(file, self.known.get(file) or Checksum.of(results / file))
            self.entities[file] = crate.add_file(results / file, f"{RESULTS}/{file}", properties=properties)
        for step in manifest.steps:
            self._add_step(step)

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
