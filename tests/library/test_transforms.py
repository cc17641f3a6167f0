"""Derivatives of every loss and of smooth ranks, in each way of PyTorch: true, or refused by name.

The reference is one backward pass per value, whose truth `gradcheck` shows. A row of `WAYS` is one way to a derivative;
a row of `REFUSED` is one that is not available.
"""

from collections.abc import Callable
from itertools import product

import pytest
import torch
from test_own_metric import RootGain
from torch import Tensor
from torch.autograd import forward_ad, functional, gradcheck, gradgradcheck
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

import rankbound as rb
from rankbound.losses import KINDS
from rankbound.losses.pointwise import PointwiseLoss

# PyTorch's own forward mode compiles its decompositions so.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning"),
    pytest.mark.usefixtures("each_way"),
]
Function = Callable[[Tensor], Tensor]

SIZES = [5, 0, 1, 3]
OFFSETS = torch.tensor([0, *SIZES]).cumsum(0)
RELEVANCE = torch.tensor([2, 0, 1, 0, 1, 1, 0, 1, 0])
BINARY = torch.tensor([1, 0, 0, 0, 0, 0, 0, 1, 0])
SCORES = torch.randn(sum(SIZES), generator=torch.Generator().manual_seed(5), dtype=torch.float64)
OTHERS = torch.randn(sum(SIZES), generator=torch.Generator().manual_seed(6), dtype=torch.float64)
WEIGHTS = 0.5 + torch.arange(len(SCORES), dtype=torch.float64) % 3
LIST_WEIGHTS = torch.tensor([1.0, 2.0, 0.0, 3.0])
BOUNDS = ("min-max", "expectation", "expectation-max", "distribution(gain=sd)")


def of_loss(loss: rb.RankingLoss, relevance: Tensor = RELEVANCE, **options: object) -> Function:
    return lambda x: loss(x, relevance, OFFSETS, **options)  # type: ignore[arg-type]


FUNCTIONS: dict[str, Function] = {
    **{name: of_loss(kind(), BINARY if name == "multinomial" else RELEVANCE) for name, kind in KINDS.items()},
    **{
        text: of_loss(rb.SmoothLoss(text, method="direct"))
        for text in ("nDCG", "nDCG@3", "AP", "RR", "nRBP", "ERR(max=2)", "Kendall", "PairAccuracy")
    },
    **{f"nDCG {bound}": of_loss(rb.loss("nDCG", bound), BINARY) for bound in BOUNDS},
    "AP interpolated": of_loss(rb.SmoothLoss("AP", method="interpolated")),
    "a sum of losses": of_loss(rb.loss("nDCG", "min-max") + 0.5 * rb.loss("RankNet")),
    "weighted items": of_loss(rb.loss("RankNet"), weights=WEIGHTS),
    "weighted lists": of_loss(rb.loss("nDCG"), list_weights=LIST_WEIGHTS),
    "the mean": of_loss(rb.loss("AP"), reduction="mean"),
    "the sum": of_loss(rb.loss("softmax"), reduction="sum"),
    "smooth ranks": lambda x: rb.smooth_rank(x, OFFSETS),
    "interpolated ranks": lambda x: rb.smooth_rank(x, OFFSETS, weights=RELEVANCE, method="interpolated"),
    "smooth ranks among relevant items": lambda x: rb.smooth_rank(x, OFFSETS, weights=RELEVANCE, temperature=0.5),
}
# Their weights come from the current ranks, and are constants to a second derivative: no differences show it.
WEIGHED_BY_RANKS = ("LambdaRank", "LambdaLoss", "WARP")
# Differences across their kinks or boxes are less precise.
LOOSE = {"AP interpolated": 1e-4, "interpolated ranks": 1e-4}


def jacobian(function: Function, at: Tensor = SCORES) -> Tensor:
    leaf = at.clone().requires_grad_()
    values = function(leaf).reshape(-1)
    return torch.stack([torch.autograd.grad(value, leaf, retain_graph=True)[0] for value in values])


def total(function: Function) -> Function:
    return lambda x: function(x).sum()


def squares(function: Function) -> Function:
    """A function of the values that is not linear: its second derivatives need the values' first ones, too."""
    return lambda x: function(x).square().sum()


def second(function: Function, at: Tensor = SCORES) -> Tensor:
    leaf = at.clone().requires_grad_()
    (slope,) = torch.autograd.grad(function(leaf), leaf, create_graph=True)
    return torch.stack([torch.autograd.grad(one, leaf, retain_graph=True)[0] for one in slope])


