"""A signal that asks for an end is told as that signal, whatever the code that it reaches makes of it."""

import signal
import sys
import time

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


class Dying:
    """Gets a signal while its destructor runs, whose exceptions Python drops."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)


def test_a_signal_in_a_destructor_is_sent_again(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        dying = Dying()
        del dying
        time.sleep(5)

    with pytest.raises(cli._Signal) as raised, cli._ended_by_signals():
        work()
    assert raised.value.number == signal.SIGTERM
    assert capsys.readouterr().err == ""


def test_other_errors_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def __del__(self) -> None:
            raise AttributeError("no signal came")

    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda ignored: told.append(ignored.exc_type))

    def work() -> None:
        failing = Failing()
        del failing
        raise KeyError("no signal came")

    with pytest.raises(KeyError), cli._ended_by_signals():
        work()
    assert told == [AttributeError]
