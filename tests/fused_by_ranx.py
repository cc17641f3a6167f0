"""Write runs and their fusion by ranx: `NUMBA_DISABLE_JIT=1 python -m tests.fused_by_ranx`."""

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
NORMALISATIONS = ("none", "min-max", "max", "sum", "zmuv", "rank", "borda")


def drawn() -> list[dict[str, dict[str, float]]]:
    """Three runs of four topics without ties."""
    draws = np.random.default_rng(5)
    topics = [f"q{number}" for number in range(4)]
    items = {topic: [f"d{number}" for number in draws.permutation(16)] for topic in topics}

    def one(place: int) -> dict[str, dict[str, float]]:
        sizes = {topic: int(draws.integers(4, 14)) for topic in topics}
        scores = {topic: draws.normal(place, 1 + place, size).round(3).tolist() for topic, size in sizes.items()}
        chosen = {topic: draws.permutation(items[topic])[:size].tolist() for topic, size in sizes.items()}
        return {topic: dict(zip(chosen[topic], scores[topic], strict=True)) for topic in topics}

    return [one(place) for place in range(3)]


def fused() -> dict[str, Any]:
    """The runs and what ranx makes of them, by normalisation and method."""
    import ranx

    runs = drawn()
    theirs = [ranx.Run.from_dict(run) for run in runs]
    results: list[Any] = []

    def add(method: str, normalisation: str | None, run: Any) -> None:
        results.append({"method": method, "normalise": normalisation, "fused": run.to_dict()})

    for normalisation in NORMALISATIONS:
        norm = None if normalisation == "none" else normalisation
        for method, (name, parameters) in OF_SCORES.items():
            add(method, normalisation, ranx.fuse(theirs, norm=norm, method=name, params=parameters))
    for method, (name, parameters) in OF_RANKS.items():
        add(method, None, ranx.fuse(theirs, norm="min-max", method=name, params=parameters))
    parameters = {"weights": WEIGHTS}
    add("weighted borda", None, ranx.fuse(theirs, norm=None, method="w_bordafuse", params=parameters))
    return {"runs": runs, "results": results}


if __name__ == "__main__":
    PATH.write_text(json.dumps(fused(), separators=(",", ":")) + "\n")
