"""Numbers of things in texts: one topic, two topics."""


def quantity(number: int, what: str, plural: str = "") -> str:
    """Return a number of things as text; their plural ends in s unless another one is given.

    >>> quantity(1, "topic"), quantity(2001, "topic"), quantity(0, "query", "queries")
    ('1 topic', '2,001 topics', '0 queries')
    """
    return f"{number:,} {what if number == 1 else plural or what + 's'}"
