"""The gradient of a context with respect to query, key, value, bias and sink, strip by strip.

The weights are not kept from the forward pass: the backward pass recomputes those of one strip at
a time from the logsumexp (Dao et al. 2022, section 3.1). If the gradient itself is to be
differentiated, as for a Hessian or a gradient penalty, it is computed from all weights at once, by
operations that autograd follows.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import InputError
from regard.kernels.memory import is_wrapped
from regard.kernels.observe.call import Call
from regard.kernels.observe.full_weights import weigh
from regard.kernels.observe.observation import Observation
from regard.kernels.observe.strips import (
    NEVER,
    Band,
    Strip,
    apply_bias_and_mask,
    products,
    strips,
    weights_from_lse,
)
from regard.masks import Area, Bias

Forward = Callable[[], Observation]


def needs_gradient(call: Call) -> bool:
    """True if autograd is on and query, key, value, bias or sink requires a gradient."""
    if not torch.is_grad_enabled():
        return False
    sources = [call.query, call.key, call.value, *bias_tensors(call.scoring.bias)]
    if call.scoring.sink is not None:
        sources.append(call.scoring.sink)
    return any(source.requires_grad for source in sources)


def differentiable(call: Call, forward: Forward) -> Observation:
    """The observation of `forward()`, with a context through which gradients flow."""
    # autograd.Function returns tensors only, so the rest of the observation comes back in a list.
    observed: list[Observation] = []
    biases = bias_tensors(call.scoring.bias)
    if any(map(is_wrapped, (call.query, call.key, call.value, *biases))):
        raise InputError(
            "the gradient of observe expected plain tensors, got some of a transform of "
            "torch.func; use torch.autograd, or torch.func without observe"
        )
    context = _Attention.apply(  # type: ignore[no-untyped-call]
        call, forward, observed, call.query, call.key, call.value, call.scoring.sink, *biases
    )
    return replace(observed[0], context=context)


def bias_tensors(bias: Bias | None) -> list[Tensor]:
    """The tensors within a bias that require gradients."""
    return [] if bias is None else [one for one in bias.tensors if one.requires_grad]


class _Attention(torch.autograd.Function):
    """Attention for autograd: any forward pass, and a backward pass that recomputes weights."""

    @staticmethod
    def forward(
        ctx: Any, call: Call, run: Forward, observed: list[Observation], *sources: Tensor | None
    ) -> Tensor:
        """Run the forward pass, and save what the backward pass needs."""
        observation = run()
        observed.append(observation)
        ctx.call = call
        # The call holds these too, but saving them lets torch notice if one was changed in place.
        ctx.save_for_backward(observation.context, observation.lse, *sources)
        assert observation.context is not None
        return observation.context

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of `sources`; the three arguments before them have none."""
        context, lse, *sources = ctx.saved_tensors
        if torch.is_grad_enabled():  # the caller differentiates the gradient too
            return None, None, None, *_differentiable_gradients(ctx.call, sources, grad)
        return None, None, None, *_Backward(ctx.call, context, lse, grad).run()


def _differentiable_gradients(
    call: Call, sources: list[Tensor | None], grad: Tensor
) -> Iterator[Tensor | None]:
    """The gradients of `sources` as functions of them, through which second derivatives flow.

    Sources may be one tensor, or be computed from one another. An alias of each keeps their
    gradients apart; biases, which are not in `weigh`'s arguments, stay themselves.
    """
    first = [None if source is None else source.view_as(source) for source in sources[:4]]
    query, key, value, sink = first
    assert query is not None
    assert key is not None
    assert value is not None
    weights = weigh(query, key, replace(call.scoring, sink=sink))
    values = value.repeat_interleave(call.group, dim=1).to(weights)
    context = (weights @ values).to(grad)
    aliases = [*first, *sources[4:]]
    followed = [alias for alias in aliases if alias is not None and alias.requires_grad]
    slopes = torch.autograd.grad(context, followed, grad, create_graph=True, allow_unused=True)
    by_alias = {id(alias): slope for alias, slope in zip(followed, slopes, strict=True)}
    return (by_alias.get(id(alias)) for alias in aliases)


