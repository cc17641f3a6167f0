"""Claims about lists with one relevant item."""

from rankbound.compare.effects import LEVEL
from rankbound.compare.frames import scores_of_runs
from rankbound.compare.margins import MARGIN
from rankbound.compare.randomisation import holm
from rankbound_study.claims.cells import Contrast, contrast
from rankbound_study.claims.evidence import KEY, Evidence
from rankbound_study.claims.registry import decides
from rankbound_study.claims.varied import column_of, picked_by_validation, picked_rows
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, MissingEvidence, Verdict
from rankbound_study.results.number_texts import signed
from rankbound_study.vocabulary import UNBOUNDED

EXPERIMENT = "one-relevant"
SOFTMAX = "softmax"
METRIC = "RR"


@decides("M04")
def softmax_ranks_one_relevant_item_no_worse(evidence: Evidence) -> Verdict:
    """Decide by whether its reciprocal rank is at most 0.01 below that of every other loss, at rates by validation."""
    column = column_of(evidence, EXPERIMENT)
    found = _differences(evidence)
    not_worse = holm([one.estimate.p_above(-MARGIN) for one in found.values()])
    worse = holm([one.estimate.p_below(-MARGIN) for one in found.values()])
    lowest = min(found, key=lambda loss: found[loss].mean)
    low, high = found[lowest].interval
    differences = ", ".join(f"{loss} {signed(one.mean)}" for loss, one in found.items())
    return Verdict(
        REFUTED if min(worse) <= LEVEL else CONFIRMED if max(not_worse) <= LEVEL else INCONCLUSIVE,
        f"With one relevant item in each test list of {column}, the mean reciprocal rank of the softmax loss minus "
        f"that of each other loss is {differences}; lowest against {lowest}, with a 95 % interval from {signed(low)} "
        f"to {signed(high)}, where up to {MARGIN} less counts as no worse.",
        statistic="mean reciprocal rank, softmax minus another loss, lowest",
        value=found[lowest].mean,
        low=low,
        high=high,
        p_value=max(not_worse),
        n=found[lowest].n,
    )


def _differences(evidence: Evidence) -> dict[str, Contrast]:
    """Return softmax minus each other loss."""
    column = column_of(evidence, EXPERIMENT)
    lazy = evidence.varied(EXPERIMENT, column.dataset, column.nsr)
    rows = {name: one.select(*KEY, METRIC).collect() for name, one in lazy.items()}
    picked = picked_by_validation(evidence, EXPERIMENT, column, METRIC)
    found = scores_of_runs(picked_rows(rows, picked), METRIC, by=("loss",))
    others = [loss for loss, bounding in sorted(picked) if loss != SOFTMAX and bounding == UNBOUNDED]
    if SOFTMAX not in found.systems or not others:
        raise MissingEvidence(f"the experiment {EXPERIMENT} has no {SOFTMAX} loss beside others: see config.yaml")
    pairs = {loss: found.pair(SOFTMAX, loss) for loss in others}
    if min(len(one.units) for one in pairs.values()) < 2:
        raise MissingEvidence(f"fewer than two topics of {column} have lists with one relevant item")
    return {loss: contrast(one) for loss, one in pairs.items()}
