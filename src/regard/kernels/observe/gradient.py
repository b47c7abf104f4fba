"""The derivative of a context with respect to all that made it, recomputed in strips."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.kernels.observe.call import Call
from regard.kernels.observe.observation import Observation
from regard.kernels.observe.strips import NEVER, Band, Strip, products, settle, shares, strips
from regard.masks import Area, Bias
from regard.masks.value import Value

Forward = Callable[[], Observation]


def needs_gradient(call: Call) -> bool:
    """Whether something that made the context is to be differentiated by."""
    if not torch.is_grad_enabled():
        return False
    sources = [call.query, call.key, call.value, *bias_tensors(call.scoring.bias)]
    if call.scoring.sink is not None:
        sources.append(call.scoring.sink)
    return any(source.requires_grad for source in sources)


def differentiable(call: Call, forward: Forward) -> Observation:
    """The observation, with a context that gradients flow through.

    Nothing is computed or copied beforehand: the backward pass starts from the logsumexp.
    """
    found: list[Observation] = []
    added = bias_tensors(call.scoring.bias)
    context = _Attention.apply(  # type: ignore[no-untyped-call]
        call, forward, found, call.query, call.key, call.value, call.scoring.sink, *added
    )
    return replace(found[0], context=context)


def bias_tensors(part: Any) -> list[Tensor]:
    """The tensors within a bias that require gradients."""
    if isinstance(part, Tensor):
        return [part] if part.requires_grad else []
    if isinstance(part, Value):
        part = tuple(part.fields().values())
    return [found for one in part for found in bias_tensors(one)] if isinstance(part, tuple) else []


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, call: Call, run: Forward, found: list[Observation], *sources: Tensor | None
    ) -> Tensor:
        seen = run()
        found.append(seen)
        ctx.call = call
        # The call holds these too; saving them makes torch notice if one is changed in place.
        ctx.save_for_backward(seen.context, seen.lse, *sources)
        assert seen.context is not None
        return seen.context

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        context, lse, *_ = ctx.saved_tensors
        return None, None, None, *_Backward(ctx.call, context, lse, grad).run()


class _Backward:
    """One backward pass: sums for each source, filled strip by strip."""

    def __init__(self, call: Call, context: Tensor, lse: Tensor, grad: Tensor) -> None:
        self.call, self.lse, self.grad = call, lse, grad
        kind = call.accumulator
        self.inner = (grad.to(kind) * context.to(kind)).sum(-1)
        self.query, self.key, self.value = (
            call.zeros(*tensor.shape) for tensor in (call.query, call.key, call.value)
        )
        self.added = bias_tensors(call.scoring.bias)
        self.added_sums = [torch.zeros_like(tensor) for tensor in self.added]

    def run(self) -> Iterator[Tensor | None]:
        bias = _BiasGradient(self.call, self.added, self.added_sums)
        for strip in strips(self.call):
            if strip.band.columns:
                self.descend(strip, bias)
        bias.flush()
        kind = self.call.query.dtype
        yield from (total.to(kind) for total in (self.query, self.key, self.value))
        yield self.sink()
        yield from self.added_sums

    def descend(self, strip: Strip, bias: "_BiasGradient") -> None:
        """Add the strip's share to every sum."""
        call, kind = self.call, self.call.accumulator
        scores = products(call, strip)
        cap = call.scoring.softcap
        bend = None if cap is None else 1 - (scores / cap).square_()
        settle(call, strip, scores)
        weights = shares(scores, self.lse[strip.place])
        shared = (len(strip.key_heads), -1, weights.shape[2])
        grad = self.grad[strip.place].to(kind).reshape(shared[0], -1, self.grad.shape[3])
        self.value[strip.sources] += weights.view(shared).mT @ grad
        slope = (grad @ call.value[strip.sources].to(kind).mT).view(weights.shape)
        slope.sub_(self.inner[strip.place][..., None]).mul_(weights)
        bias.add(strip, slope)
        if bend is not None:
            slope *= bend
        slope *= call.scale
        query = call.query[strip.place].to(kind)
        few = slope.view(shared)
        self.query[strip.place] += (few @ call.key[strip.sources].to(kind)).view(query.shape)
        self.key[strip.sources] += few.mT @ query.reshape(shared[0], -1, query.shape[2])

    def sink(self) -> Tensor | None:
        """A sink has no value: all it does is to take a share from the others."""
        sink = self.call.scoring.sink
        if sink is None or not sink.requires_grad:
            return None
        level = self.lse.masked_fill(self.lse == NEVER, -NEVER)
        share = (sink.to(level)[:, None] - level).exp()
        return -(share * self.inner).sum((0, 2)).to(sink.dtype)


class _BiasGradient:
    """The slope of the scores, gathered for one band and then sent through the bias's own form."""

    def __init__(self, call: Call, tensors: list[Tensor], sums: list[Tensor]) -> None:
        self.call, self.tensors, self.sums = call, tensors, sums
        self.band: Band | None = None
        self.gathered: Tensor | None = None

    def add(self, strip: Strip, slope: Float[Tensor, "head query key"]) -> None:
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
