"""Every rule, every kind of fault: a clear message, nothing half written, and the same bytes in the end."""

import re
from collections.abc import Callable

import pytest
from fault_kinds import OF_EVERY_STEP, OF_INPUTS, OF_SHARDS, Case, Kind, recover
from fault_steps import Step
from project import Project

_NAMES = """
    download generate convert split sample weights generate_weights features
    distributions train compare controls compared_controls collect join collect_experiments provenance
    table_2_2 table_5_1 table_5_1_honest table_flattery table_sensitivity theorems claims
    tables_of_runs_and_epochs table_neural_2 table_leaderboard
    figure_1_1 figure_5_2 figure_neural_3 figure_neural_duplicates figures_of_leaderboard
    figure_leaderboard_epochs document
"""
RULES = _NAMES.split()
TARGETS = {"all", "data", "tables", "runs", "figures", "paper", "demo"}
WITHOUT_INPUTS = {"download", "generate", "generate_weights", "table_2_2", "theorems", "figure_1_1"}
WITH_SHARDS = ("train", "compare")

FAULTS = [
    pytest.param(rule, name, kind, number, id=f"{rule}-{name.replace(' ', '_')}-{number}")
    for rule in RULES
    for kinds in (OF_EVERY_STEP, {} if rule in WITHOUT_INPUTS else OF_INPUTS, OF_SHARDS if rule in WITH_SHARDS else {})
    for name, (kind, count) in kinds.items()
    for number in range(count)
]


def test_every_rule_is_here(study: Project, steps: dict[str, list[Step]]) -> None:
    listed = set(re.findall(r"^\w+$", study.run("snakemake", "--list-rules"), re.MULTILINE))
    assert set(RULES) == listed - TARGETS
    assert set(RULES) == set(steps)
    assert {rule for rule in RULES if not steps[rule][0].inputs} == WITHOUT_INPUTS


@pytest.mark.parametrize(("rule", "name", "kind", "number"), FAULTS)
def test_fault(rule: str, name: str, kind: Kind, number: int, case_of: Callable[..., Case]) -> None:
    case = case_of(rule, name, number)
    kind(case)
    recover(case.sandbox)