def in_a_dual_level(function: Function) -> Tensor:
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(function(forward_ad.make_dual(SCORES, OTHERS))).tangent


def forward_over_reverse(function: Function) -> Tensor:
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(SCORES.clone().requires_grad_(), OTHERS)
        (slope,) = torch.autograd.grad(squares(function)(dual), dual)
        return forward_ad.unpack_dual(slope).tangent


def through_a_model(function: Function) -> Tensor:
    model = torch.nn.Linear(1, 1, bias=False, dtype=torch.float64)
    features = OTHERS[:, None]

    def total(parameters: dict[str, Tensor]) -> Tensor:
        return function(functional_call(model, parameters, (features,)).squeeze(1)).sum()

    return grad(total)({"weight": torch.ones(1, 1, dtype=torch.float64)})["weight"]


BOTH = torch.stack([SCORES, OTHERS])
Way = tuple[Callable[[Function], Tensor], Callable[[Function], Tensor]]
WAYS: dict[str, Way] = {
    "func.grad": (lambda f: grad(total(f))(SCORES), lambda f: jacobian(f).sum(0)),
    "func.vjp": (lambda f: vjp(f, SCORES)[1](f(SCORES))[0], lambda f: f(SCORES).reshape(-1) @ jacobian(f)),
    "func.jvp": (lambda f: jvp(f, (SCORES,), (OTHERS,))[1].reshape(-1), lambda f: jacobian(f) @ OTHERS),
    "forward_ad": (lambda f: in_a_dual_level(f).reshape(-1), lambda f: jacobian(f) @ OTHERS),
    "func.jacrev": (lambda f: jacrev(f)(SCORES).reshape(-1, len(SCORES)), jacobian),
    "func.jacfwd": (lambda f: jacfwd(f)(SCORES).reshape(-1, len(SCORES)), jacobian),
    "functional.jacobian": (lambda f: functional.jacobian(f, SCORES).reshape(-1, len(SCORES)), jacobian),
    "vmap": (lambda f: vmap(f)(BOTH), lambda f: torch.stack([f(SCORES), f(OTHERS)])),
    "vmap of columns": (
        lambda f: vmap(f, in_dims=1, out_dims=-1)(BOTH.T),
        lambda f: torch.stack([f(SCORES), f(OTHERS)], -1),
    ),
    "vmap of grad": (
        lambda f: vmap(grad(total(f)))(BOTH),
        lambda f: torch.stack([jacobian(f, x).sum(0) for x in BOTH]),
    ),
    "grad of vmap": (
        lambda f: grad(lambda x: vmap(f)(torch.stack([x, 2 * x])).sum())(SCORES),
        lambda f: jacobian(f).sum(0) + 2 * jacobian(f, 2 * SCORES).sum(0),
    ),
    "func.hessian": (lambda f: hessian(squares(f))(SCORES), lambda f: second(squares(f))),
    "jacrev of jacrev": (lambda f: jacrev(jacrev(squares(f)))(SCORES), lambda f: second(squares(f))),
    "jacrev of jacfwd": (lambda f: jacrev(jacfwd(squares(f)))(SCORES), lambda f: second(squares(f))),
    "functional.hessian": (lambda f: functional.hessian(squares(f), SCORES), lambda f: second(squares(f))),
    "forward over reverse": (forward_over_reverse, lambda f: second(squares(f)) @ OTHERS),
    "functional_call": (through_a_model, lambda f: (jacobian(f, OTHERS).sum(0) @ OTHERS).reshape(1, 1)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_way_to_a_derivative_is_true(name: str, way: str) -> None:
    found, expected = (of(FUNCTIONS[name]) for of in WAYS[way])
    # Interpolated sums have errors of their own, other ones in each direction.
    tolerance = 1e-5 if "interpolated" in name else 1e-9
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=tolerance)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_agree_with_differences(name: str) -> None:
    leaf, tolerance = SCORES.clone().requires_grad_(), LOOSE.get(name, 1e-5)
    assert gradcheck(FUNCTIONS[name], leaf, atol=tolerance, check_forward_ad=True)
    if name not in WEIGHED_BY_RANKS:
        assert gradgradcheck(FUNCTIONS[name], leaf, atol=10 * tolerance, check_fwd_over_rev=True, fast_mode=True)
    assert jacobian(FUNCTIONS[name]).abs().max() > 1e-3, "zeros would agree with nothing"


METHODS = ("direct", "interpolated")
SMOOTH = ("nDCG", "nDCG@3", "nDCG(gain=linear,discount=log2(r))", "DCG", "AP", "RR", "P@3", "RBP(p=0.8)", "nRBP")
SMOOTH += ("ERR(max=2)", "Kendall", "PairAccuracy", "LinearNDCG")
CURVED: dict[str, rb.RankingLoss] = {
    **{
        f"{name} {bound} {method}": rb.SmoothLoss(name, bound, method=method)
        for name in SMOOTH
        for bound in ("none", "min-max", "expectation-max", "distribution(gain=sd)")
        for method in METHODS
        if not (bound.startswith("distribution") and name not in ("nDCG", "AP", "nRBP"))
    },
    **{f"one's own {method}": rb.SmoothLoss(RootGain(), method=method) for method in METHODS},
    **{f"{name} {method}": KINDS[name](method=method) for name in ("RankNet", "DirectRanker") for method in METHODS},
    **{name: rb.loss(name) for name in (*WEIGHED_BY_RANKS, "ListNet@2", "ListMLE@2")},
}


@pytest.mark.parametrize("name", CURVED)
def test_hessians_are_symmetric_and_those_of_differences(name: str) -> None:
    """Interpolation's errors grow with the curvature; losses that know differences of scores alone sum to 0."""
    function = of_loss(CURVED[name], BINARY if "distribution" in name else RELEVANCE)
    found, close = functional.hessian(squares(function), SCORES), 1e-5 if name.endswith("interpolated") else 1e-6
    torch.testing.assert_close(found, found.T, rtol=1e-6, atol=close * float(found.abs().max()) + 1e-12)
    if name.startswith(WEIGHED_BY_RANKS):
        assert functional.hessian(total(function), SCORES).sum(0).abs().max() < 1e-12
        return
    slopes = [jacrev(squares(function))(SCORES + way * 1e-4 * torch.cos(OTHERS)) for way in (1, -1)]
    expected = (slopes[0] - slopes[1]) / 2e-4
    atol = close * float(expected.abs().max()) + 1e-9
    torch.testing.assert_close(found @ torch.cos(OTHERS), expected, rtol=1e-5, atol=atol)
    assert found.abs().max() > 1e-4, "zeros would agree with nothing"


@pytest.mark.slow
def test_hessians_of_ties_and_far_scores_are_finite_and_in_single_precision_those_of_double() -> None:
    scores = torch.tensor([0.0, 0, 0, 0, 1e4, 0, -1e4, 3, 1e4, 1e4])
    relevance, offsets = torch.tensor([1, 0, 1, 0, 1, 0, 1, 0, 0, 1]), torch.tensor([0, 4, 8, 10])
    for text, bound, method in product(("nDCG@3", "AP", "RR"), ("none", "min-max"), METHODS):
        loss = rb.SmoothLoss(text, bound, method=method)
        assert functional.hessian(lambda x, loss=loss: loss(x, relevance, offsets).sum(), scores).isfinite().all()
    for name in ("nDCG", "RankNet", "softmax", "ListMLE", "LambdaRank"):
        found, exact = (functional.hessian(total(FUNCTIONS[name]), 0 * x) for x in (SCORES.float(), SCORES))
        assert found.dtype == torch.float32
        torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-6)


