import pytest
import torch
from torch import nn

from regard.models.recurrent.recurrence import gru_state, lstm_state

ROWS, DIM, HIDDEN = 3, 5, 7


def test_a_gru_step_is_that_of_torch():
    cell = nn.GRUCell(DIM, HIDDEN).double()
    x, state = (torch.randn(ROWS, n, dtype=torch.float64) for n in (DIM, HIDDEN))
    inner = nn.functional.linear(x, cell.weight_ih, cell.bias_ih)
    outer = nn.functional.linear(state, cell.weight_hh, cell.bias_hh)
    torch.testing.assert_close(gru_state(inner, outer, state), cell(x, state))


def test_an_lstm_step_is_that_of_torch():
    cell = nn.LSTMCell(DIM, HIDDEN).double()
    x, *both = (torch.randn(ROWS, n, dtype=torch.float64) for n in (DIM, HIDDEN, HIDDEN))
    gates = nn.functional.linear(x, cell.weight_ih, cell.bias_ih)
    gates = gates + nn.functional.linear(both[0], cell.weight_hh, cell.bias_hh)
    torch.testing.assert_close(lstm_state(gates, both[1]), cell(x, tuple(both)))


@pytest.mark.parametrize(
    ("step", "sizes"), [(gru_state, (21, 21, 7)), (lstm_state, (28, 7))], ids=["gru", "lstm"]
)
def test_gradients_match_finite_differences(step, sizes):
    inputs = [torch.randn(ROWS, n, dtype=torch.float64, requires_grad=True) for n in sizes]
    assert torch.autograd.gradcheck(step, inputs)
