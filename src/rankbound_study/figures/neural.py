"""The figures of the neural-ranking study (Li and Wu): its eight, and five more."""

from dataclasses import replace
from typing import Any

from rankbound_study.figures.spec import FigureSpec

_PATHS = (
    "Loss (above) and {metric} (below) by epoch of {methods} on {data}, for the parts that were recorded: thin lines "
    "are folds, thick ones their mean; vertical lines are the epochs that the validation part picked. {loss}"
)
_ONE_LOSS = "Where one line of loss is drawn, it is that of training."
_NETWORKS = ("RankNet", "DirectRanker", "Class-NN", "RankNet-as-printed")
_LINEAR = ("Rank-LR", "Class-LR", "Reg-l1", "Reg-l2")
_FACES_OF = "The older face stands on the right. Drawn at random among the test pairs, {which}."


def _neural(number: int, module: str, caption: str, *needs: str, data: tuple[int, ...], **arguments: Any) -> FigureSpec:
    title = f"Neural networks in ranking, Figure {number}"
    return FigureSpec(module, caption, arguments, title=title, needs=needs, data=data)


def _paths(number: int, data: int, of: str, metric: str, *methods: str) -> FigureSpec:
    caption = _PATHS.format(metric=metric, methods=" and ".join(methods), data=of, loss=_ONE_LOSS)
    arguments = {"table": data, "methods": methods}
    return _neural(number, "training_paths", caption, "runs", "epochs", data=(data,), **arguments)


def _face_pairs(number: int, order: str, count: int, data: tuple[int, ...], which: str) -> FigureSpec:
    caption = _FACES_OF.format(which=which)
    return replace(
        _neural(number, "face_pairs", caption, "predictions", "images", data=data, order=order, count=count),
        methods=("Rank-LR",),
        shows_pictures=True,
    )


NEURAL_FIGURES: dict[str, FigureSpec] = {
    "figure_neural_1": _paths(
        1, 1, "web queries", "NDCG@10", "RankNet", "DirectRanker", "Class-NN", "RankNet-as-printed"
    ),
    "figure_neural_2": _face_pairs(2, "any", 3, (2,), "with their ages"),
    "figure_neural_3": replace(
        _neural(
            3,
            "coefficient_images",
            "Coefficients of four linear models as pictures: the mean of a pixel's red, green and blue one. Red: the "
            "brighter the pixel, the older the face. Those of the logistic regressions are multiplied by 2000, as in "
            "the paper. Every picture has its own scale, which ends at the 99.5 % quantile of the absolute values.",
            "weights",
            "images",
            data=(2,),
            methods=_LINEAR,
        ),
        methods=_LINEAR,
    ),
    "figure_neural_4": _paths(4, 2, "pixels of faces", "pair accuracy", "RankCNN"),
    "figure_neural_5": _paths(5, 3, "VGG16 features of faces", "pair accuracy", "RankNet"),
    "figure_neural_6": _face_pairs(
        6,
        "right",
        6,
        (2, 3),
        "among those that Rank-LR orders rightly. Below each pair: how much higher the older face scores; the title "
        "says what Rank-LR reads",
    ),
    "figure_neural_7": _face_pairs(7, "wrong", 6, (2, 3), "among those that Rank-LR orders wrongly"),
    "figure_neural_8": _neural(
        8,
        "data_levels",
        "Kinds of data by how much can be said of two labels, and the methods that fit them.",
        data=(),
    ),
    "figure_neural_features": FigureSpec(
        "feature_counts",
        "Networks (unbroken lines, filled marks) and other models (dashed, hollow) that see so many of the features: "
        "columns drawn at random anew in every fold, the same ones for all methods, and the fewer among the more. "
        "Above the mean score, below the best network minus the best other model of its family, both by validation, "
        "on the same lists. With 95 % intervals, which allow for faces that several pairs share; points of one number "
        "are drawn beside each other. The intervals do not tell what another draw of the columns would change.",
        title="Scores by the number of features",
        needs=("runs", "epochs", "predictions", "images"),
        data=(1, 2, 3),
        by_features=True,
    ),
    "figure_neural_gaps": FigureSpec(
        "age_gaps",
        "Pair accuracy by the years between the two faces, with 95 % intervals that allow for shared faces: the best "
        "method of each family by validation, and Rank-LR. A random order gives 0.5.",
        title="Accuracy by age difference",
        needs=("runs", "epochs", "predictions", "images"),
        data=(2, 3),
    ),
    "figure_neural_duplicates": FigureSpec(
        "near_duplicates",
        "Pairs of alike pictures by the distance of their perceptual hashes. Up to the threshold they are in one "
        "group, which no split parts; beyond it pairs are mostly different people. Who is on a picture is not known: "
        "one person may still stand in two parts.",
        title="Near duplicates",
        needs=("images",),
        data=(2,),
        shows_pictures=True,
    ),
    "figure_neural_links": FigureSpec(
        "pair_links",
        "RankNet and DirectRanker give a pair the probability σ(d) and σ(tanh d) of the same difference d of scores: "
        "one order, two links. DirectRanker's cannot leave 0.269 .. 0.731, so its loss never falls below 0.313. Right, "
        "for random models of a pair: the share of pairs whose winner depends on which item comes first, and of "
        "triples in which each item beats the next. Only an odd link of a score difference, and what has its sign, is "
        "free of both.",
        title="Antisymmetry and transitivity",
    ),
}
