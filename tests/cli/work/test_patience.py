import pytest

from regard.cli.work import patience
from regard.cli.work.patience import Patience


@pytest.fixture
def late(monkeypatch):
    clock = iter([0.0, *(3.0 + n for n in range(99))])
    monkeypatch.setattr(patience, "monotonic", lambda: next(clock))


@pytest.mark.parametrize("terminal", [True, False])
def test_what_takes_long_is_told_where_there_is_a_terminal(late, capsys, monkeypatch, terminal):
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    waiting = Patience()
    waiting.say("check 3 of 20")
    waiting.clear()
    assert ("check 3 of 20" in capsys.readouterr().err) is terminal


def test_what_is_quick_or_quiet_is_not_told(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    Patience().say("check 3 of 20")
    Patience().clear()
    assert capsys.readouterr().err == ""
