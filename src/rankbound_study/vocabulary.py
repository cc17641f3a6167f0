"""The study's terms: protocols, boundings, losses and the metrics that judge them."""

PUBLISHED, HONEST = "published", "honest"
"""The protocols: one for comparison with the printed scores, where the test part selects the epoch, and one where a
validation part does. The thesis states neither a number of epochs nor a validation part. The code of the paper that it
builds on (Li, Urbano and Hanjalic, SIGIR 2021) selects the epoch by the test part. That the printed scores were
computed in this way is an assumption."""

SELECTIONS = {PUBLISHED: "test", HONEST: "validation"}
"""Protocol -> the part that selects the epoch."""

COMPARED, EXPERIMENTS = "compared", "experiments"
"""Parts of a study's runs that are collected by themselves, like those of each protocol."""

LAST = "last"
"""The selection of the last epoch."""

LOSSES = ("nDCG", "AP", "nRBP")
"""The losses that the thesis bounds."""

JUDGED_BY = {"nDCG": "nDCG", "AP": "AP", "nRBP": "nRBP(p=0.95)"}
"""Loss -> the metric that judges models trained on it (thesis section 5.1); any other loss is judged by itself."""

UNBOUNDED = "none"
AFFINE = ("min-max", "expectation", "expectation-max")
"""Boundings that are list weights; for nRBP they differ by a factor common to all lists."""
BOUNDED = (*AFFINE, "distribution")
BOUNDINGS = (UNBOUNDED, *BOUNDED)

POPULARITY = "popularity"
"""The control that ranks items by the number of training topics to which they are relevant."""

BEST_FEATURE = "best-feature"
"""The control that ranks items by the single feature, ascending or descending, that is best on the training part."""

CONTROLS = ("random", POPULARITY, BEST_FEATURE, "oracle")
"""Models without a loss."""

BOOSTED_TREES = "boosted-trees"
