"""The settings of a ranker's training."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any

import torch

from rankbound.training.models import ACTIVATIONS, MLP, AttentionScorer, Factorization, NeuralMF

FACTORIZATIONS = ("matrix-factorization", "neural-mf")
"""The models that learn factors of topics and items."""

COUNTED = ("popularity", "item-knn", "ease")
"""The models that are computed from the relevant pairs, without epochs and loss."""

PAIR_MODELS = (*FACTORIZATIONS, *COUNTED)
"""The models that read no features, but topics and items that recur."""

TREES = ("mart", "lambdamart", "random-forest", "mcrank", "boosted-trees")
"""The models that LightGBM grows."""

_GROWTH = ("leaves", "min_rows")

FITTED_MODELS: Mapping[str, tuple[str, ...]] = {
    "ranksvm": ("cost", "pair_weights"),
    "adarank": ("loss", "bound"),
    "rankboost": ("pair_weights",),
    "coordinate-ascent": ("loss", "bound", "starts"),
    "subset-ranking": ("cost", "top"),
    "prank": (),
    "mart": (*_GROWTH, "shrinkage"),
    "lambdamart": (*_GROWTH, "shrinkage"),
    "random-forest": _GROWTH,
    "mcrank": (*_GROWTH, "shrinkage", "classification"),
    "boosted-trees": (*_GROWTH, "shrinkage", "loss", "bound", "temperature"),
}
"""The models of features that are fitted without gradients of a loss, and the settings that each takes."""

OF_FITTED = ("scale", "missing_features", "epochs", "metric", "validation_share", "seed")
"""The settings that all of them take."""

CHOICES: Mapping[str, Collection[str]] = {
    "model": ("linear", "mlp", "attention", *FITTED_MODELS, *PAIR_MODELS),
    "scale": ("standard", "query", "none"),
    "missing_features": ("refuse", "mean", "zero", "indicator"),
    "activation": ACTIVATIONS,
    "bias": ("none", "item"),
    "unknown": ("refuse", "mean"),
    "negative_sampling": ("uniform", "popularity", "in-batch", "once"),
    "pair_weights": ("equal", "list"),
    "classification": ("multiclass", "ordinal"),
}
"""The settings that are names, and the names that there are."""

RATE, RATE_OF_MANY, MANY_ITEMS = 0.01, 0.003, 20_000
"""Adam's learning rate, and that of an `mlp` from so many training items on: see `docs/models.md`."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The settings of a ranker's training.

    Args:
        loss: a text that `rankbound.loss` reads: `nDCG`, `AP`, `RankNet`, ... For `adarank` and `coordinate-ascent`,
            the metric that they maximise; of trees, `boosted-trees` alone takes a loss.
        bound: the bound of a metric's loss.
        temperature: of the loss' smooth ranks, in units of the scores.
        model: `linear`, a weight per feature; `mlp`, a network; `attention`, a network in which the items of a list
            attend to each other, so that scoring takes whole lists (Pobrotyn et al. 2020); a model that is fitted
            without a loss's gradients: `ranksvm` (Joachims 2002) and `coordinate-ascent` (Metzler and Croft 2007), both
            a weight per feature, `adarank` (Xu and Li 2007), which boosts features, and `rankboost` (Freund et al.
            2003), which boosts thresholds of features, `subset-ranking` (Cossock and Zhang 2006), a regression of gains
            that counts the top of a list, `prank` (Crammer and Singer 2001), a perceptron with thresholds between
            grades; trees, by LightGBM: `mart`, `lambdamart`, `random-forest`, `mcrank` (Li et al. 2007), which
            classifies items and ranks by the expected grade, or `boosted-trees` for any loss; or a model that reads no
            features, but topics (users) and items that recur between topics. Of these, `matrix-factorization` learns
            factors of both, and `neural-mf` adds a network of others (He et al. 2017). The rest have no epochs, and no
            loss: `popularity` counts the topics that an item is relevant to; `item-knn` adds up the similarities of an
            item to the topic's relevant ones (cosine; Deshpande and Karypis 2004); `ease` adds up weights of these, a
            ridge regression of each item on all others in closed form (Steck 2019).
        hidden: the widths of the layers of an `mlp` or the network of a `neural-mf`; of an `attention`, those of the
            layers before attention, the last of which is the width of its blocks.
        activation: of these layers.
        blocks, heads: of an `attention`, the number of its blocks, and of the heads in each.
        scale: `standard` gives every feature mean 0 and standard deviation 1 over the training items: an item's score
            does not depend on its list. `query` scales every feature to 0 .. 1 within each list, as LETOR does: this
            removes differences between topics, and scoring takes whole lists. `none` leaves features unchanged.
        missing_features: what a missing value of a feature is, fitted on the training items: `mean`, the mean of the
            others (for categories, their shares), `zero`, or `indicator`, the mean with an input that is 1 where the
            value is missing; `refuse` raises.
        factors: of each topic and each item of a `matrix-factorization` or `neural-mf`.
        neighbours: of an `item-knn`, the most similar items of each item that count.
        ridge: of an `ease`, the weight of the squares of its weights; a hundred to a thousand are usual.
        cost: of a `ranksvm`, the factor $C$ of the pairs' mean squared hinge, of a `subset-ranking`, that of the lists'
            mean loss; None lets the validation topics choose from 0.0001, 0.001, ... 1000.
        pair_weights: of a `ranksvm` or `rankboost`: `equal` for all pairs, or `list`, by which all topics weigh the
            same, however many pairs they have (Cao et al. 2006).
        starts: of `coordinate-ascent`, initial weights from which it climbs: equal ones, then random ones.
        top: of a `subset-ranking`, the items of each list with the highest grades, whose gains have to be right.
        classification: of a `mcrank`: `multiclass`, or `ordinal` for a classifier of each grade but the lowest.
        leaves, min_rows: of trees, the most leaves of each, and the fewest items of a leaf.
        shrinkage: of boosted trees, the factor of each.
        bias: of a `matrix-factorization` or `neural-mf`: `item`, one for each item, or `none`.
        negatives: for a model with factors, so many items that the topic's training list lacks are drawn for each of
            its relevant items. Their relevance is 0.
        negative_sampling: how they are drawn, by `seed`. In every epoch anew and with replacement: `uniform`, from all
            items; `popularity`, in proportion to the topics that they are relevant to; `in-batch`, in the same way from
            the items of the step's topics. Or `once`: for all epochs, uniformly and without replacement (all of them if
            they are fewer). Validation lists have negatives that are drawn as by `once`.
        unknown: topics and items to score that a model without features was not trained on: `refuse`, or `mean` for
            the mean over all topics, or all items; for models with factors, of all factors and biases.
        epochs: passes over the training topics; the most Newton steps of a `ranksvm` or `subset-ranking` for each cost,
            rounds of `adarank`, `rankboost` and trees, and sweeps over all features of `coordinate-ascent`, in all
            starts together.
        patience: a training with validation topics ends after so many epochs that are not better than the best one; 0
            for none of it. None is as many as take 2,000 steps, at least 10.
        learning_rate: of Adam. None is 0.01; for an `mlp` with 20,000 training items or more, 0.003.
        batch_size: topics per step.
        metric: selects the epoch on the validation topics; without validation topics, the last epoch is used, or
            the one with the lowest training loss for a model that is fitted without gradients.
        validation_share: share held out for validation without validation lists, drawn by `seed`: of the topics, or,
            for models with factors, of each topic's items; `popularity`, `item-knn` and `ease` hold none out.
        seed: of initial weights, order of batches and validation topics; the draws do not depend on loss and bound.

    Raises:
        ValueError: a setting is unknown or out of range.

    >>> rb.Recipe(loss="AP", bound="min-max").batch_size
    16
    """

    loss: str = "nDCG"
    bound: str = "none"
    temperature: float = 1.0
    model: str = "linear"
    hidden: tuple[int, ...] = (64, 32)
    activation: str = "relu"
    blocks: int = 2
    heads: int = 2
    scale: str = "standard"
    missing_features: str = "refuse"
    factors: int = 32
    neighbours: int = 50
    ridge: float = 100.0
    cost: float | None = None
    pair_weights: str = "equal"
    starts: int = 2
    top: int = 10
    classification: str = "multiclass"
    leaves: int = 31
    min_rows: int = 20
    shrinkage: float = 0.1
    bias: str = "item"
    negatives: int = 0
    negative_sampling: str = "uniform"
    unknown: str = "refuse"
    epochs: int = 100
    patience: int | None = None
    learning_rate: float | None = None
    batch_size: int = 16
    metric: str = "nDCG@10"
    validation_share: float = 0.2
    seed: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.loss, str):
            raise ValueError(
                f"loss: found {self.loss}, expected a text, since the ranker's file records it: loss='nDCG', with "
                "bound= and temperature= beside it; other losses train your own model in a loop of your own"
            )
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name}: found {getattr(self, name)!r}, expected one of {', '.join(allowed)}")
        positive = ("temperature", "blocks", "heads", "factors", "neighbours", "ridge", "starts", "epochs")
        of_fitted = ("cost", "top", "min_rows", "shrinkage")
        for name in (*positive, "learning_rate", "batch_size", *of_fitted):
            if getattr(self, name) is not None and not getattr(self, name) > 0:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected a number above 0")
        if not all(width > 0 for width in self.hidden):
            raise ValueError(f"hidden: found {self.hidden}, expected widths above 0")
        if self.model == "attention" and (not self.hidden or self.hidden[-1] % self.heads):
            raise ValueError(
                f"hidden: found {self.hidden} beside {self.heads} heads of attention, expected widths whose last one "
                f"is a multiple of {self.heads}"
            )
        if self.leaves < 2:
            raise ValueError(f"leaves: found {self.leaves}, expected a number from 2")
        if not 0 <= self.validation_share < 1:
            raise ValueError(f"validation_share: found {self.validation_share}, expected a share in [0, 1)")
        for name in ("negatives", "patience"):
            if (getattr(self, name) or 0) < 0:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected a number from 0")
        if self.negatives and self.model not in PAIR_MODELS:
            raise ValueError(
                f"negatives: found {self.negatives} beside the model {self.model}, whose items need features: only "
                f"models {' and '.join(FACTORIZATIONS)} draw negatives"
            )
        self._require_taken()

    def _require_taken(self) -> None:
        """Raise ValueError for a setting that the model does not take, other than its default."""
        own = FITTED_MODELS.get(self.model)
        theirs = {name for names in FITTED_MODELS.values() for name in names} - {"loss", "bound", "temperature"}
        for setting in fields(self):
            name, value = setting.name, getattr(self, setting.name)
            taken = name not in theirs if own is None else name in ("model", *own, *OF_FITTED)
            if taken or value == setting.default:
                continue
            having = " or ".join(model for model, names in FITTED_MODELS.items() if name in names)
            takes = f"has none; model {having} has" if own is None else f"takes {', '.join([*own, *OF_FITTED])}"
            raise ValueError(f"{name}: found {value!r} beside the model {self.model}, which {takes}")

    @property
    def takes_loss(self) -> bool:
        """True if the model minimises the loss that the recipe names, false if its loss is its own, or none."""
        return "loss" in FITTED_MODELS.get(self.model, ("loss",)) and self.model not in COUNTED

    @property
    def scores_lists(self) -> bool:
        """Whether an item's score depends on its list, so that scoring takes whole lists."""
        return self.model == "attention" or self.scale == "query"


