"""The decoder's GRU or LSTM layers, run over all steps at once or step by step.

If no output of a step is an input of the next one, torch.nn.GRU or LSTM runs all steps at once
(`Layers.run`). With attention before the update, or with input feeding, each step has to wait for
the one before (`Layers.steps`). The cell update is then an autograd function of our own, because
torch's cells would record a dozen operations for each step.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.models.recurrent.unrolled_gradients import UnrolledLinear

Row = Float[Tensor, "row hidden"]
Gates = Float[Tensor, "row gates"]


class Hidden(NamedTuple):
    """The recurrent state: the states of all layers, LSTM cell states, and the vector fed back."""

    state: Float[Tensor, "layer row hidden"]
    cell: Float[Tensor, "layer row hidden"] | None = None
    fed: Float[Tensor, "row width"] | None = None

    def select(self, rows: Int[Tensor, " row"]) -> "Hidden":
        """The state of these rows in this order."""
        cell = None if self.cell is None else self.cell.index_select(1, rows)
        fed = None if self.fed is None else self.fed.index_select(0, rows)
        return Hidden(self.state.index_select(1, rows), cell, fed)


class Layers(nn.Module):
    """GRU or LSTM layers; the input of the first is [x; fed].

    `sizes` are the widths of x, of the vector that is fed back, and of the hidden state.
    """

    def __init__(self, cell: str, sizes: tuple[int, int, int], layers: int, dropout: float) -> None:
        super().__init__()
        self.dim, fed, self.hidden = sizes
        kind = nn.GRU if cell == "gru" else nn.LSTM
        between = dropout if layers > 1 else 0.0
        self.rnn = kind(self.dim + fed, self.hidden, layers, batch_first=True, dropout=between)

    def run(
        self, inputs: Float[Tensor, "row query dim"], hidden: Hidden
    ) -> tuple[Float[Tensor, "row query hidden"], Hidden]:
        """The top layer's states after each input, computed for all steps at once."""
        if hidden.cell is None:
            states, last = self.rnn(inputs, hidden.state)
            return states, hidden._replace(state=last)
        states, (last, cell) = self.rnn(inputs, (hidden.state, hidden.cell))
        return states, Hidden(last, cell, hidden.fed)

    def steps(self, inputs: Float[Tensor, "row query dim"], hidden: Hidden) -> "Steps":
        """A run over the same inputs step by step, with a vector fed back at each step."""
        return Steps(self, inputs, hidden)


class Steps:
    """A run of the layers step by step.

    The products of the first layer's inputs with its matrix do not depend on the recurrence and are
    computed for all steps at once in the constructor.
    """

    def __init__(self, layers: Layers, inputs: Tensor, hidden: Hidden) -> None:
        self.rnn, self.width = layers.rnn, layers.dim
        # Of each layer: i and h are the matrices of input and hidden state, b and c their biases.
        weights = [dict(zip("ihbc", layer, strict=True)) for layer in self.rnn.all_weights]
        self.weights = weights
        first = weights[0]
        bias = first["b"] if self.rnn.mode == "GRU" else first["b"] + first["c"]
        products = F.linear(inputs.transpose(0, 1), first["i"][:, : self.width], bias)
        self.products = products.unbind(0)
        self.fed = UnrolledLinear(first["i"][:, self.width :])
        # A GRU multiplies U h + c by its reset gate, so that c cannot be added to the input's bias.
        biased = self.rnn.mode == "GRU"
        self.recurrent = [UnrolledLinear(w["h"], w["c"] if biased else None) for w in weights]
        self.state = list(hidden.state.unbind(0))
        self.cell = [] if hidden.cell is None else list(hidden.cell.unbind(0))

    @property
    def top(self) -> Row:
        """The state of the top layer."""
        return self.state[-1]

    def advance(self, step: int, fed: Float[Tensor, "row width"]) -> Row:
        """The top layer's state after the input [x; fed] of this step."""
        products = self.fed(fed, self.products[step])
        for layer, weight in enumerate(self.weights):
            if layer:
                below = F.dropout(self.state[layer - 1], self.rnn.dropout, self.rnn.training)
                bias = weight["b"] if not self.cell else weight["b"] + weight["c"]
                products = F.linear(below, weight["i"], bias)
            self._update(layer, products)
        return self.top

    def hidden(self, fed: Tensor | None = None) -> Hidden:
        """The recurrent state after the last step."""
        return Hidden(torch.stack(self.state), torch.stack(self.cell) if self.cell else None, fed)

    def _update(self, layer: int, products: Tensor) -> None:
        """Replace the state of a layer, given the product of its input with its matrix."""
        state, recurrent = self.state[layer], self.recurrent[layer]
        if not self.cell:
            self.state[layer] = gru_state(products, recurrent(state), state)
            return
        gates = recurrent(state, products)
        self.state[layer], self.cell[layer] = lstm_state(gates, self.cell[layer])