REFUSED: dict[str, tuple[str, Callable[[Function], object]]] = {
    "forward mode in forward mode": ("func.hessian", lambda f: jacfwd(jacfwd(squares(f)))(SCORES)),
    "third derivatives": ("third derivatives", lambda f: grad(lambda x: hessian(squares(f))(x).sum())(SCORES)),
    "third derivatives by autograd": (
        "third derivatives",
        lambda f: torch.autograd.functional.jacobian(
            lambda x: functional.hessian(squares(f), x, create_graph=True).sum(), SCORES
        ),
    ),
    "batches of gradients": ("is_grads_batched", lambda f: functional.jacobian(f, SCORES, vectorize=True)),
    "batches of tangents": (
        "is_grads_batched",
        lambda f: functional.jacobian(f, SCORES, vectorize=True, strategy="forward-mode"),
    ),
}


@pytest.mark.parametrize("way", REFUSED)
@pytest.mark.parametrize("name", ["nDCG", "AP", "RankNet", "softmax", "hinge", "LambdaRank", "ListMLE", "smooth ranks"])
def test_what_is_not_available_is_refused_by_name(name: str, way: str) -> None:
    match, call = REFUSED[way]
    with pytest.raises(NotImplementedError, match=match):
        call(FUNCTIONS[name])


