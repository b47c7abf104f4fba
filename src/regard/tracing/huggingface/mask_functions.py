"""A mask that a function would make dense, as a reading: the function itself is asked for it."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from regard.tracing.mask_reading.index_rules import WHOLE, Reading, Sizes, read
from regard.tracing.mask_reading.lazy import LazyMask, Making

Maker = Callable[..., Any]


class _RuleNeededError(Exception):
    """The rule was needed; carries the indices that it was to be evaluated at."""


def lazily(make: Maker, asked: dict[str, Any]) -> Tensor | None:
    """What `make(**asked)` gives, as a mask that stays a reading where one can be found.

    `make` takes lengths, offsets, the rule `mask_function` and a 2-D `attention_mask`.
    """
    if asked.get("use_vmap") or asked.get("q_length", 1) == 1 or "mask_function" not in asked:
        found: Tensor | None = make(**asked)  # one row is no more than its reading
        return found

    def consult(*indices: Tensor) -> Tensor:
        raise _RuleNeededError(*indices)

    try:
        found = make(**asked | {"mask_function": consult})
    except _RuleNeededError as needed:
        found = _read(make, asked, needed.args)
        return make(**asked) if found is None else found
    return found  # it could tell without looking, such as that none is needed


def _read(make: Maker, asked: dict[str, Any], indices: tuple[Any, ...]) -> "LazyMask | None":
    try:
        with torch._C.DisableTorchFunction():  # watchers need not see how the rule is asked
            return _Reader(make, asked, indices).mask()
    except (RuntimeError, IndexError, TypeError, ValueError):
        return None  # a rule that cannot be asked about single places


class _Reader:
    """One call of a function that makes masks, and its parts made alone."""

    def __init__(self, make: Maker, asked: dict[str, Any], indices: tuple[Any, ...]) -> None:
        batch, _, query, key = (each.reshape(-1) for each in indices)
        self.sizes = Sizes(len(batch), 1, len(query), len(key))
        self.first, self.start = int(query[0]), int(key[0])
        self.device: torch.device = key.device
        padded = asked.get("attention_mask")
        # what may be written into before the mask is made is held as it is now
        held = {"attention_mask": None if padded is None else padded.clone()}
        self.make, self.asked = make, asked | held | {"q_offset": self.first}

    def mask(self) -> LazyMask | None:
        function = self.asked["mask_function"]

        def rule(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            seen: Tensor = function(batch, head, query + self.first, key + self.start)
            return seen

        plain = self._row(0, mask_function=lambda batch, head, query, key: key == key)
        offset, real = self.first - self.start, _seen(plain)[:, 0, 0]
        reading = read(rule, self.sizes, self.device, offset=offset, real=real)
        if reading is None or not self._agrees(reading):
            return None
        making = Making(lambda: self.make(**self.asked), self._whole)
        return LazyMask.of(reading, making, plain.dtype, self.device)

    _whole: Tensor | None = None

    def _agrees(self, reading: Reading) -> bool:
        """Whether what is made agrees with the reading: all of it if small, else some rows."""
        batch, _, queries, keys = self.sizes
        if batch * queries * keys <= WHOLE:
            self._whole = self.make(**self.asked)
            said = reading.mask.dense(queries, keys, offset=reading.offset, device=self.device)
            return bool((_seen(self._whole) == said).all())
        columns = torch.arange(keys, device=self.device)
        examples = torch.arange(batch, device=self.device)[:, None]
        for row in (0, queries // 2, queries - 1):
            said = reading.at(examples, torch.full_like(columns, row), columns)
            if not bool((_seen(self._row(row))[:, 0, 0] == said).all()):
                return False
        return True

    def _row(self, row: int, **otherwise: Any) -> Tensor:
        """One row of the mask, dense."""
        skip = {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
        place = {"q_length": 1, "q_offset": self.first + row}
        made: Tensor = self.make(**self.asked | skip | place | otherwise)
        return made.expand(self.sizes.batch, 1, 1, self.sizes.keys)


def _seen(dense: Tensor) -> Bool[Tensor, "batch head query key"]:
    """Truth values as they are; of numbers to be added, zero is seen."""
    return dense if dense.dtype == torch.bool else dense == 0