class _Backward:
    """One backward pass: a gradient for each source, summed strip by strip."""

    def __init__(self, call: Call, context: Tensor, lse: Tensor, grad: Tensor) -> None:
        self.call, self.lse, self.grad = call, lse, grad
        kind = call.accumulator
        # The softmax's Jacobian subtracts this from every slope of a row.
        self.inner = (grad.to(kind) * context.to(kind)).sum(-1)
        self.query, self.key, self.value = (
            call.zeros(*tensor.shape) for tensor in (call.query, call.key, call.value)
        )
        self.biases = bias_tensors(call.scoring.bias)
        self.bias_sums = [torch.zeros_like(tensor) for tensor in self.biases]

    def run(self) -> Iterator[Tensor | None]:
        """The gradients of query, key, value, sink and the tensors of the bias, in this order."""
        bias = _BiasGradient(self.call, self.biases, self.bias_sums)
        for strip in strips(self.call):
            if strip.band.columns:
                self.add_strip(strip, bias)
        bias.flush()
        kind = self.call.query.dtype
        yield from (total.to(kind) for total in (self.query, self.key, self.value))
        yield self.sink_gradient()
        yield from self.bias_sums

    def add_strip(self, strip: Strip, bias: "_BiasGradient") -> None:
        """Add what one strip contributes to every gradient."""
        call, kind = self.call, self.call.accumulator
        scores = products(call, strip)
        cap = call.scoring.softcap
        # The derivative of c tanh(s / c) is 1 - tanh^2, and `scores` is capped already.
        cap_slope = None if cap is None else 1 - (scores / cap).square_()
        apply_bias_and_mask(call, strip, scores)
        weights = weights_from_lse(scores, self.lse[strip.row_index])
        grouped = (len(strip.key_heads), -1, weights.shape[2])
        rows = call.group * weights.shape[1]
        grad = self.grad[strip.row_index].to(kind).reshape(grouped[0], rows, self.grad.shape[3])
        self.value[strip.key_index] += weights.view(grouped).mT @ grad
        slope = (grad @ call.value[strip.key_index].to(kind).mT).view(weights.shape)
        slope.sub_(self.inner[strip.row_index][..., None]).mul_(weights)
        bias.add(strip, slope)
        if cap_slope is not None:
            slope *= cap_slope
        slope *= call.scale
        query = call.query[strip.row_index].to(kind)
        slope_rows = slope.view(grouped)
        self.query[strip.row_index] += (slope_rows @ call.key[strip.key_index].to(kind)).view(
            query.shape
        )
        own = query.reshape(grouped[0], rows, query.shape[2])
        self.key[strip.key_index] += slope_rows.mT @ own

    def sink_gradient(self) -> Tensor | None:
        """The gradient of the sink's logits: a sink has no value, it only takes weight."""
        sink = self.call.scoring.sink
        if sink is None or not sink.requires_grad:
            return None
        level = self.lse.masked_fill(self.lse == NEVER, -NEVER)
        share = (sink.to(level)[:, None] - level).exp()
        return -(share * self.inner).sum((0, 2)).to(sink.dtype)


class _BiasGradient:
    """The gradient of the scores, summed over one band and then passed back through the bias."""

    def __init__(self, call: Call, tensors: list[Tensor], sums: list[Tensor]) -> None:
        self.call, self.tensors, self.sums = call, tensors, sums
        self.band: Band | None = None
        self.gathered: Tensor | None = None

    def add(self, strip: Strip, slope: Float[Tensor, "head query key"]) -> None:
        """Add the slope of a strip's scores; strips of one band follow each other."""
        if not self.tensors:
            return
        if strip.band is not self.band:
            self.flush()
            self.band = strip.band
            assert strip.band.added is not None
            self.gathered = torch.zeros_like(strip.band.added)
        assert self.gathered is not None
        own = strip.of(self.gathered)
        own += slope.sum_to_size(own.shape)

    def flush(self) -> None:
        """Pass the sum of the last band through the bias to the tensors that it is made of."""
        if self.band is None or self.gathered is None:
            return
        bias, scoring = self.call.scoring.bias, self.call.scoring
        assert isinstance(bias, Bias)
        area = Area(self.band.rows, self.band.columns, scoring.offset, self.call.query.device)
        with torch.enable_grad():
            cut = bias.cut(area)
        slopes = torch.autograd.grad(cut, self.tensors, self.gathered.to(cut), allow_unused=True)
        for total, slope in zip(self.sums, slopes, strict=True):
            if slope is not None:
                total += slope
