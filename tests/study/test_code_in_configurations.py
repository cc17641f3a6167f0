"""A configuration may hold code, which Snakemake runs: the check refuses it unrun, and every command checks first."""

import re
import subprocess
from pathlib import Path

import pytest

from rankbound.errors import ConfigError
from rankbound_study import cli
from rankbound_study.config.lines import merged, refuse_code

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "config.yaml"]

AT_THE_TOP = """\
__use_yte__: true
__definitions__:
  - open({ran!r}, "w")
"""
MERGED = """\
study: {{<<: &code {{__use_yte__: true}}}}
<<: *code
mirror: ?open({ran!r}, "w")
"""
ESCAPED = """\
"\\x5f_use_yte__": true
"?if open({ran!r}, 'w')": {{study: demo}}
"""


@pytest.mark.parametrize("text", [AT_THE_TOP, MERGED, ESCAPED])
def test_code_is_refused_with_its_key_and_line_and_is_not_run(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    own, ran = tmp_path / "mine.yaml", tmp_path / "ran"
    own.write_text(text.format(ran=str(ran)), encoding="utf-8")
    assert cli.main(["check-config", "config.yaml", str(own)]) == 2
    assert f"{own}, line 1: the key __use_yte__ is for Python code" in capsys.readouterr().err
    assert not ran.exists()


@pytest.mark.parametrize("key", ["__use_yte__", "__definitions__", "__variables__"])
def test_every_key_for_code_is_refused(key: str, tmp_path: Path) -> None:
    own = tmp_path / "mine.yaml"
    own.write_text(f"study: demo\n{key}: true\n", encoding="utf-8")
    for read in (refuse_code, lambda file: merged([file])):
        with pytest.raises(ConfigError, match=rf"mine\.yaml, line 2: the key {key} is for Python code"):
            read(own)


def test_a_missing_configuration_holds_no_code(tmp_path: Path) -> None:
    refuse_code(tmp_path / "config.yaml")


def test_the_workflow_refuses_a_config_yaml_with_code_before_snakemake_reads_it() -> None:
    workflow = (ROOT / "workflow" / "Snakefile").read_text("utf-8")
    assert workflow.index('refuse_code(Path("config.yaml"))') < workflow.index('configfile: "config.yaml"')


@pytest.mark.parametrize("target", ["demo", "paper"])
def test_make_checks_the_configuration_before_it_starts_snakemake(target: str) -> None:
    plan = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert 0 < plan.index("rankbound_study check-config") < plan.index("bin/snakemake")


def test_every_printed_command_with_another_configuration_comes_after_its_check() -> None:
    commands = 0
    for page in PAGES:
        text = page.read_text("utf-8")
        for command in re.finditer(r"snakemake [^`\n]*--(configfile|workflow-profile) (\S+\.yaml|profiles/mslr)", text):
            commands += 1
            assert re.search(rf"check-config config\.yaml {command[2]}", text[: command.start()]), (page, command[0])
    assert commands >= 4
