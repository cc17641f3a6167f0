"""The study's terms, each said once: protocols, boundings, losses and the metrics that judge them."""

PUBLISHED, HONEST = "published", "honest"
"""The protocols: the thesis' own, whose epoch the test part picks, and one whose epoch a validation part picks."""

SELECTIONS = {PUBLISHED: "test", HONEST: "validation"}
"""The part that picks the epoch, by protocol."""

LOSSES = ("nDCG", "AP", "nRBP")
"""The losses that the thesis bounds."""

JUDGED_BY = {"nDCG": "nDCG", "AP": "AP", "nRBP": "nRBP(p=0.95)"}
"""Loss -> the metric that judges the models trained on it (thesis section 5.1); any other loss is judged by itself."""

UNBOUNDED = "none"
AFFINE = ("min-max", "expectation", "expectation-max")
"""Boundings that are list weights; for nRBP these have a common factor across lists."""
BOUNDED = (*AFFINE, "distribution")
BOUNDINGS = (UNBOUNDED, *BOUNDED)
