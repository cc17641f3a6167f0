"""Write the configuration of a study of somebody's own data."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rankbound_study.config.data_sets import GRADED
from rankbound_study.config.score_distributions import needs_distributions
from rankbound_study.config.sections.description import DescriptionKeys, known_names
from rankbound_study.vocabulary import BEST_FEATURE, BOUNDINGS, LOSSES, POPULARITY, UNBOUNDED

AFFINE = tuple(name for name in BOUNDINGS if not needs_distributions(name))
"""The boundings of graded lists: distributions are tabulated for binary relevance."""

MOST_RELEVANT, FEWEST_RELEVANT = 10, 5
"""The relevant items of a user that a study of ratings asks for: the first, or the second if few users have as many."""

LARGE = 200_000_000
"""Bytes of files from which a study starts with fewer losses and boundings."""

TEMPLATE = "new_study.yaml.j2"
"""The file's text, with `<< >>` and `<% %>` for what differs: YAML has braces of its own."""


def study_name(text: str) -> str:
    """Return a name of small letters, digits and hyphens from a file's name, which no known data set has."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "mine"
    return f"my-{name}" if name in known_names() or name.startswith("synthetic") else name


def new_study(
    name: str,
    file: str,
    kind: str,
    description: Mapping[str, Any],
    labels: Sequence[float],
    notes: Sequence[str],
    size: int = 0,
    *,
    threshold: float | None = None,
    min_relevant: int = MOST_RELEVANT,
) -> str:
    """Return the text of a configuration for a data set of that kind, with what was found in its files as comments.

    Args:
        name: of the data set.
        file: the configuration's.
        kind: `lists` or `interactions`.
        description: of the data set.
        labels: the labels or ratings that occur, ascending.
        notes: what was found.
        size: of the files in bytes.
        threshold: the smallest relevant label or rating; None for lists whose labels are the relevance.
        min_relevant: the smallest number of relevant items of a user.
    """
    import jinja2

    described = DescriptionKeys.model_validate(dict(description))
    is_lists, is_large = kind == "lists", size > LARGE
    is_graded = is_lists and threshold is None
    reading = GRADED if threshold is None else repr(float(threshold)).removesuffix(".0")
    boundings = AFFINE if is_graded else BOUNDINGS
    environment = jinja2.Environment(
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
        trim_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    template = environment.from_string(Path(__file__).with_name(TEMPLATE).read_text("utf-8"))
    return template.render(
        file=file,
        name=name,
        kind=kind,
        lists=is_lists,
        large=is_large,
        losses=", ".join(LOSSES[: 1 if is_large else None]),
        boundings=", ".join((UNBOUNDED, boundings[1 if is_graded else -1]) if is_large else boundings),
        folds=", ".join(map(str, range(1, described.n_folds + 1))),
        baseline=BEST_FEATURE if is_lists else POPULARITY,
        instances=f"{name}-{GRADED if is_graded else f'label{reading}'}" if is_lists else f"{name}-nsr1",
        source=_block(description, notes),
        threshold=reading,
        fewest=min_relevant,
        found=_shown(labels),
    )


def list_threshold(labels: Sequence[float]) -> int | None:
    """Return the threshold of judged lists: 1 for two labels of which one is 0; None (graded) for others."""
    return 1 if len(labels) <= 2 and 0.0 in labels else None


def _block(description: Mapping[str, Any], notes: Sequence[str]) -> str:
    import yaml  # type: ignore[import-untyped]

    text = yaml.safe_dump(dict(description), sort_keys=False, default_flow_style=None, width=100)
    lines = [*(f"# {note[0].upper()}{note[1:]}." for note in notes), *text.splitlines()]
    return "\n".join(f"      {line}" for line in lines)


def _shown(labels: Sequence[float]) -> str:
    if not labels:
        return "none"
    few = [f"{label:g}" for label in labels]
    return ", ".join(few) if len(few) <= 12 else f"{few[0]} to {few[-1]}"
