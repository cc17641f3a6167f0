"""Texts of others in messages: nothing that a terminal acts on or hides, and no endless lines."""

import pytest

from rankbound import cli
from rankbound.texts import printable, printable_message, shortened


@pytest.mark.parametrize("text", ["plain", "Grüße 漢字 ≥ 1", "a\N{NO-BREAK SPACE}b", ""])
def test_what_can_be_shown_is_unchanged(text: str) -> None:
    assert printable(text) == text


def test_everything_else_is_escaped() -> None:
    assert printable("a\x1b[2J\r\n\t\u202e\u2028\udcff\0") == r"a\x1b[2J\r\n\t\u202e\u2028\udcff\x00"


def test_long_texts_lose_their_middle() -> None:
    assert shortened("a" * 10, 10) == "a" * 10
    assert shortened("start" + "x" * 1000 + "end..", 10) == "start ... (1000 more characters) ... end.."


def test_a_message_keeps_its_lines() -> None:
    message = printable_message("first\n  second \x1b[0m\n" + "x" * 9000, 100)
    assert message.split("\n")[:2] == ["first", r"  second \x1b[0m"]
    assert len(message) < 200


def test_the_command_line_prints_such_messages(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["evaluate", "a\x1b[2J.txt", "b.txt", "-m", "AP"]) == 2
    told = capsys.readouterr().err
    assert r"a\x1b[2J.txt: " in told
    assert "\x1b" not in told
