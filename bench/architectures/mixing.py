"""Finds attention-like mixing of positions without a map or a gap: change one position and look.

After a plain run, the model runs once for each depth of its modules. In the run for a depth, each
module of that depth gets the inputs of the plain run with one position changed, and afterwards its
outputs are set back, so that modules are judged one by one. A module spreads the change if its
output differs at other positions::

    input  of layers.0.mixer   . . . . . x . . . . .
    output of layers.0.mixer   . . . . . x x x x x x     spreads to all later positions
    output of its convolution  . . . . . x x x x . .     explains three of them

A report is the claim that attention was missed, so that a module is reported only if all of this
holds:

1. No map and no gap is at the module or inside it, and no gap at a module around it.
2. The change reaches at least three other positions by operations of the module itself. What
   modules inside it spread is their own affair, as these are judged too.
3. The mixing depends on the content: among its operations is a product (of matrices, or element by
   element) both factors of which depend on the input, as in `softmax(q k) v`, `k^T v` or
   `decay(x) * state`. Weights that are parameters, or depend on positions alone, mix in a fixed
   pattern: convolutions, pooling, MLP mixers, Fourier transforms, fixed decays without gates.
4. Other known mixing does not explain the positions: convolution, pooling, normalisation, averages
   (squeeze and excitation), recurrent networks of torch, shifts and Fourier transforms. A product
   of matrices that itself joins positions of two contents, `q k^T` or `k^T v`, is attention-like
   whatever else the module does.

Modules that choose positions by content (sorting, top-k, pruning) without a product are not found.
A module whose output changes at the changed position alone is `still`: a softmax in it mixes
something else, such as the residual streams of one token.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from bench.architectures.follower import (
    AVERAGES,
    MATRIX_PRODUCTS,
    PRODUCTS,
    Call,
    Follower,
    Frame,
    Operation,
    PlainRun,
    sign_all,
)
from bench.architectures.matching import cut_numbers
from bench.architectures.positions import (
    Positions,
    Signature,
    add_positions,
    changed_positions,
    compare_signatures,
    perturb_inputs,
)
from bench.architectures.tensors import flatten_tensors

__all__ = ["Mixing", "find_mixing"]

_FEWEST = 3  # positions that a change has to reach; a shift reaches one or two


@dataclass
class Mixing:
    """Modules that mix positions unseen, all that mix by content, and all that mix no positions."""

    unseen: list[str] = field(default_factory=list)
    attending: set[str] = field(default_factory=set)
    still: set[str] = field(default_factory=set)


def find_mixing(
    model: nn.Module, run: Callable[[], Any], maps: Iterable[str] = (), gaps: Iterable[str] = ()
) -> Mixing:
    """Look for modules that mix positions by content and are not among the sites of maps and gaps.

    `run` must not share a state, such as a cache, between calls.
    """
    plain = PlainRun(model)
    with torch.no_grad(), plain:
        run()
    plain.drop_unknown()
    mixing = Mixing()
    covered = (set(map(cut_numbers, maps)), set(map(cut_numbers, gaps)))
    judged = {_depth(path) for (path, _), call in plain.calls.items() if call.inputs is not None}
    for depth in sorted(judged):
        with torch.no_grad(), _ChangedRun(model, plain, depth, covered) as changed:
            run()
        mixing.unseen += changed.unseen
        mixing.attending |= changed.attending
        mixing.still |= changed.still - changed.spreading
        if changed.suspects:
            mixing.unseen += _depending_on_content(model, run, plain, changed)
    mixing.unseen.sort()
    return mixing


def _depending_on_content(
    model: nn.Module, run: Callable[[], Any], plain: PlainRun, changed: "_ChangedRun"
) -> set[str]:
    """The suspects that multiply two contents when all positions are changed.

    In a recurrence, `state * gate(x[:, t])`, the change of one position is never in both factors.
    """
    again = _ChangedRun(model, plain, changed.depth, everywhere=True)
    with torch.no_grad(), again:
        run()
    return (changed.suspects & again.depending) - set(changed.unseen)


class _ChangedRun(Follower):
    """Changes the input of every module of one depth, and reports those that spread the change."""

    def __init__(
        self,
        model: nn.Module,
        plain: PlainRun,
        depth: int,
        covered: tuple[set[str], set[str]] = (set(), set()),
        *,
        everywhere: bool = False,
    ) -> None:
        super().__init__(model)
        self.unseen: set[str] = set()
        self.still: set[str] = set()
        self.spreading: set[str] = set()
        self.suspects: set[str] = set()
        self.attending: set[str] = set()
        self.depending: set[str] = set()
        self.depth = depth
        self._root = type(model).__name__
        self._plain, self._everywhere = plain, everywhere
        self._maps, self._gaps = covered

    def _enter(self, path: str, module: nn.Module, args: Any, kwargs: Any) -> Any:
        """Change the inputs of a module that is judged; measure the change at one inside it."""
        key = self._next_key(path)
        frame = Frame(key, self._plain.calls.get(key, Call()))
        self._stack.append(frame)
        if not self._is_judged(frame):
            if self._is_inside_judged():
                frame.before = _compare_all((args, kwargs), frame.call.signed_inputs)
            return None
        inputs = self._copy(frame.call.inputs)
        frame.before, frame.certain = perturb_inputs(
            inputs, everywhere=self._everywhere, sizes=self._plain.sizes
        )
        return inputs

    def _leave(self, path: str, module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        """Report a module that spreads the change unseen, and set its output back."""
        frame = self._stack.pop()
        if self._is_judged(frame):
            self._judge(path or self._root, frame, output)
            return self._copy(frame.call.outputs)
        if self._is_inside_judged():
            above = self._stack[-1].explained
            after = _compare_all(output, frame.call.signed_outputs)
            add_positions(above, frame.before, after)
            add_positions(above, {}, frame.explained)
        return None

    def _note(self, operation: Operation) -> None:
        """Learn from an operation what it explains, and whether it multiplies contents."""
        frame = self._stack[-1]
        number = frame.operations
        frame.operations += 1
        if number >= len(frame.call.operations):
            return
        former = frame.call.operations[number]
        if former.name != operation.name:
            return
        pairs = list(zip(operation.inputs, former.inputs, strict=False))
        inputs = [compare_signatures(now, then) for now, then in pairs]
        after = compare_signatures(operation.output, former.output)
        changed = sum(now.whole != then.whole for now, then in pairs)
        if operation.name in PRODUCTS and changed >= 2:
            frame.depends_on_content = True
            if operation.name in MATRIX_PRODUCTS:
                frame.joins_contents |= _joins_positions(operation, inputs, frame.before)
        else:
            _explain(operation, inputs, after, frame.explained)

    def _judge(self, path: str, frame: Frame, output: Any) -> None:
        """Note whether a module spreads the change, and report it if that is unseen attention."""
        if frame.depends_on_content:
            self.depending.add(path)
        spread: Positions = {}
        for now, then in _pair_tensors(output, frame.call.outputs):
            if not (now.is_floating_point() or now.is_complex()):
                continue  # indices select tokens; what attends to the selected ones has its map
            add_positions(spread, frame.before, changed_positions(now, then, frame.before))
        if not any(spread.values()):
            self.still.add(path)
            return
        self.spreading.add(path)
        if not frame.joins_contents:
            spread = {
                size: indices - frame.explained.get(size, set()) for size, indices in spread.items()
            }
        reaches = max(map(len, spread.values())) >= _FEWEST
        if reaches:  # of a suspect nobody knows yet
            self.attending.add(path)
        if frame.certain and reaches and not self._is_covered(path):
            (self.unseen if frame.depends_on_content else self.suspects).add(path)

    def _is_inside_judged(self) -> bool:
        """True while a module runs whose input was changed, and that may be reported."""
        return any(frame.call.certain and self._is_judged(frame) for frame in self._stack)

    def _is_judged(self, frame: Frame) -> bool:
        """True for a module of the depth of this run whose inputs were kept."""
        return frame.call.inputs is not None and _depth(frame.key[0]) == self.depth

    def _is_covered(self, path: str) -> bool:
        """True if a map or a gap is at the module or inside it, or a gap around it."""
        inside = any(
            site == path or site.startswith(f"{path}.") for site in self._maps | self._gaps
        )
        return inside or any(path.startswith(f"{gap}.") for gap in self._gaps)


def _joins_positions(operation: Operation, inputs: list[Positions], before: Positions) -> bool:
    """True if a product of matrices joins positions of two contents: q k^T, w v or k^T v.

    Its operands changed at the changed position alone; its result has more positions that changed,
    or the axis of the positions is summed over.
    """
    for size, indices in before.items():
        places = [positions.get(size, set()) for positions in inputs]
        if sum(place == indices for place in places) < 2:
            continue
        last = operation.inputs[-2:]
        if len(last) == 2 and last[0].shape[-1] == size and last[1].shape[-2:-1] == (size,):
            return True
        if operation.output.shape[-2:] == (size, size):
            return True
    return False


def _explain(
    operation: Operation, inputs: list[Positions], after: Positions, explained: Positions
) -> None:
    """Count what an operation spreads as explained; an average over positions explains them all."""
    before: Positions = {}
    for positions in inputs:
        add_positions(before, {}, positions)
    add_positions(explained, before, after)
    if any(part in operation.name for part in AVERAGES):
        gone = before.keys() - set(operation.output.shape)
        add_positions(explained, {}, {size: set(range(size)) for size in gone})


def _depth(path: str) -> int:
    """How many modules are around a module."""
    return path.count(".") + 1 if path else 0


def _compare_all(value: Any, former: list[Signature]) -> Positions:
    """The positions at which the tensors of a nested value differ from former ones."""
    positions: Positions = {}
    if not former:
        return positions
    for now, then in zip(sign_all(value), former, strict=False):
        add_positions(positions, {}, compare_signatures(now, then))
    return positions


def _pair_tensors(value: Any, former: Any) -> list[tuple[Tensor, Tensor]]:
    """The tensors of two nested values that have the same shape, in order."""
    pairs = zip(flatten_tensors(value), flatten_tensors(former), strict=False)
    return [(now, then) for now, then in pairs if now.shape == then.shape]
