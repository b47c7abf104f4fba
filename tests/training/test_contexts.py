import signal

import pytest

from regard.training import contexts
from regard.training.contexts import deferred_interrupts


def interrupt_at(times, monkeypatch):
    """Press Ctrl-C at these times, and return the signals that were recorded."""
    signals, clock = [], [0.0]
    monkeypatch.setattr(contexts.time, "monotonic", lambda: clock[0])
    with deferred_interrupts(signals):
        for clock[0] in times:
            signal.raise_signal(signal.SIGINT)
    return signals


def test_one_ctrl_c_that_torchrun_passes_on_a_second_time_is_one(monkeypatch):
    assert set(interrupt_at([100.0, 100.2], monkeypatch)) == {signal.SIGINT}


def test_a_second_ctrl_c_raises_at_once(monkeypatch):
    with pytest.raises(KeyboardInterrupt):
        interrupt_at([100.0, 101.5], monkeypatch)