def gru_state(input_gates: Gates, hidden_gates: Gates, state: Row) -> Row:
    """The new state of a GRU from W x + b and U h + c, each with r, z, n (Cho et al. 2014).

    h' = (1 - z) n + z h with n = tanh(x_n + r (U h)_n), as in torch.nn.GRU.
    """
    new: Tensor = _GRU.apply(input_gates, hidden_gates, state)  # type: ignore[no-untyped-call]
    return new


def lstm_state(gates: Gates, cell: Row) -> tuple[Row, Row]:
    """The new state and cell of an LSTM from the sums of its gates i, f, g, o (torch.nn.LSTM)."""
    new: tuple[Tensor, Tensor] = _LSTM.apply(gates, cell)  # type: ignore[no-untyped-call]
    return new


class _GRU(torch.autograd.Function):
    """The GRU update as one operation; the gates are named as in `gru_state`."""

    @staticmethod
    def forward(ctx: Any, input_gates: Gates, hidden_gates: Gates, state: Row) -> Row:
        size = state.shape[1]
        reset_update = torch.add(input_gates[:, : 2 * size], hidden_gates[:, : 2 * size]).sigmoid_()
        reset, update = reset_update[:, :size], reset_update[:, size:]
        new = torch.addcmul(input_gates[:, 2 * size :], reset, hidden_gates[:, 2 * size :]).tanh_()
        ctx.save_for_backward(reset_update, new, hidden_gates, state)
        return torch.lerp(new, state, update)

    @staticmethod
    def backward(ctx: Any, *gradients: Row) -> tuple[Gates, Gates, Row]:
        reset_update, new, hidden_gates, state = ctx.saved_tensors
        (gradient,), size = gradients, state.shape[1]
        # With h' = n + z (h - n): dh'/dn = 1 - z, dh'/dz = h - n; then through tanh and sigmoid.
        reset, update = reset_update[:, :size], reset_update[:, size:]
        grad_input = torch.empty_like(hidden_gates)
        grad_state = gradient * update
        grad_new = grad_input[:, 2 * size :]
        into_new = gradient - grad_state  # the share 1 - z of the gradient
        torch.addcmul(into_new, into_new, new * new, value=-1.0, out=grad_new)
        grad_input[:, size : 2 * size] = (state - new) * grad_state * (1.0 - update)
        grad_input[:, :size] = grad_new * hidden_gates[:, 2 * size :] * reset * (1.0 - reset)
        grad_hidden = grad_input.clone()
        grad_hidden[:, 2 * size :] *= reset
        return grad_input, grad_hidden, grad_state


class _LSTM(torch.autograd.Function):
    """The LSTM update as one operation: c' = f c + i g and h' = o tanh(c')."""

    @staticmethod
    def forward(ctx: Any, gates: Gates, cell: Row) -> tuple[Row, Row]:
        size = cell.shape[1]
        sigmoids = gates.sigmoid()
        g = gates[:, 2 * size : 3 * size].tanh()
        i, f, o = sigmoids[:, :size], sigmoids[:, size : 2 * size], sigmoids[:, 3 * size :]
        new_cell = torch.addcmul(f * cell, i, g)
        tanh_cell = new_cell.tanh()
        ctx.save_for_backward(sigmoids, g, cell, tanh_cell)
        return o * tanh_cell, new_cell

    @staticmethod
    def backward(ctx: Any, *gradients: Row) -> tuple[Gates, Row]:
        sigmoids, g, cell, tanh_cell = ctx.saved_tensors
        (grad_state, grad_cell), size = gradients, cell.shape[1]
        i, f, o = sigmoids[:, :size], sigmoids[:, size : 2 * size], sigmoids[:, 3 * size :]
        through_tanh = grad_state * o
        grad_cell = grad_cell + through_tanh - through_tanh * tanh_cell * tanh_cell
        slope = sigmoids - sigmoids * sigmoids
        grad_gates = torch.empty_like(sigmoids)
        grad_gates[:, :size] = grad_cell * g * slope[:, :size]
        grad_gates[:, size : 2 * size] = grad_cell * cell * slope[:, size : 2 * size]
        grad_gates[:, 2 * size : 3 * size] = grad_cell * i * (1.0 - g * g)
        grad_gates[:, 3 * size :] = grad_state * tanh_cell * slope[:, 3 * size :]
        return grad_gates, grad_cell * f
