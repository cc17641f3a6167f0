"""Write the configuration of a study of somebody's own data."""

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from rankbound_study.config.data_sets import GRADED
from rankbound_study.config.score_distributions import needs_distributions
from rankbound_study.config.sections.description import DescriptionKeys
from rankbound_study.config.sections.known_sets import known_names
from rankbound_study.vocabulary import BEST_FEATURE, BOUNDINGS, LOSSES, POPULARITY, UNBOUNDED

AFFINE = tuple(name for name in BOUNDINGS if not needs_distributions(name))
"""The boundings of graded lists: distributions are tabulated for binary relevance."""

FIGURES = (
    *("figure_leaderboard_scores", "figure_leaderboard_epochs", "figure_leaderboard_lengths"),
    *("figure_leaderboard_topics", "figure_5_1", "figure_5_2", "figure_5_5", "figure_5_8"),
)

MOST_RELEVANT, FEWEST_RELEVANT = 10, 5
"""The relevant items of a user that a study of ratings asks for: the first, or the second if few users have as many."""

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
    # The first lines have {found}. `graded`: the labels are the relevance (AP and nRBP count all above 0).
    # 1: a label of at least 1 is relevant, and all such items are alike. Several readings make several data sets.
    thresholds: [{threshold}]{binary}
"""
_BINARY = "    # a number allows the bounding `distribution`, too"
_OF_RATINGS = """\
    threshold: {threshold}              # a rating of at least this is relevant; the first lines have {found}
    min_relevant: {fewest:<12}# users with fewer relevant items are left out
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
    described = DescriptionKeys.model_validate(dict(description))
    is_lists, is_large = kind == "lists", size > LARGE
    found = _shown(labels)
    reading = GRADED if threshold is None else f"{threshold:g}"
    is_graded = is_lists and threshold is None
    sampling = (
        _OF_LISTS.format(found=found, threshold=reading, binary=_BINARY if is_graded else "")
        if is_lists
        else _OF_RATINGS.format(found=found, threshold=reading, fewest=min_relevant)
    )
    baseline = BEST_FEATURE if is_lists else POPULARITY
    instances = f"{name}-{GRADED if is_graded else f'label{reading}'}" if is_lists else f"{name}-nsr1"
    boundings = AFFINE if is_graded else BOUNDINGS
    return _TEMPLATE.format(
        file=file,
        name=name,
        kind=kind,
        data=f"data/{name}",
        results=f"results/{name}",
        logs=f"logs/{name}",
        losses=", ".join(LOSSES[: 1 if is_large else None]),
        boundings=", ".join((UNBOUNDED, boundings[1] if is_graded else "distribution") if is_large else boundings),
        fewer=_FEWER if is_large else "",
        folds=", ".join(map(str, range(1, described.n_folds + 1))),
        controls=f"random, {baseline}, oracle",
        baseline=baseline,
        experiments=(_OF_MODELS if is_lists else _OF_FACTORS).format(instances=instances, trees=_TREES),
        source=_block(description, notes),
        sampling=sampling,
        model="{name: mlp, hidden: [64]}" if is_lists else "{name: matrix-factorization, factors: 32}",
        figures=textwrap.fill(", ".join(FIGURES), 110, initial_indent="  [", subsequent_indent="   ") + "]",
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
