"""Write the configuration of a study of somebody's own data."""

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from rankbound_study.config.known_sets import known_names
from rankbound_study.config.sections.description import DescriptionKeys
from rankbound_study.vocabulary import BEST_FEATURE, BOUNDINGS, LOSSES, POPULARITY, UNBOUNDED

SHARE_OF_RELEVANT_RATINGS = 0.75
"""Of the way from the lowest to the highest rating: 4 of 1 .. 5."""

FIGURES = (
    *("figure_leaderboard_scores", "figure_leaderboard_epochs", "figure_leaderboard_lengths"),
    *("figure_leaderboard_topics", "figure_5_1", "figure_5_2", "figure_5_5", "figure_5_8"),
)

LARGE = 200_000_000
"""Bytes of files from which a study starts with fewer losses and boundings."""

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
losses: [{losses}]
boundings: [{boundings}]{fewer}
folds: [{folds}]
seeds: {{honest: [0]}}        # [0, 1, 2] also shows how much the scores vary between trainings
controls: [{controls}]
compare: []

# The leaderboard orders all models by this metric's validation score, and compares each with the best one, with its
# unbounded loss and with the baseline, a control. Differences within the margin do not matter.
leaderboard: {{judged_by: nDCG, baseline: {baseline}, margin: 0.01}}

{kind}:
  {name}:
    source:
      # title: My data          # in tables, figures and the report, in place of the name
{source}
{sampling}
training:
  {name}:
    # Scores of the validation part say whether another rate or more epochs rank better.
    model: {model}
    learning_rate: {{honest: 0.01}}
    epochs: 30
    batch_size: 32            # lists in a batch
{experiments}
figures:
{figures}
tables: [table_5_1, table_leaderboard]    # table_claims decides the claims of the sources, as far as these data can
"""
_OF_MODELS = """\
    scale: standard           # features in units of their deviation from the mean of the training items

# The same trainings with other models, and with losses that have no bounds: `experiment: [models]` runs some of them.
experiment: [models, objectives]
experiments:
  models:                     # with the losses, boundings, folds and seeds above
    datasets: [{instances}]
    variants:
      linear: {{model: {{name: linear}}, learning_rate: 0.05}}
      trees: {{model: {trees}}}
  objectives:                 # any loss of the library: softmax, RankNet, LambdaRank(metric=nDCG@10), ...
    datasets: [{instances}]
    losses: [LambdaRank]
    boundings: [none]
    variants:
      lambdamart: {{judged_by: nDCG, model: {trees}}}
"""
_OF_FACTORS = """\

# The same trainings with other settings, and with losses that have no bounds: `experiment: []` runs none of them.
experiment: [objectives]
experiments:
  objectives:                 # any loss of the library: softmax, RankNet, LambdaRank(metric=nDCG@10), ...
    datasets: [{instances}]
    losses: [softmax]
    boundings: [none]
    variants:
      softmax: {{judged_by: nDCG}}
"""
_TREES = "{name: boosted-trees, rounds: 100, every: 5, leaves: 15, learning_rate: 0.1}"
_FEWER = "    # the files are large: add min-max, expectation, expectation-max (and the losses AP, nRBP) if time allows"
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
    name: str,
    file: str,
    kind: str,
    description: Mapping[str, Any],
    labels: Sequence[float],
    notes: Sequence[str],
    size: int = 0,
) -> str:
    """Return the text of a configuration for a data set of that kind, with what was found in its files as comments.

    `size` is that of the files in bytes.
    """
    described = DescriptionKeys.model_validate(dict(description))
    is_lists = kind == "lists"
    found = f"the first lines have {_shown(labels)}"
    sampling = (
        _OF_LISTS.format(found=found) if is_lists else _OF_RATINGS.format(found=found, threshold=_threshold(labels))
    )
    baseline = BEST_FEATURE if is_lists else POPULARITY
    instances = f"{name}-label1" if is_lists else f"{name}-nsr1"
    return _TEMPLATE.format(
        file=file,
        name=name,
        kind=kind,
        data=f"data/{name}",
        results=f"results/{name}",
        logs=f"logs/{name}",
        losses=", ".join(LOSSES[: 1 if size > LARGE else None]),
        boundings=", ".join((UNBOUNDED, "distribution") if size > LARGE else BOUNDINGS),
        fewer=_FEWER if size > LARGE else "",
        folds=", ".join(map(str, range(1, described.n_folds + 1))),
        controls=f"random, {baseline}, oracle",
        baseline=baseline,
        experiments=(_OF_MODELS if is_lists else _OF_FACTORS).format(instances=instances, trees=_TREES),
        source=_block(description, notes),
        sampling=sampling,
        model="{name: mlp, hidden: [64]}" if is_lists else "{name: matrix-factorization, factors: 32}",
        figures=textwrap.fill(", ".join(FIGURES), 110, initial_indent="  [", subsequent_indent="   ") + "]",
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
