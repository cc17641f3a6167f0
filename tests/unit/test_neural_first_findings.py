"""What the report's first lines say of the neural-ranking study, from findings that are written out."""

from rankbound.paper.findings import Finding
from rankbound.paper.neural_first_findings import first_findings
from rankbound.paper.neural_results import FACT, FAILS, HOLDS, OPEN

HEADER = ("methods", "ours", "printed")


def test_claims_are_counted_and_those_that_do_not_hold_are_listed_with_their_differences() -> None:
    items = [
        (FAILS, Finding("Counted otherwise, it is 0.6.", "As others count.")),
        (FAILS, Finding("Does not hold: nets win.", "d", HEADER, (("A − B", "−0.1", "+0.2"), ("C − D", "−0.3", "–")))),
        (OPEN, Finding("Not confirmed: trees lose.", "d")),
        (HOLDS, Finding("Holds: convolution helps.", "d", HEADER, (("E − F", "+0.1", "–"),))),
        (FACT, Finding("Table 3 has not run.", "d")),
    ]
    judged, counted = first_findings(items)
    assert judged.headline.endswith(
        "Of 3 claims about its methods, these runs confirm 1, contradict 1 and leave 1 open."
    )
    assert judged.rows == (("nets win", "does not hold", "−0.1, −0.3"), ("trees lose", "not confirmed", "–"))
    assert counted == Finding("Neural ranking. Counted otherwise, it is 0.6.", "As others count.")


def test_facts_alone_are_no_finding_of_the_first_lines() -> None:
    assert list(first_findings([(FACT, Finding("Table 3 has not run.", "d"))])) == []


def test_where_all_claims_hold_none_is_listed() -> None:
    (judged,) = first_findings([(HOLDS, Finding("Holds: convolution helps.", "d"))])
    assert judged.headline.endswith("these runs confirm 1, contradict 0 and leave 0 open.")
    assert judged.detail == ""
    assert judged.rows == ()
