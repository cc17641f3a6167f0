"""No name of a configuration leads out of its study's folders; no file that was set aside is overwritten."""

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from rankbound.errors import ConfigError, SourceError
from rankbound.io.fetch import MIRROR_VARIABLE
from rankbound_study.cli import main
from rankbound_study.config.check import check_config
from rankbound_study.config.lines import KeyPath, merged
from rankbound_study.config.study import Study
from rankbound_study.data.fetch import fetch
from rankbound_study.data.sources import SOURCES
from rankbound_study.export.trec_folder import Kept, lists_folder
from rankbound_study.figures import figure_specs
from rankbound_study.report.tables import table_names
from tests import raw_files

ROOT = Path(__file__).resolve().parents[2]
DEFAULT, DEMO = ROOT / "config.yaml", ROOT / "profiles/demo/study.yaml"
LEADING_OUT = ("../../x", "{old}/x", "{old}\n", "{old}" + 300 * "x")
FREE = ("mirror", "pathvars")
"""Keys that may name any place: where archives come from, and the folders themselves."""


def texts(config: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, bool]]:
    """The path of every text in a configuration, and of every section's name (True)."""
    if isinstance(config, str):
        yield path, False
    elif isinstance(config, dict | list):
        for key in config if isinstance(config, dict) else range(len(config)):
            if isinstance(config, dict):
                yield (*path, key), True
            yield from texts(config[key], (*path, key))


def one_of_each_kind(config: Any) -> list[tuple[KeyPath, bool]]:
    """The first text, and the first name, at every place that the configuration's models distinguish."""
    first: dict[Any, tuple[KeyPath, bool]] = {}
    for path, is_name in texts(config):
        if path[0] not in FREE:
            keys = ["", *(key for key in path if isinstance(key, str))]
            first.setdefault((path[0], keys[-2] if is_name else keys[-1], is_name), (path, is_name))
    return list(first.values())


def changed(config: dict[str, Any], path: KeyPath, is_name: bool, text: str) -> dict[str, Any]:
    """The configuration with another text, or with another name, at a place."""
    new = deepcopy(config)
    section: Any = new
    for key in path[:-1]:
        section = section[key]
    old = path[-1] if is_name else section[path[-1]]
    section[text.replace("{old}", str(old)) if is_name else path[-1]] = (
        section.pop(path[-1]) if is_name else text.replace("{old}", str(old))
    )
    return new


def files_of(config: dict[str, Any]) -> list[str]:
    """The files that a study makes or fetches, relative to its folders."""
    study = Study.of(config)
    made = [*study.data_files(), *study.distribution_files(), *study.table_files()]
    made += [path for one in study.collected.values() for path in (*one.runs, *one.beside)]
    return [*made, *(f"<data>/raw/{name}" for name in study.archives)]


def test_no_name_leads_out_of_the_folders_of_a_study() -> None:
    config = merged([DEFAULT])
    places = one_of_each_kind(config)
    assert len(places) > 40
    for path, is_name in places:
        for text in LEADING_OUT:
            new = changed(config, path, is_name, text)
            try:
                check_config(new, figures=figure_specs(), tables=table_names())
            except ConfigError:
                continue
            for made in files_of(new):
                first, *parts = made.split("/")
                assert first in ("<data>", "<results>"), (path, text)
                assert ".." not in parts, (path, text)
                assert made.isprintable(), (path, text)
                assert all(len(part) < 200 for part in parts), (path, text)


@pytest.mark.parametrize(
    ("section", "key", "planted", "message"),
    [
        *(
            ("pathvars", "results", folder, r"pathvars\.results is .*: expected a folder's path")
            for folder in ("results\n", "results/{loss}", "<data>/x", "x\x1b[2J")
        ),
        ("lists", "mq2008", None, r"lists\.mq2008\.archive is also that of movielens"),
    ],
)
def test_folders_with_marks_and_archives_of_two_data_sets_are_refused(
    section: str, key: str, planted: Any, message: str
) -> None:
    config = merged([DEFAULT])
    archive = config["interactions"]["movielens"]["archive"]
    config[section][key] = planted or {**config[section][key], "archive": archive}
    with pytest.raises(ConfigError, match=message):
        check_config(config)


def test_the_check_says_where_the_study_writes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-config", str(DEMO)]) == 0
    assert "writes below data/demo, results/demo, logs/demo\n" in capsys.readouterr().out


def test_a_rejected_archive_overwrites_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor do copies of a wrong one fill the disk, nor is a folder in its place touched."""
    # The caller's mirror would serve the right archive in place of a wrong one.
    monkeypatch.delenv(MIRROR_VARIABLE, raising=False)
    source = raw_files.changed(SOURCES["movielens"], addresses=None)
    for content in ("first", "second", "third"):
        (tmp_path / "a.zip").write_text(content)
        with pytest.raises(SourceError, match=r"set aside as .*a\.zip\.rejected"):
            fetch(source, tmp_path / "a.zip")
    kept = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert kept == {"a.zip.rejected": "first", "a.zip.rejected-2": "second", "a.zip.rejected-3": "third"}
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "ml-latest-small.zip").write_text("wrong")
    out = tmp_path / "raw" / "a.zip"
    for message in (r"set aside as .*a\.zip\.rejected", r"the copy is not kept, because .*a\.zip\.rejected exists"):
        with pytest.raises(SourceError, match=message):
            fetch(source, out, mirror=str(tmp_path / "mirror"))
        assert [path.name for path in out.parent.iterdir()] == ["a.zip.rejected"]
    (tmp_path / "a.zip").mkdir()
    with pytest.raises(SourceError, match="found a folder or a device, expected a file"):
        fetch(source, tmp_path / "a.zip")
    assert (tmp_path / "a.zip").is_dir()


@pytest.mark.parametrize("dataset", ["..", "../../x", "/x", ".x", "..\n"])
def test_an_exported_data_set_stays_in_its_folder(dataset: str) -> None:
    key = {"dataset": dataset, "nsr_train": None, "nsr_test": None, "options": "{}"}
    name = lists_folder(Kept(Path("x"), key, 0, (1,)), [1])
    assert name
    assert not name.startswith(".")
    assert "/" not in name
