"""Ranking losses over ragged lists: `loss("nDCG@10", bound="min-max")`, `loss("ListNet")`, ..."""

from rankbound.bounds.base import Bound, Unbounded
from rankbound.bounds.base import bound as parse_bound
from rankbound.losses.base import RankingLoss
from rankbound.losses.smooth import SmoothLoss
from rankbound.metrics import KNOWN as METRICS
from rankbound.metrics import Metric, metric
from rankbound.names import require_tool, translated
from rankbound.texts import build, is_named, named_kinds, split_text

KINDS: dict[str, type[RankingLoss]] = dict(named_kinds(__name__, RankingLoss))
"""The losses other than smooth metrics; to add one, define a class in a module of this package."""


def loss(
    text: str | Metric | RankingLoss, bound: str | Bound = "none", temperature: float = 1.0, *, names: str = "rankbound"
) -> RankingLoss:
    """Return the loss that `text` names: the smooth, bounded loss of a metric, or another loss.

    Args:
        text: a metric or its text (`nDCG@10`, `AP`, `nRBP`), which gives a `SmoothLoss`; or the text of another loss
            with all its parameters: `hinge(margin=2)`, `ListNet@2`, `LambdaRank(metric=nDCG(gain=linear)@10)`.
            Other tools' names are read, in any case, where they mean one thing: `ApproxNDCG`, `listnet`, `BPR`. A loss
            is returned as it is.
        bound: the bound of a metric's loss.
        temperature: the temperature of a metric's loss, in units of the scores.
        names: whose names are meant: those of all tools, as far as they agree (`rankbound`), or first those of a tool,
            such as `XGBoost`.

    Returns:
        The loss, a module that is called with scores, relevance and offsets.

    Raises:
        ValueError: for an unknown name (the message suggests the nearest one), parameter or value, a name with two
            meanings, such as `lambdarank`, or for a bound or temperature with a loss that isn't a metric's.

    >>> rb.loss("RankNet")(torch.tensor([0.3, 0.1, 0.2]), [0, 1, 0], [0, 3])
    tensor([0.7713])
    """
    tool = "" if names == "rankbound" else names
    if tool:
        require_tool(tool)
    if isinstance(text, RankingLoss):
        for argument, found, expected in ("bound", str(bound), "none"), ("temperature", f"{temperature:g}", "1"):
            if found != expected:
                raise ValueError(f"{argument}: found {found} beside a loss, expected {expected}: give the loss its own")
        return text
    if isinstance(text, Metric):
        return SmoothLoss(text, bound, temperature=temperature)
    if tool or not is_named(text, (*KINDS, *METRICS)):
        return loss(translated("loss", text, (*KINDS, *METRICS), tool), bound, temperature)
    name, parameters, cutoff = split_text(text, "loss")
    if name not in KINDS:
        return SmoothLoss(metric(text), bound, temperature=temperature)
    if not isinstance(parse_bound(bound), Unbounded):
        raise ValueError(f"bound: found {bound} for the loss {text}, expected none: bounds are for losses of metrics")
    if temperature != 1:
        raise ValueError(
            f"temperature: found {temperature:g} beside the loss {text}, expected none; put it into the loss's text, "
            f"as in RankNet(temperature={temperature:g})"
        )
    return build(KINDS[name], str(text), parameters, cutoff, "loss")


__all__ = ["RankingLoss", "SmoothLoss", "loss"]
