"""What make shows of a run: a line for each finished step, each failure once; a run without --quiet stays as it is."""

import io
import logging
import re
from typing import Any

import pytest
from snakemake.logging import DefaultFilter, DefaultFormatter
from snakemake.settings.enums import Quietness
from snakemake_interface_logger_plugins.common import LogEvent

from rankbound_study.workflow.screen import HANDLER, shorten

ERROR = {"jobid": 7, "rule_name": "train", "rule_msg": None, "input": [], "output": ["runs.parquet"], "indent": False}
ERROR |= {"conda_env": None, "container_img": None, "shellcmd": "step", "aux": {}}
INFO = {"jobid": 7, "rule_name": "train", "rule_msg": "a training", "reason": "", "indent": False}
INFO |= {"wildcards": {"protocol": "honest", "loss": "nDCG"}}


@pytest.fixture
def logger() -> logging.Logger:
    """A logger of its own, at Snakemake's level."""
    own = logging.Logger("of the test", logging.INFO)
    own.addHandler(logging.StreamHandler(io.StringIO()))
    return own


def run(logger: logging.Logger, log: str, *quiet: Quietness) -> str:
    """Return what is shown of a run with two steps, the first of which fails twice."""
    (handler,) = logger.handlers
    assert isinstance(handler, logging.StreamHandler)
    handler.name = HANDLER
    handler.addFilter(DefaultFilter(set(quiet), debug_dag=False, verbose=False, dryrun=False, printshellcmds=False))
    handler.setFormatter(DefaultFormatter(set(quiet), show_failed_logs=True))
    shorten(logger)

    def say(text: str, event: LogEvent | None = None, **extra: Any) -> None:
        logger.info(text, extra={"event": event, **extra} if event else extra)

    say("Select jobs to execute...")
    say("Execute 1 jobs...")
    say("train", LogEvent.JOB_INFO, **INFO)
    for _ in range(2):
        say("RuleException:\nCalledProcessError in file train.smk")
        say("Error in rule train", LogEvent.JOB_ERROR, log=[log], **ERROR)
    say("Finished jobid: 7 (Rule: train)", LogEvent.JOB_FINISHED, job_id=7)
    say("", LogEvent.PROGRESS, done=1, total=4)
    return str(handler.stream.getvalue())


def test_a_finished_step_is_a_line_and_a_failure_is_shown_once(logger: logging.Logger, tmp_path: Any) -> None:
    log = tmp_path / "train.log"
    log.write_text("the reason\n")
    shown = run(logger, str(log), Quietness.RULES, Quietness.HOST)
    assert shown.count("the reason") == shown.count("Error in rule train") == 1
    last = shown.splitlines()[-1]
    assert re.fullmatch(r"\d\d:\d\d:\d\d 1 of 4 steps \(25%\) done: train honest nDCG", last)
    for hidden in ("Select jobs", "Execute", "Finished jobid", "RuleException"):
        assert hidden not in shown


def test_what_quiet_hides_besides_stays_hidden(logger: logging.Logger, tmp_path: Any) -> None:
    shown = run(logger, str(tmp_path / "none.log"), Quietness.RULES, Quietness.PROGRESS)
    assert "steps" not in shown
    assert "Error in rule train" in shown


def test_a_run_without_quiet_is_as_snakemake_shows_it(logger: logging.Logger, tmp_path: Any) -> None:
    shown = run(logger, str(tmp_path / "none.log"), Quietness.HOST)
    for usual in (
        "a training",
        "Select jobs to execute...",
        "Finished jobid: 7 (Rule: train)",
        "1 of 4 steps (25%) done",
    ):
        assert usual in shown
    assert shown.count("Error in rule train") == 2
