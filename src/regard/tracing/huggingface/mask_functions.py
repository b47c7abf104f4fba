"""Makes lazy masks in place of the dense ones that transformers' mask functions would make."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from regard.tracing.mask_reading.index_rules import (
    MAX_PAIRS,
    MaskFacts,
    MaskSizes,
    read_index_rule,
)
from regard.tracing.mask_reading.lazy import LazyMask, TensorRecipe

MaskFunction = Callable[..., Any]


class _RuleNeededError(Exception):
    """Raised by a stand-in for the rule; carries the indices at which it was to be evaluated."""


def make_lazily(make: MaskFunction, arguments: dict[str, Any]) -> Tensor | None:
    """What `make(**arguments)` returns, as a lazy mask where a description can be found.

    `make` takes lengths, offsets, the rule `mask_function` and a padding mask `attention_mask`.
    """
    single_row = arguments.get("q_length", 1) == 1  # as cheap to make as to describe
    if arguments.get("use_vmap") or single_row or "mask_function" not in arguments:
        mask: Tensor | None = make(**arguments)
        return mask

    # The function may know without its rule that no mask is needed. So it is run with a rule that
    # raises: if the rule is not called, the result stands; if it is, its indices are caught.
    def raise_when_called(*indices: Tensor) -> Tensor:
        raise _RuleNeededError(*indices)

    try:
        mask = make(**arguments | {"mask_function": raise_when_called})
    except _RuleNeededError as needed:
        mask = _read_mask(make, arguments, needed.args)
        return make(**arguments) if mask is None else mask
    return mask


def _read_mask(
    make: MaskFunction, arguments: dict[str, Any], indices: tuple[Any, ...]
) -> "LazyMask | None":
    """The lazy mask; None if its rule cannot be evaluated at single pairs or be described."""
    try:
        with torch._C.DisableTorchFunction():  # a watcher need not see how the rule is probed
            return _MaskReader(make, arguments, indices).read()
    except (RuntimeError, IndexError, TypeError, ValueError):
        return None


class _MaskReader:
    """Reads one call of a mask function, which it can also call for single rows."""

    def __init__(
        self, make: MaskFunction, arguments: dict[str, Any], indices: tuple[Any, ...]
    ) -> None:
        batch, _, query, key = (index.reshape(-1) for index in indices)
        self.sizes = MaskSizes(len(batch), 1, len(query), len(key))
        self.first_query, self.first_key = int(query[0]), int(key[0])
        self.device: torch.device = key.device
        padded = arguments.get("attention_mask")
        # the caller may write into its padding mask before the lazy mask is made
        copied = {"attention_mask": None if padded is None else padded.clone()}
        self.make, self.arguments = make, arguments | copied | {"q_offset": self.first_query}

    def read(self) -> LazyMask | None:
        """The lazy mask; None if no description agrees with the function."""
        function = self.arguments["mask_function"]

        def rule(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            visible: Tensor = function(batch, head, query + self.first_query, key + self.first_key)
            return visible

        # with a rule that hides nothing, what is left in a row is the padding
        unruled = self._make_row(0, mask_function=lambda batch, head, query, key: key == key)
        offset, real = self.first_query - self.first_key, _visible(unruled)[:, 0, 0]
        facts = read_index_rule(rule, self.sizes, self.device, offset=offset, real=real)
        if facts is None or not self._agrees(facts):
            return None
        recipe = TensorRecipe(lambda: self.make(**self.arguments), self._made)
        return LazyMask.of(facts, recipe, unruled.dtype, self.device)

    _made: Tensor | None = None

    def _agrees(self, facts: MaskFacts) -> bool:
        """True if the made mask agrees with the facts: all of it if small, else three rows."""
        batch, _, queries, keys = self.sizes
        if batch * queries * keys <= MAX_PAIRS:
            self._made = self.make(**self.arguments)
            expected = facts.mask.dense(queries, keys, offset=facts.offset, device=self.device)
            return bool((_visible(self._made) == expected).all())
        columns = torch.arange(keys, device=self.device)
        examples = torch.arange(batch, device=self.device)[:, None]
        for row in (0, queries // 2, queries - 1):
            expected = facts.is_visible(examples, torch.full_like(columns, row), columns)
            if not bool((_visible(self._make_row(row))[:, 0, 0] == expected).all()):
                return False
        return True

    def _make_row(self, row: int, **changes: Any) -> Tensor:
        """One row of the dense mask."""
        skip = {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
        single = {"q_length": 1, "q_offset": self.first_query + row}
        made: Tensor = self.make(**self.arguments | skip | single | changes)
        return made.expand(self.sizes.batch, 1, 1, self.sizes.keys)


def _visible(dense: Tensor) -> Bool[Tensor, "batch head query key"]:
    """Truth values as they are; of numbers to be added to scores, zero means visible."""
    return dense if dense.dtype == torch.bool else dense == 0
