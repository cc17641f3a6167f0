"""What the report's first lines say of the neural-ranking study, from findings that are written out."""

from rankbound.paper.findings import Finding
from rankbound.paper.neural_first_findings import first_findings
from rankbound.paper.neural_verdicts import FACT, FAILS, HOLDS, OPEN, Item, judged


def test_claims_are_counted_and_those_that_do_not_hold_are_listed_with_their_differences() -> None:
    items = [
        Item(FAILS, Finding("Counted otherwise, it is 0.6.", "As others count.")),
        judged(FAILS, "nets win", "d", differences=["−0.1", "−0.3"]),
        judged(OPEN, "trees lose", "d"),
        judged(HOLDS, "convolution helps", "d", differences=["+0.1"]),
        Item(FACT, Finding("Table 3 has not run.", "d")),
    ]
    first, counted = first_findings(items)
    assert first.headline.endswith(
        "Of 3 claims about its methods, these runs confirm 1, contradict 1 and leave 1 open."
    )
    assert first.rows == (("nets win", "does not hold", "−0.1, −0.3"), ("trees lose", "not confirmed", "–"))
    assert counted == Finding("Neural ranking. Counted otherwise, it is 0.6.", "As others count.")


def test_facts_alone_are_no_finding_of_the_first_lines() -> None:
    assert list(first_findings([Item(FACT, Finding("Table 3 has not run.", "d"))])) == []


def test_where_all_claims_hold_none_is_listed() -> None:
    (first,) = first_findings([judged(HOLDS, "convolution helps", "d")])
    assert first.headline.endswith("these runs confirm 1, contradict 0 and leave 0 open.")
    assert first.detail == ""
    assert first.rows == ()
