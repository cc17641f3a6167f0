"""Seeds that follow from what they are for, so that the same part of a study always draws the same numbers."""

import hashlib
import json

SEED_BITS = 63


def derive_seed(*parts: str | int | float | None) -> int:
    """A seed in 0 .. 2**63 - 1 that depends on `parts` alone: the head of their SHA-256, as JSON text.

    The same on every machine and Python version, unlike `hash`. Name what the numbers are for first, then the
    data set, fold and seed: `derive_seed("negatives", "movielens", 1, 0)`.
    """
    text = json.dumps(parts, ensure_ascii=True, allow_nan=False)
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - SEED_BITS)
