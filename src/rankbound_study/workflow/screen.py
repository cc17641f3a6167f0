"""What `make demo` and `make paper` show of a run: a line for each finished step, and the log of a step that fails.

Snakemake's `--quiet rules` hides the long description of a step that starts, but with it the report of one that fails,
and it keeps five lines for each step that ends.
"""

import logging
import time
from typing import Any, Protocol, cast

HANDLER = "DefaultStreamHandler"
"""Snakemake's name for its handler of the terminal; its log file is left as it is."""

HIDDEN = (
    "Assuming unrestricted shared filesystem usage",
    "Using shell:",
    "Rules claiming more threads will be scaled down",
    "Singularity containers: ignored",
    "Select jobs to execute...",
    "Execute ",
    "RuleException:\nCalledProcessError ",
)
"""Beginnings of messages that say nothing, or what the report of a failed step says, too."""


def shorten(logger: logging.Logger) -> None:
    """Show less of a run under `--quiet rules`, and the report of a step that fails; leave other runs as they are."""
    for handler in logger.handlers:
        for usual in cast(list[Any], handler.filters):
            quiet = {getattr(kind, "name", "") for kind in getattr(usual, "quiet", None) or ()}
            if handler.name == HANDLER and "RULES" in quiet and handler.formatter is not None:
                brief = Brief(usual, handler.formatter)
                handler.filters[:] = [brief]
                handler.setFormatter(brief)


class Filter(Protocol):
    """A filter of log records, as Snakemake's."""

    def filter(self, record: logging.LogRecord) -> bool: ...


class Brief(logging.Formatter):
    """Filter and formatter at once, since the line of the progress names the step that ended before it."""

    def __init__(self, usual_filter: Filter, usual_formatter: logging.Formatter) -> None:
        super().__init__()
        self._filter, self._formatter = usual_filter, usual_formatter
        self._started: dict[object, str] = {}
        self._ended = ""
        self._failed: set[object] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is shown."""
        event = _event(record)
        if event in ("JOB_ERROR", "GROUP_ERROR"):
            # A step that is tried again mostly fails for the same reason.
            step = vars(record).get("jobid", vars(record).get("groupid"))
            first = step not in self._failed
            self._failed.add(step)
            return first
        if event == "JOB_INFO":
            facts = vars(record)
            self._started[facts["jobid"]] = " ".join([facts["rule_name"], *(facts["wildcards"] or {}).values()])
        if event == "JOB_FINISHED":
            self._ended = self._started.pop(vars(record)["job_id"], "")
            return False
        return not str(record.msg).startswith(HIDDEN) and self._filter.filter(record)

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record; that of the progress begins with the time and ends with the finished step."""
        text = self._formatter.format(record)
        return f"{time.strftime('%H:%M:%S')} {text}: {self._ended}" if _event(record) == "PROGRESS" else text


def _event(record: logging.LogRecord) -> str:
    """Return the name of Snakemake's event; an empty text for plain messages."""
    return getattr(getattr(record, "event", None), "name", "")
