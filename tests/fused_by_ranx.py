"""Write runs, judgements and their fusion by ranx: `NUMBA_DISABLE_JIT=1 python -m tests.fused_by_ranx`."""

import json
from pathlib import Path
from typing import Any

import numpy as np

PATH = Path(__file__).parent / "reference/fused_by_ranx.json"

WEIGHTS = (0.5, 0.3, 0.2)
OF_SCORES: dict[str, tuple[str, dict[str, Any]]] = {
    **{f"comb{name}": (name, {}) for name in ("sum", "mnz", "anz", "max", "min", "med")},
    "combgmnz(gamma=0.5)": ("gmnz", {"gamma": 0.5}),
    **{name: (name, {"weights": WEIGHTS}) for name in ("wsum", "wmnz", "mixed")},
}
OF_RANKS: dict[str, tuple[str, dict[str, Any]]] = {
    "rrf": ("rrf", {}),
    "rrf(k=10)": ("rrf", {"k": 10}),
    "isr": ("isr", {}),
    "log_isr": ("log_isr", {}),
    "logn_isr(sigma=0.2)": ("logn_isr", {"sigma": 0.2}),
    "rbc(phi=0.8)": ("rbc", {"phi": 0.8}),
    "borda": ("bordafuse", {}),
}
TRAINED = {
    "bayes": ("bayesfuse", "log_odds", {}),
    "map": ("mapfuse", "map_scores", {}),
    "posfuse": ("posfuse", "probs", {}),
    "probfuse(segments=4)": ("probfuse", "probs", {}),
    "segfuse": ("segfuse", "probs", {}),
    "slidefuse(window=2)": ("slidefuse", "probs", {"w": 2}),
}
NORMALISATIONS = ("none", "min-max", "max", "sum", "zmuv", "rank", "borda")


def drawn() -> tuple[list[dict[str, dict[str, float]]], dict[str, dict[str, int]]]:
    """Three runs of four topics without ties, and judgements of all items."""
    draws = np.random.default_rng(5)
    topics = [f"q{number}" for number in range(4)]
    items = {topic: [f"d{number}" for number in draws.permutation(16)] for topic in topics}

    def one(place: int) -> dict[str, dict[str, float]]:
        sizes = {topic: int(draws.integers(4, 14)) for topic in topics}
        scores = {topic: draws.normal(place, 1 + place, size).round(3).tolist() for topic, size in sizes.items()}
        chosen = {topic: draws.permutation(items[topic])[:size].tolist() for topic, size in sizes.items()}
        return {topic: dict(zip(chosen[topic], scores[topic], strict=True)) for topic in topics}

    runs = [one(place) for place in range(3)]
    return runs, {topic: {item: int(draws.integers(1, 3)) for item in names[:7]} for topic, names in items.items()}


def fused() -> dict[str, Any]:
    """The runs, the judgements and what ranx makes of them, by normalisation and method."""
    import ranx
    import ranx.fusion
    from ranx.normalization import norm_switch

    runs, qrels = drawn()
    theirs, judged = [ranx.Run.from_dict(run) for run in runs], ranx.Qrels.from_dict(qrels)
    results: list[Any] = []

    def add(method: str, normalisation: str | None, run: Any) -> None:
        results.append({"method": method, "normalise": normalisation, "fused": run.to_dict()})

    for normalisation in NORMALISATIONS:
        norm = None if normalisation == "none" else normalisation
        for method, (name, parameters) in OF_SCORES.items():
            add(method, normalisation, ranx.fuse(theirs, norm=norm, method=name, params=parameters))
    for method, (name, parameters) in OF_RANKS.items():
        add(method, None, ranx.fuse(theirs, norm="min-max", method=name, params=parameters))
    scaled = [norm_switch("min-max")(run) for run in theirs]
    for method, (name, key, others) in TRAINED.items():
        arguments = (4,) if name == "probfuse" else ()
        trained = getattr(ranx.fusion, f"{name}_train")(judged, scaled, *arguments)
        add(method, None, ranx.fuse(theirs, norm="min-max", method=name, params={key: trained, **others}))
    parameters = {"weights": WEIGHTS}
    add("weighted borda", None, ranx.fuse(theirs, norm=None, method="w_bordafuse", params=parameters))
    return {"runs": runs, "qrels": qrels, "results": results}


if __name__ == "__main__":
    PATH.write_text(json.dumps(fused(), separators=(",", ":")) + "\n")
