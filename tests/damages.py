"""Damages that Hypothesis draws: places, how many bytes are removed there, and what is put in their stead."""

from hypothesis import strategies as st

Damages = list[tuple[int, int, bytes]]


def damages(put: st.SearchStrategy[bytes], places: int, removed: int, least: int = 1) -> st.SearchStrategy[Damages]:
    return st.lists(st.tuples(st.integers(0, places), st.integers(0, removed), put), min_size=least, max_size=4)


def damaged(content: bytes, damage: Damages) -> bytes:
    for place, removed, put in damage:
        start = place % (len(content) + 1)
        content = content[:start] + put + content[start + removed :]
    return content
