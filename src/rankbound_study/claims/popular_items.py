"""The claim that the count of training ratings ranks better than trained models."""

from rankbound.compare.margins import LEVEL
from rankbound_study.claims.cells import Contrast, contrast, enough, judge
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.popularity import COUNT, picked_systems, rated_data_sets
from rankbound_study.claims.registry import decides
from rankbound_study.claims.rules import Family, among
from rankbound_study.claims.verdict import MissingEvidence, Verdict
from rankbound_study.config.data_sets import DataSet
from rankbound_study.vocabulary import LOSSES


@decides("P01")
def popularity_ranks_better_than_trained_models(evidence: Evidence) -> Verdict:
    """Decide by popularity minus the best bounding of every loss by validation, on every data set of ratings."""
    found: dict[tuple[DataSet, str], Contrast] = {}
    for column in rated_data_sets(evidence):
        for loss, (scores, system) in picked_systems(evidence, column).items():
            pair = scores.pair(COUNT, system)
            enough(len(pair.units), f"of {column} with a score of popularity")
            found[column, loss] = contrast(pair)
    if not found:
        raise MissingEvidence("no honest runs of popularity beside trained models: add it to controls in config.yaml")
    family = Family.of(found)
    texts = [
        f"{column}: {', '.join(f'{found[column, loss]} ({judge(loss)})' for loss in LOSSES if (column, loss) in found)}"
        for column in dict.fromkeys(column for column, _ in found)
    ]
    lower = [f"{judge(loss)} on {column}" for column, loss in family.lower]
    decisive = family.least()
    return Verdict(
        family.all_higher(),
        "Popularity minus the best bounding of each loss by validation, in the metric that judges the loss, "
        f"is {'; '.join(texts)}: significantly above zero (Holm, {LEVEL:.0%}) in {len(family.higher)} of {len(family)} "
        f"comparisons and below in {len(lower)}{among(lower)}.",
        "popularity minus the best trained model, smallest difference",
        *found[decisive].measured,
        family.own_p(decisive),
        found[decisive].n,
        "table_5_1_honest",
    )
