"""A bidirectional GRU layer as one operation: for training, where torch.nn.GRU is slow on a CPU.

torch.nn.GRU records every step of both directions for the backward pass. Over padded texts each
step also makes a gradient as large as the whole input, so that the time grows with the square of
the length. Here both directions run side by side in one loop, the backward pass is written by hand,
and the gradient of the recurrent matrices is one product over all steps. The results are those of
torch.nn.GRU with a packed sequence, to rounding.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.overrides import has_torch_function

__all__ = ["run_both_directions", "supports_both_directions"]

Steps = Float[Tensor, "step direction row gates"]


def supports_both_directions(rnn: nn.Module, embedded: Tensor) -> bool:
    """True in training on a CPU, for one layer of a GRU that nothing watches."""
    return (
        isinstance(rnn, nn.GRU)
        and rnn.num_layers == 1
        and rnn.training
        and torch.is_grad_enabled()
        and embedded.device.type == "cpu"
        and embedded.dtype == rnn.weight_ih_l0.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and not has_torch_function((embedded, *rnn.parameters()))
    )


def run_both_directions(
    rnn: nn.GRU, embedded: Float[Tensor, "batch key dim"], real: Bool[Tensor, "batch key"]
) -> tuple[Float[Tensor, "batch key key_dim"], Float[Tensor, "batch key_dim"]]:
    """The states [forward; backward] of tokens before padding on the right, and the last of each.

    The states of padding are zeros.
    """
    lengths, steps = real.sum(dim=1), embedded.shape[1]
    place = torch.arange(steps, device=embedded.device)
    # each row read from its last real token to its first; padding stays where it is
    backward = torch.where(real, lengths[:, None] - 1 - place, place)
    inputs = torch.stack([embedded, _reorder(embedded, backward)]).transpose(1, 2)
    weights, recurrent, biases, recurrent_biases = (
        torch.stack([getattr(rnn, f"{name}_l0"), getattr(rnn, f"{name}_l0_reverse")])
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    flat = inputs.flatten(1, 2)
    products = torch.baddbmm(biases[:, None], flat, weights.mT)
    products = products.view(2, steps, len(embedded), -1).transpose(0, 1)
    states: Tensor = _Scan.apply(products, recurrent, recurrent_biases)  # type: ignore[no-untyped-call]
    forward, reversed_states = states.permute(1, 2, 0, 3)
    both = torch.cat([forward, _reorder(reversed_states, backward)], dim=-1)
    rows = torch.arange(len(embedded), device=embedded.device)
    last = torch.cat([forward[rows, lengths - 1], reversed_states[rows, lengths - 1]], dim=-1)
    return both * real[:, :, None], last


def _reorder(
    states: Float[Tensor, "batch key dim"], order: Int[Tensor, "batch key"]
) -> Float[Tensor, "batch key dim"]:
    """The states of each row in another order."""
    return states.gather(1, order[:, :, None].expand_as(states))


class _Scan(torch.autograd.Function):
    """The states of all steps, from the products W x + b of all inputs and the matrices U and c.

    The gates are r, z and n, as in `regard.models.recurrent.recurrence.gru_state`.
    """

    @staticmethod
    def forward(
        ctx: Any,
        products: Steps,
        matrices: Float[Tensor, "direction gates hidden"],
        biases: Float[Tensor, "direction gates"],
    ) -> Float[Tensor, "step direction row hidden"]:
        count, directions, rows, _ = products.shape
        size = matrices.shape[2]
        states = products.new_empty(count + 1, directions, rows, size)
        states[0] = 0.0
        reset_update = products.new_empty(count, directions, rows, 2 * size)
        new, hidden_new = torch.empty_like(states[1:]), torch.empty_like(states[1:])
        transposed, bias = matrices.mT.contiguous(), biases[:, None]
        for step in range(count):
            state, product = states[step], products[step]
            gates = torch.baddbmm(bias, state, transposed)
            both, own = reset_update[step], new[step]
            torch.add(product[..., : 2 * size], gates[..., : 2 * size], out=both).sigmoid_()
            hidden_new[step] = gates[..., 2 * size :]
            torch.addcmul(product[..., 2 * size :], both[..., :size], hidden_new[step], out=own)
            torch.lerp(own.tanh_(), state, both[..., size:], out=states[step + 1])
        ctx.save_for_backward(matrices, states, reset_update, new, hidden_new)
        return states[1:]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        matrices, states, reset_update, new, hidden_new = ctx.saved_tensors
        size = matrices.shape[2]
        # dh'/dn and dh'/dz through tanh and sigmoid, for all steps at once; see recurrence._GRU
        reset, update = reset_update[..., :size], reset_update[..., size:]
        to_new = (1.0 - update) * (1.0 - new * new)
        to_update = (states[:-1] - new) * update * (1.0 - update)
        to_reset = hidden_new * reset * (1.0 - reset)
        grad_products = gradient.new_empty(*gradient.shape[:-1], 3 * size)
        grad_gates = torch.empty_like(grad_products)
        carried = torch.zeros_like(gradient[0])
        for step in range(len(gradient) - 1, -1, -1):
            grad_state = carried + gradient[step]
            own, gates = grad_products[step], grad_gates[step]
            grad_new = torch.mul(grad_state, to_new[step], out=own[..., 2 * size :])
            torch.mul(grad_state, to_update[step], out=own[..., size : 2 * size])
            torch.mul(grad_new, to_reset[step], out=own[..., :size])
            gates[..., : 2 * size] = own[..., : 2 * size]
            torch.mul(grad_new, reset[step], out=gates[..., 2 * size :])
            carried = torch.baddbmm(grad_state * update[step], gates, matrices)
        by_direction = grad_gates.transpose(0, 1).flatten(1, 2)
        before = states[:-1].transpose(0, 1).flatten(1, 2)
        return grad_products, by_direction.mT @ before, by_direction.sum(dim=1)
