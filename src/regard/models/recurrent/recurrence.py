"""The decoder's recurrence: all steps at once where nothing is fed back, else one by one."""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.models.recurrent.unrolled_gradients import Repeated

Row = Float[Tensor, "row hidden"]


class Hidden(NamedTuple):
    """What the decoder remembers: a state of each layer, an LSTM's cells, and what is fed back."""

    state: Float[Tensor, "layer row hidden"]
    cell: Float[Tensor, "layer row hidden"] | None = None
    fed: Float[Tensor, "row width"] | None = None

    def select(self, rows: Int[Tensor, " row"]) -> "Hidden":
        """These rows, in this order."""
        cell = None if self.cell is None else self.cell.index_select(1, rows)
        fed = None if self.fed is None else self.fed.index_select(0, rows)
        return Hidden(self.state.index_select(1, rows), cell, fed)


class Layers(nn.Module):
    """GRU or LSTM layers whose first takes [x; fed], of widths `dim` and `fed`."""

    def __init__(self, cell: str, sizes: tuple[int, int, int], layers: int, dropout: float) -> None:
        super().__init__()
        self.dim, fed, self.hidden = sizes
        kind = nn.GRU if cell == "gru" else nn.LSTM
        between = dropout if layers > 1 else 0.0
        self.rnn = kind(self.dim + fed, self.hidden, layers, batch_first=True, dropout=between)

    def run(
        self, inputs: Float[Tensor, "row query dim"], hidden: Hidden
    ) -> tuple[Float[Tensor, "row query hidden"], Hidden]:
        """The top layer's states over all inputs at once."""
        if hidden.cell is None:
            states, last = self.rnn(inputs, hidden.state)
            return states, hidden._replace(state=last)
        states, (last, cell) = self.rnn(inputs, (hidden.state, hidden.cell))
        return states, Hidden(last, cell, hidden.fed)

    def steps(self, inputs: Float[Tensor, "row query dim"], hidden: Hidden) -> "Steps":
        """The same inputs to be taken one by one."""
        return Steps(self, inputs, hidden)


class Steps:
    """A run of the layers that goes step by step; what the inputs alone decide is made at once."""

    def __init__(self, layers: Layers, inputs: Tensor, hidden: Hidden) -> None:
        self.rnn, self.width = layers.rnn, layers.dim
        weights = [dict(zip("ihbc", layer, strict=True)) for layer in self.rnn.all_weights]
        self.weights = weights
        first = weights[0]
        bias = first["b"] if self.rnn.mode == "GRU" else first["b"] + first["c"]
        products = F.linear(inputs.transpose(0, 1), first["i"][:, : self.width], bias)
        self.products = products.unbind(0)
        self.fed = Repeated(first["i"][:, self.width :])
        biased = self.rnn.mode == "GRU"
        self.outer = [Repeated(each["h"], each["c"] if biased else None) for each in weights]
        self.state = list(hidden.state.unbind(0))
        self.cell = [] if hidden.cell is None else list(hidden.cell.unbind(0))

    @property
    def top(self) -> Row:
        """The state of the top layer."""
        return self.state[-1]

    def advance(self, step: int, fed: Float[Tensor, "row width"]) -> Row:
        """The top layer's state after one more input, joined with what is fed to it."""
        products = self.fed(fed, self.products[step])
        for layer, weight in enumerate(self.weights):
            if layer:
                below = F.dropout(self.state[layer - 1], self.rnn.dropout, self.rnn.training)
                bias = weight["b"] if not self.cell else weight["b"] + weight["c"]
                products = F.linear(below, weight["i"], bias)
            self._update(layer, products)
        return self.top

    def hidden(self, fed: Tensor | None = None) -> Hidden:
        """What to remember after the last step."""
        return Hidden(torch.stack(self.state), torch.stack(self.cell) if self.cell else None, fed)

    def _update(self, layer: int, products: Tensor) -> None:
        state, outer = self.state[layer], self.outer[layer]
        if not self.cell:
            self.state[layer] = gru_state(products, outer(state), state)
            return
        gates = outer(state, products)
        self.state[layer], self.cell[layer] = lstm_state(gates, self.cell[layer])


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
