"""Splits of judged lists into training, validation and test, which have no topic, or no item of one, in common."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

from rankbound.errors import DataError
from rankbound.io.judged import JudgedLists
from rankbound.texts import quoted


@dataclass(frozen=True, kw_only=True)
class Split:
    """Judged lists to train on, to select the epoch on, and to test on.

    Args:
        training: the lists to train on.
        validation: those that select the epoch; by default, a share of the training lists is held out.
        test: the lists to score and evaluate.
        name: how messages call the split, such as the names of its files.

    >>> split = rb.Split(training=rb.read_lists("train.csv"), test=rb.read_lists("test.csv"))  # doctest: +SKIP
    """

    training: JudgedLists
    validation: JudgedLists | None = None
    test: JudgedLists
    name: str = ""

    @property
    def parts(self) -> Mapping[str, JudgedLists | None]:
        """The three parts by name."""
        return {"training": self.training, "validation": self.validation, "test": self.test}


def require_apart(parts: Mapping[str, JudgedLists | None], *, by_item: bool) -> None:
    """Raise DataError for a topic that is in two of the named parts, or, `by_item`, for a topic's item in two."""
    if by_item:
        from rankbound.io.table_columns import rows_of

    there = {name: lists for name, lists in parts.items() if lists is not None}
    for (a, first), (b, second) in combinations(there.items(), 2):
        if by_item:
            rows = rows_of(second).join(rows_of(first), on=["topic", "item"], how="semi", maintain_order="left")
            shared = "item {1} of topic {0}".format(*map(quoted, rows.row(0))) if len(rows) else ""
        else:
            known = set(first.topics)
            shared = next((f"topic {quoted(topic)}" for topic in second.topics if topic in known), "")
        if shared:
            where = "each item of a topic" if by_item else "each topic"
            raise DataError(
                f"{shared} is in the {a} and in the {b} lists; expected {where} in one of them: remove it from one"
                + ("" if by_item else ", or give different topics different names")
            )
