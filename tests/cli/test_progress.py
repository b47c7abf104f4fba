import pytest

from regard.cli.progress import StatusLine, progress_bar


def test_the_parts_of_a_work_are_counted_one_after_the_other():
    with progress_bar(7, quiet=True) as bar:
        bar.after(3)(2)
        (task,) = bar.progress.tasks
        assert (task.completed, task.total) == (5, 7)


def test_quick_work_shows_no_bar():
    with progress_bar(7, quiet=False) as bar:
        bar.show(7)
        assert not bar.progress.live.is_started


@pytest.fixture
def late(monkeypatch):
    clock = iter([0.0, *(3.0 + n for n in range(99))])
    monkeypatch.setattr("regard.cli.progress.monotonic", lambda: next(clock))


@pytest.mark.parametrize("terminal", [True, False])
def test_what_takes_long_is_told_where_there_is_a_terminal(late, capsys, monkeypatch, terminal):
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    waiting = StatusLine()
    waiting.show("check 3 of 20")
    waiting.clear()
    assert ("check 3 of 20" in capsys.readouterr().err) is terminal


def test_what_is_quick_or_quiet_is_not_told(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    StatusLine().show("check 3 of 20")
    StatusLine().clear()
    assert capsys.readouterr().err == ""