def recipe_of(settings: Mapping[str, Any]) -> Recipe:
    """Return the recipe of some settings, by default those of `Recipe`; TypeError for a setting that there is not."""
    known = [setting.name for setting in fields(Recipe)]
    for name in settings:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"expected some of {', '.join(known)}"
            raise TypeError(f"{name}: found a setting that the training of a ranker does not have; {hint}")
    return Recipe(**settings)


def learning_rate_of(recipe: Recipe, n_items: int) -> float:
    """Return the rate that a recipe chooses, or the one that suits its model and so many training items."""
    if recipe.learning_rate is not None:
        return recipe.learning_rate
    return RATE_OF_MANY if recipe.model == "mlp" and n_items >= MANY_ITEMS else RATE


def build(recipe: Recipe, n_features: int, generator: torch.Generator | None = None) -> MLP | AttentionScorer:
    """Return a recipe's model of features with initial weights, by default of PyTorch's own generator."""
    if recipe.model == "attention":
        layers = n_features, recipe.hidden, recipe.activation
        return AttentionScorer(*layers, recipe.blocks, recipe.heads, generator)
    return MLP(n_features, recipe.hidden if recipe.model == "mlp" else (), recipe.activation, generator)


def build_factors(
    recipe: Recipe, n_topics: int, n_items: int, generator: torch.Generator | None = None, *, by_kernel: bool = False
) -> Factorization:
    """Return a recipe's model of topics and items with initial factors; `by_kernel` as in `Factorization`."""
    sizes, bias = (n_topics, n_items, recipe.factors), recipe.bias
    if recipe.model == "neural-mf":
        return NeuralMF(*sizes, recipe.hidden, recipe.activation, generator, bias=bias, by_kernel=by_kernel)
    return Factorization(*sizes, generator=generator, bias=bias, by_kernel=by_kernel)
