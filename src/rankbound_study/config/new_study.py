"""Write the configuration of a study of somebody's own data."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rankbound_study.config.known_sets import known_names
from rankbound_study.config.sections.description import DescriptionKeys
from rankbound_study.vocabulary import BOUNDINGS

SHARE_OF_RELEVANT_RATINGS = 0.75
"""Of the way from the lowest to the highest rating: 4 of 1 .. 5."""

FIGURES = ("figure_5_1", "figure_5_2", "figure_5_5", "figure_5_8")

_TEMPLATE = """\
# A study of one's own data; config.yaml explains every key, and docs/data.md those of `source`.
#   python -m rankbound_study check-config config.yaml {file}
#   snakemake --configfile {file} --cores 2
# Then open {results}/paper/index.html.
study: {name}
pathvars: {{data: {data}, results: {results}, logs: {logs}}}

# A validation part selects the epoch; the test part is only scored.
protocols: [honest]
datasets: [{name}]
losses: [nDCG, AP, nRBP]
boundings: [{boundings}]
folds: [{folds}]
seeds: {{honest: [0]}}        # [0, 1, 2] also shows how much the scores vary between trainings
controls: [{controls}]
compare: []
experiment: []

{kind}:
  {name}:
    source:
{source}
{sampling}
training:
  {name}:
    # Scores of the validation part say whether another rate or more epochs rank better.
    model: {model}
    learning_rate: {{honest: 0.01}}
    epochs: 30
    batch_size: 32            # lists in a batch

figures: [{figures}]
tables: [table_5_1]
"""
_OF_LISTS = """\
    # A label of at least this is relevant; {found}
    thresholds: [1]
"""
_OF_RATINGS = """\
    threshold: {threshold}              # a rating of at least this is relevant; {found}
    min_relevant: 10          # users with fewer relevant items are left out
    nsr: [1]                  # sampled negatives per relevant item; every ratio makes a data set
    validation_share: 0.1     # of a user's training items
    seed: 0                   # of folds and negatives
"""


def study_name(text: str) -> str:
    """Return a name of small letters, digits and hyphens from a file's name, which no known data set has."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "mine"
    return f"my-{name}" if name in known_names() or name.startswith("synthetic") else name


def new_study(
    name: str, file: str, kind: str, description: Mapping[str, Any], labels: Sequence[float], notes: Sequence[str]
) -> str:
    """Return the text of a configuration for a data set of that kind, with what was found in its files as comments."""
    described = DescriptionKeys.model_validate(dict(description))
    is_lists = kind == "lists"
    found = f"the first lines have {_shown(labels)}"
    sampling = (
        _OF_LISTS.format(found=found) if is_lists else _OF_RATINGS.format(found=found, threshold=_threshold(labels))
    )
    controls = ["random", "oracle"] if is_lists else ["random", "popularity", "oracle"]
    return _TEMPLATE.format(
        file=file,
        name=name,
        kind=kind,
        data=f"data/{name}",
        results=f"results/{name}",
        logs=f"logs/{name}",
        boundings=", ".join(BOUNDINGS),
        folds=", ".join(map(str, range(1, described.n_folds + 1))),
        controls=", ".join(controls),
        source=_block(description, notes),
        sampling=sampling,
        model="{name: mlp, hidden: [64]}" if is_lists else "{name: matrix-factorization, factors: 32}",
        figures=", ".join(FIGURES),
    )


def _block(description: Mapping[str, Any], notes: Sequence[str]) -> str:
    import yaml  # type: ignore[import-untyped]

    text = yaml.safe_dump(dict(description), sort_keys=False, default_flow_style=None, width=100)
    lines = [*(f"# {note[0].upper()}{note[1:]}." for note in notes), *text.splitlines()]
    return "\n".join(f"      {line}" for line in lines)


def _threshold(labels: Sequence[float]) -> str:
    """Return the smallest rating in the upper quarter of those that occur."""
    if not labels:
        return "1"
    limit = labels[0] + SHARE_OF_RELEVANT_RATINGS * (labels[-1] - labels[0])
    return f"{next(label for label in labels if label >= limit):g}"


def _shown(labels: Sequence[float]) -> str:
    if not labels:
        return "none"
    few = [f"{label:g}" for label in labels]
    return ", ".join(few) if len(few) <= 12 else f"{few[0]} to {few[-1]}"
