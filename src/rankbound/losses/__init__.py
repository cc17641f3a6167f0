"""Ranking losses over ragged lists: `loss("nDCG@10", bound="min-max")`, `loss("ListNet")`, ..."""

from rankbound.bounds.kinds import Bound, Unbounded
from rankbound.bounds.kinds import bound as parse_bound
from rankbound.losses.base import RankingLoss
from rankbound.losses.hinge import HingeLoss
from rankbound.losses.lambda_loss import LambdaLoss, LambdaRankLoss
from rankbound.losses.list_mle import ListMLELoss
from rankbound.losses.listnet import ListNetLoss
from rankbound.losses.listwise import MultinomialLoss, SoftmaxLoss
from rankbound.losses.pairwise import DirectRankerLoss, PairwiseLogisticLoss
from rankbound.losses.pointwise import LogisticLoss, OrdinalLoss, SquaredLoss
from rankbound.losses.smooth import SmoothLoss
from rankbound.losses.warp import WARPLoss
from rankbound.metrics import KINDS as METRICS
from rankbound.metrics import Metric, metric
from rankbound.texts import build, split_text, unknown_name

POINTWISE = (SquaredLoss, LogisticLoss, OrdinalLoss)
PAIRWISE = (HingeLoss, PairwiseLogisticLoss, DirectRankerLoss, WARPLoss)
LISTWISE = (ListNetLoss, ListMLELoss, SoftmaxLoss, MultinomialLoss, LambdaRankLoss, LambdaLoss)

KINDS: dict[str, type[RankingLoss]] = {kind.name: kind for kind in (*POINTWISE, *PAIRWISE, *LISTWISE)}


def loss(text: str | Metric, bound: str | Bound = "none", temperature: float = 1.0) -> RankingLoss:
    """The loss that `text` names: the smooth, bounded loss of a metric, or one of the others.

    A metric's text (`nDCG@10`, `AP`, `nRBP`) gives `SmoothLoss`, to which `bound` and `temperature` belong. The others
    have all their parameters in the text: `hinge(margin=2)`, `ListNet@2`, `LambdaRank(metric=nDCG(gain=linear)@10)`.

    Raises:
        ValueError: for an unknown name (with the nearest known one), parameter or value, or a bound or temperature
            beside the text of a loss that is not a metric's.
    """
    name, parameters, cutoff = ("", {}, None) if isinstance(text, Metric) else split_text(text, "loss")
    if name not in KINDS:
        if name and name not in (*METRICS, "nRBP"):
            raise unknown_name("loss", str(text), name, [*KINDS, *METRICS, "nRBP"])
        return SmoothLoss(metric(text), bound, temperature=temperature)
    if not isinstance(parse_bound(bound), Unbounded):
        raise ValueError(f"bound: found {bound} for the loss {text}, expected none: bounds are for losses of metrics")
    if temperature != 1:
        raise ValueError(
            f"temperature: found {temperature:g} beside the loss {text}, expected none; a loss that has one says so in "
            f"its text, as in RankNet(temperature={temperature:g})"
        )
    return build(KINDS[name], str(text), parameters, cutoff, "loss")


__all__ = ["RankingLoss", "SmoothLoss", "loss"]
