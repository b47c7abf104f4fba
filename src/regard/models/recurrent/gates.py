"""What happens inside a GRU or LSTM cell after its products, forward and backward by hand.

torch's cells run a dozen operations for each step and remember them all; here a step is one.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

Row = Float[Tensor, "row hidden"]
Gates = Float[Tensor, "row gates"]


def gru_state(inner: Gates, outer: Gates, state: Row) -> Row:
    """The new state of a GRU from W x + b and U h + c, each with gates r, z, n (Cho et al. 2014).

    h' = (1 - z) n + z h with n = tanh(x_n + r (U h)_n), as in torch.nn.GRU.
    """
    new: Tensor = _GRU.apply(inner, outer, state)  # type: ignore[no-untyped-call]
    return new


def lstm_state(gates: Gates, cell: Row) -> tuple[Row, Row]:
    """The new state and cell of an LSTM from the sums of its gates i, f, g, o (torch.nn.LSTM)."""
    new: tuple[Tensor, Tensor] = _LSTM.apply(gates, cell)  # type: ignore[no-untyped-call]
    return new


class _GRU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inner: Gates, outer: Gates, state: Row) -> Row:
        size = state.shape[1]
        open_ = torch.add(inner[:, : 2 * size], outer[:, : 2 * size]).sigmoid_()
        reset, keep = open_[:, :size], open_[:, size:]
        new = torch.addcmul(inner[:, 2 * size :], reset, outer[:, 2 * size :]).tanh_()
        ctx.save_for_backward(open_, new, outer, state)
        return torch.lerp(new, state, keep)

    @staticmethod
    def backward(ctx: Any, *gradients: Row) -> tuple[Gates, Gates, Row]:
        open_, new, outer, state = ctx.saved_tensors
        (gradient,), size = gradients, state.shape[1]
        reset, keep = open_[:, :size], open_[:, size:]
        to_inner = torch.empty_like(outer)
        kept = gradient * keep
        into_new = to_inner[:, 2 * size :]
        torch.addcmul(gradient - kept, gradient - kept, new * new, value=-1.0, out=into_new)
        to_inner[:, size : 2 * size] = (state - new) * kept * (1.0 - keep)
        to_inner[:, :size] = into_new * outer[:, 2 * size :] * reset * (1.0 - reset)
        to_outer = to_inner.clone()
        to_outer[:, 2 * size :] *= reset
        return to_inner, to_outer, kept


class _LSTM(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gates: Gates, cell: Row) -> tuple[Row, Row]:
        size = cell.shape[1]
        opened = gates.sigmoid()
        seen = gates[:, 2 * size : 3 * size].tanh()
        enter, keep, leave = opened[:, :size], opened[:, size : 2 * size], opened[:, 3 * size :]
        held = torch.addcmul(keep * cell, enter, seen)
        shown = held.tanh()
        ctx.save_for_backward(opened, seen, cell, shown)
        return leave * shown, held

    @staticmethod
    def backward(ctx: Any, *gradients: Row) -> tuple[Gates, Row]:
        opened, seen, cell, shown = ctx.saved_tensors
        (to_state, to_held), size = gradients, cell.shape[1]
        enter, keep, leave = opened[:, :size], opened[:, size : 2 * size], opened[:, 3 * size :]
        inside = to_state * leave
        to_held = to_held + inside - inside * shown * shown
        bent = opened - opened * opened
        to_gates = torch.empty_like(opened)
        to_gates[:, :size] = to_held * seen * bent[:, :size]
        to_gates[:, size : 2 * size] = to_held * cell * bent[:, size : 2 * size]
        to_gates[:, 2 * size : 3 * size] = to_held * enter * (1.0 - seen * seen)
        to_gates[:, 3 * size :] = to_state * shown * bent[:, 3 * size :]
        return to_gates, to_held * keep
