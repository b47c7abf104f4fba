"""What follows the data: marks passed on after every function, attention by hand recognised."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import Tensor, nn
from torch.jit import ScriptModule

from regard.kernels.observe.taps import Tapped
from regard.tracing.assembly.decoding_runs import comparable
from regard.tracing.dataflow import origins as flow
from regard.tracing.dataflow.checkpoint_recompute import is_backward
from regard.tracing.dataflow.gaps import REARRANGED, Gaps, opaque_reason, scripted_reason
from regard.tracing.dataflow.multiplying import mixes, multiplied
from regard.tracing.dataflow.origins import (
    UNKNOWN,
    Mark,
    Mixing,
    Pair,
    Weighing,
    mark_of,
    plain,
    put,
    tensors,
)
from regard.tracing.dataflow.products import Product, product_of
from regard.tracing.dataflow.propagation import (
    PASSING,
    Args,
    Kwargs,
    linear,
    other,
    put_all,
    reduce,
    reduced_axes,
)
from regard.tracing.dataflow.propagation import pool as pool_marks
from regard.tracing.dataflow.rearrangement import ARRANGING, recur
from regard.tracing.dataflow.rule_table import Decision
from regard.tracing.recording.manual_softmax import by_hand
from regard.tracing.recording.record import CallRecord
from regard.tracing.sites import Given, Sites
from regard.types import Gap


class Follower:
    """Follows every tensor of a run; hands on what was written by hand, and names gaps.

    `grids` are the rows and columns of the patches with which a picture's stream began.
    """

    def __init__(self, sites: Sites, keep: Callable[[CallRecord], None]) -> None:
        self.sites, self._keep = sites, keep
        self._gaps = Gaps()
        self.grids: dict[str, tuple[int, int]] = {}
        self._last: Weighing | None = None
        self._values: tuple[Tensor, int] | None = None  # of the product that is looked at
        self._nameless = set[str]()  # sites that were first asked by a state of the keys' stream
        self._rules = (
            PASSING
            | ARRANGING
            | {
                "embed": self._embed,
                "conv": self._conv,
                "pool": self._pool,
                "linear": self._linear,
                "recur": self._recur,
                "product": self._product,
                "reduce": self._reduce,
                "opaque": self._opaque,
            }
        )
        sites.begun.append(self._given)
        sites.scripted.append(self._scripted)
        sites.closed.append(flow.end)
        flow.begin()

    @property
    def gaps(self) -> list[Gap]:
        """What attends and cannot be mapped."""
        return self._gaps.found

    def follow(self, decision: Decision, args: Args, kwargs: Kwargs, result: Any) -> None:
        """Pass marks on, and note attention that was written by hand."""
        self._rules[decision[0]](decision[1], args, kwargs, result)

    def _given(self, inputs: Given) -> None:
        """What a model is given are streams, if it is numbers; those embedded begin later."""
        flow.tidy()
        for name, each in inputs.items():
            if each.dtype.is_floating_point and each.dim() > 2 and mark_of(each) is UNKNOWN:
                put(each, plain(name, -2 if each.dim() == 3 else None, "given"))

    def _embed(self, name: str, args: Args, kwargs: Kwargs, result: Tensor) -> None:
        ids = args[0] if args else kwargs["input"]
        one = ids.dim() == 0 or (ids.dim() == 1 and len(ids) == self.sites.batch)
        stream = self.sites.caller
        put(result, plain(stream, None, "state") if one else plain(stream, -2))

    def _conv(self, name: str, args: Args, kwargs: Kwargs, result: Tensor) -> None:
        mark = mark_of(args[0])
        if mark.pair is not None:
            pool_marks(name, args, kwargs, result)
            return
        begins = mark.stream is None or mark.form == "given"
        stream = self.sites.caller if begins else mark.stream
        form = "picture" if begins or mark.form == "picture" else "grid"
        if name == "conv1d":
            put(result, plain(stream, -1))
        elif name == "conv2d":
            put(result, plain(stream, -1, form))
            self._gridded(mark_of(result), result)
        else:
            put(result, plain(stream))

    def _pool(self, name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
        pool_marks(name, args, kwargs, result)
        if isinstance(result, Tensor) and result.dim() > 2:
            self._gridded(mark_of(result), result)

    def _gridded(self, mark: Mark, result: Tensor) -> None:
        if mark.form == "picture" and mark.stream is not None:
            self.grids[mark.stream] = (result.shape[-2], result.shape[-1])

    def _linear(self, name: str, args: Args, kwargs: Kwargs, result: Tensor) -> None:
        weight = args[1] if len(args) > 1 else None
        # the exact type first: whether something is a parameter is slow to ask
        if type(weight) is nn.Parameter or mark_of(weight).stream is None:
            linear(name, args, kwargs, result)
        else:
            self._product(name, args, kwargs, result)

    def _recur(self, name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
        recur(name, args, kwargs, result)
        first = mark_of(result[0]) if isinstance(result, tuple) else UNKNOWN
        if first.axis == -3 and len(args[0]) == self.sites.batch:  # it was given tokens first
            self.sites.batch = args[0].shape[1]

    def _product(self, name: str, args: Args, kwargs: Kwargs, result: Tensor) -> None:
        found = product_of(name, (*args, *kwargs.values()))
        if found is None:
            other(name, args, kwargs, result)
            return
        mark = self._mixed(found) or multiplied(found)
        if mark is not UNKNOWN:
            put(result, mark)

    def _mixed(self, product: Product) -> Mark | None:
        """The context, where a product is of weights and values; None if it is any other."""
        for operand, values, own, theirs in product.both_ways:
            mark = mark_of(operand)
            if isinstance(mark.step, Weighing) and len(own.summed) == 1:
                summed = (own.summed[0], theirs.summed[0])
                self._values = (values, summed[1])
                found = self._note(mark, mark_of(values), summed)
                if found is not None:
                    return found.moved(own.moved)
        return None

    def _reduce(self, name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
        source = args[0] if args else kwargs.get("input")
        mark = mark_of(source)
        if name == "sum" and isinstance(mark.step, Mixing) and isinstance(source, Tensor):
            axes, _ = reduced_axes(source, args, kwargs)
            weights = Mark(mark.stream, mark.axis, mark.form, mark.pair, mark.step.weighing)
            if len(axes) == 1:
                self._note(weights, mark.step.values, (axes[0], axes[0]))
        reduce(name, args, kwargs, result)

    def _note(self, mark: Mark, values: Mark, summed: tuple[int, int]) -> Mark | None:
        """Keep the call of weights that mix values over an axis of each; None if they do not."""
        weighing = mark.step
        assert isinstance(weighing, Weighing)
        assert mark.pair is not None
        if weighing.is_rearranged:
            if values.form != "constant":
                self._gaps.note(self.sites.here, REARRANGED)
            return plain(mark.pair.left.stream)
        turns = mark.pair.is_product and mark.pair.left.axis == summed[0]
        pair = mark.pair.turned if turns else mark.pair
        if not mixes(pair, values, summed):
            return None
        if weighing is not self._last and not is_backward():
            self._last = weighing
            turned = replace(weighing, pair=weighing.pair.turned) if turns else weighing
            self._hand_on(turned)
        left = pair.left
        if left.stream is None and left.form == "constant":
            return plain(_learned(self.sites.here), left.axis)
        return plain(left.stream, left.axis, left.form)

    def _hand_on(self, weighing: Weighing) -> None:
        seen = by_hand(self.sites, weighing)
        if self._values is not None:
            seen, self._values = comparable(seen, *self._values), None
        streams = self._streams(seen.site, weighing.pair, seen.sizes[2:])
        self._keep(replace(seen, queries=streams[0], keys=streams[1]))

    def _streams(
        self, site: str, pair: Pair, sizes: tuple[int, int]
    ) -> tuple[str | None, str | None]:
        """Of queries and keys.

        A state of the keys' stream is no token of it, what is pooled is another stream, and a
        learned query begins one.
        """
        left, right = pair.left, pair.right
        queries, keys = left.stream, right.stream
        if left.form == "state" and (queries == keys or site in self._nameless):
            self._nameless.add(site)
            return None, keys
        if queries is not None and queries == keys and sizes[1] < sizes[0]:
            return queries, f"{keys} pooled"
        if left.form == "constant" and queries is None and keys is not None:
            return _learned(site), keys
        return queries, keys

    def named(self, tapped: Tapped, operands: Args) -> Tapped:
        """A call of a tapped function, its query and key marked as the function's operands are."""
        query, key = (
            mark if (mark := mark_of(side)).stream is not None else _mark_behind(side, operands)
            for side in (tapped.query, tapped.key)
        )
        sizes = (tapped.query.shape[2], tapped.key.shape[2])
        streams = (query.stream, key.stream)
        if query.form in ("state", "constant") or (
            streams[0] == streams[1] and sizes[1] < sizes[0]
        ):
            streams = self._streams(self.sites.here, Pair(query.side, key.side), sizes)
        if streams == (mark_of(tapped.query).stream, mark_of(tapped.key).stream):
            return tapped
        sides = (tapped.query.view_as(tapped.query), tapped.key.view_as(tapped.key))
        for each, stream in zip(sides, streams, strict=True):
            put(each, plain(stream, -2))
        return replace(tapped, query=sides[0], key=sides[1])

    def attended(self, tapped: Tapped, result: Any) -> None:
        """Mark what a tapped function gave: vectors of the queries' stream."""
        put_all(result, plain(mark_of(tapped.query).stream, -2))

    def _opaque(self, name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
        marks = [mark_of(each) for each in tensors((*args, *kwargs.values()))]
        if sum(mark.stream is not None for mark in marks) > 1:
            self._gaps.note(self.sites.here, opaque_reason(name))
        other(name, args, kwargs, result)

    def _scripted(self, site: str, module: ScriptModule, inputs: Args, output: Any) -> None:
        reason = scripted_reason(module)
        if reason is not None:
            self._gaps.note(site, reason)
        other("", inputs, {}, output)


def _learned(site: str) -> str:
    """The stream that begins with a query that is a parameter."""
    return f"{site} query"


def _mark_behind(side: Tensor, operands: Args) -> Mark:
    """The mark of the operand of which a side is a view."""
    for each in tensors(operands):
        if each.data_ptr() == side.data_ptr() and mark_of(each) is not UNKNOWN:
            return mark_of(each)
    return UNKNOWN
