"""A signal that asks for an end is told as that signal, whatever the code that it reaches makes of it."""

import signal

import pytest

from rankbound import cli


def swallowed() -> None:
    """Raise another exception for the handler's, as compiled code does (an import of pandas)."""
    handler = signal.getsignal(signal.SIGTERM)
    assert callable(handler)
    try:
        handler(signal.SIGTERM, None)
    except BaseException:
        raise AttributeError("partially initialised") from None


def test_a_signal_that_turns_into_another_error_is_still_told_as_the_signal() -> None:
    with pytest.raises(cli._Signal) as raised, cli._ended_by_signals():
        swallowed()
    assert raised.value.number == signal.SIGTERM


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(AttributeError), cli._ended_by_signals():
        raise AttributeError("no signal came")