def test_vmap_over_relevance_and_weights_and_what_cannot_be_mapped_or_drawn() -> None:
    grades, factors = torch.stack([RELEVANCE, RELEVANCE.flip(0)]), torch.stack([WEIGHTS, WEIGHTS.flip(0)], 1)

    def mean(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
        return rb.loss("RankNet")(x, y, OFFSETS, weights=w, reduction="mean")

    found = vmap(mean, in_dims=(None, 0, 1))(SCORES, grades, factors)
    torch.testing.assert_close(found, torch.stack([mean(SCORES, grades[i], factors[:, i]) for i in range(2)]))
    for call in (lambda o: rb.loss("nDCG")(SCORES, RELEVANCE, o), lambda o: rb.smooth_rank(SCORES, o)):
        with pytest.raises(NotImplementedError, match="offsets: vmap maps over them"):
            vmap(call)(torch.stack([OFFSETS, OFFSETS]))
    with pytest.raises(NotImplementedError, match="samples=0"):
        grad(total(of_loss(rb.loss("WARP(samples=3)"))))(SCORES)


@pytest.mark.parametrize("how", ["sum", "max", "min", "running_sum"])
def test_reductions_of_lists_have_all_derivatives(how: str) -> None:
    reduce = getattr(rb.Lists(torch.tensor([0, 5, 6, 9])), how)
    leaf = SCORES.clone().requires_grad_()
    assert gradcheck(reduce, leaf, check_forward_ad=True)
    assert gradgradcheck(lambda x: reduce(x**3), leaf)
    torch.testing.assert_close(jacrev(reduce)(SCORES), jacobian(reduce))


METRICS: dict[str, Function] = {
    "nDCG": lambda x: rb.metric("nDCG")(x, RELEVANCE, OFFSETS),
    "PairAccuracy": lambda x: rb.metric("PairAccuracy")(x, RELEVANCE, OFFSETS),
    "weighted nDCG": lambda x: rb.metric("nDCG")(x, RELEVANCE, OFFSETS, weights=WEIGHTS),
    "bounded AP": lambda x: rb.bounded("AP", "expectation-max")(x, RELEVANCE, OFFSETS),
    "evaluate": lambda x: torch.cat(list(rb.evaluate(["AP", "RR"], x, RELEVANCE, OFFSETS).values())),
}


@pytest.mark.parametrize("name", METRICS)
def test_metrics_are_constants_under_transforms(name: str) -> None:
    """So are they where no scores tie: beside a loss, their values are of use, and their derivatives are 0."""
    metric = METRICS[name]
    expected = [metric(SCORES), metric(OTHERS)]
    torch.testing.assert_close(vmap(metric)(BOTH), torch.stack(expected), rtol=0, atol=0, equal_nan=True)
    (values, tangent) = jvp(metric, (SCORES,), (OTHERS,))
    torch.testing.assert_close(values, expected[0], rtol=0, atol=0, equal_nan=True)
    assert not tangent.any()
    slope, aux = grad(lambda x: (rb.loss("nDCG")(x, RELEVANCE, OFFSETS).sum(), metric(x)), has_aux=True)(SCORES)
    torch.testing.assert_close(aux, expected[0], rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(slope, jacobian(FUNCTIONS["nDCG"]).sum(0))


class Constant(rb.RankingLoss):
    """A loss of one's own that ignores the scores, as some do without any informative list."""

    def of_lists(self, scores: Tensor, relevance: Tensor, lists: rb.Lists) -> Tensor:
        return torch.zeros(len(lists))


WITHOUT_INFORMATIVE_LISTS = [
    *(name for name, kind in KINDS.items() if not issubclass(kind, PointwiseLoss)),
    *("PairAccuracy", "Kendall", "Kendall(weight=difference)", "nDCG", "constant"),
]


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
@pytest.mark.parametrize("text", WITHOUT_INFORMATIVE_LISTS)
def test_a_batch_without_informative_lists_has_gradients_of_0(text: str, dtype: torch.dtype, reduction: str) -> None:
    loss = Constant() if text == "constant" else rb.loss(text) if text in KINDS else rb.SmoothLoss(text)
    scores = torch.tensor([0.3, 0.1, 0.2], dtype=dtype, requires_grad=True)
    value = loss(scores, [0, 0, 0], [0, 2, 3], reduction=reduction)
    (gradient,) = torch.autograd.grad(value.sum(), scores, create_graph=True)
    assert not value.any()
    assert not gradient.any()
    assert not torch.autograd.grad(gradient.sum(), scores, allow_unused=True, materialize_grads=True)[0].any()
    lists = rb.Lists(torch.tensor([0, 2, 3]))
    assert not loss.derivatives(scores.detach().float(), torch.zeros(3), lists, second=False)[0].any()
    assert not grad(lambda x: loss(x, [0, 0, 0], [0, 2, 3]).sum())(scores.detach()).any()
