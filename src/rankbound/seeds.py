"""Seeds derived from their purpose, so that random draws are reproducible."""

import hashlib
import json

SEED_BITS = 63


def derive_seed(*parts: str | int | float | None) -> int:
    """Return a seed in 0 .. 2**63 - 1 that depends on `parts` alone: the head of the SHA-256 of their JSON text.

    Unlike `hash`, it is the same on every machine and Python version. By convention the purpose comes first, then data
    set, fold and seed: `derive_seed("negatives", "movielens", 1, 0)`.
    """
    text = json.dumps(parts, ensure_ascii=True, allow_nan=False)
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - SEED_BITS)
