"""Erasing tokens from a model's input, in many variants of one example at a time.

There are three ways. Of "I love tea" without "love", with 5 ids <s> I love tea </s>:

- "mask-token" runs <s> I [MASK] tea </s>;
- "attention" runs the whole text, and at every site takes the weight of "love" as a key away and
  divides it among the other keys in proportion;
- "delete" runs <s> I tea </s>, so that the tokens behind move up.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attribution.clean_run import (
    CleanRun,
    chunks,
    literal_pattern,
    module_path,
    word_units,
)
from regard.attribution.objectives import TokenProbability
from regard.errors import InputError, UnknownNameError
from regard.tracing import AttentionCall, Edit
from regard.tracing.inputs.example import run_forward
from regard.types.attribution import ErasureMethod, LeftOut

Erased = Bool[Tensor, "variant token"]


@dataclass(frozen=True)
class ErasureOptions:
    """How tokens are erased, and which of them are erased together.

    `by` "mask-token" puts another id in their place: the tokenizer's mask, unknown or padding
    token, or `fill`; vectors become `fill`, or zeros. "attention" hides them as keys at every site
    that attends to the input: no position moves, but what a recurrent network passes on beside
    attention stays. "delete" leaves them out. None chooses "mask-token" for a tokenizer with a mask
    token, else "attention" where tokens attend to one another, else "delete".

    The pieces of a word are erased together, unless not `words`; special tokens are never erased,
    unless `special`. Mask tokens whose prediction is the objective are never erased, nor, by
    "attention", the last token when the objective is the next one: the model predicts from its row.
    """

    by: ErasureMethod | None = None
    words: bool = True
    special: bool = False
    fill: float | None = None

    def __post_init__(self) -> None:
        if self.by is not None and self.by not in get_args(ErasureMethod):
            raise UnknownNameError("way to erase", str(self.by), get_args(ErasureMethod))


class Eraser:
    """Values of the objective without some units of an example; each set of units runs once."""

    def __init__(self, run: CleanRun, options: ErasureOptions = ErasureOptions()) -> None:  # noqa: B008 frozen
        self.run, self.options = run, options
        self.by: ErasureMethod = options.by or _default_method(run)
        self.units = _erasable_units(run, options, self.by)
        self.left_out = _left_out_tokens(run, self.units)
        self._known: dict[frozenset[int], float] = {frozenset(): run.value}

    @property
    def texts(self) -> tuple[str, ...]:
        """The text of each unit, its pieces joined."""
        texts = self.run.tokens.texts
        return tuple("".join(texts[place] for place in unit) for unit in self.units)

    def values(self, erased: Iterable[Iterable[int]]) -> Float[Tensor, " variant"]:
        """The value of the objective for each set of units that is erased."""
        variants = [frozenset(units) for units in erased]
        new = [units for units in dict.fromkeys(variants) if units not in self._known]
        for batch in self._batches(new):
            values = self._run_batch(batch).tolist()
            self._known |= dict(zip(batch, values, strict=True))
        return torch.tensor([self._known[units] for units in variants], dtype=torch.float64)

    def sum_over_pieces(self, values: Float[Tensor, " token"]) -> Float[Tensor, " unit"]:
        """Numbers of tokens as numbers of units, the sum over their pieces."""
        wide = values.detach().cpu().double()
        return torch.stack([wide[unit].sum() for unit in self.units])

    def _batches(self, variants: Sequence[frozenset[int]]) -> list[Sequence[frozenset[int]]]:
        """The variants in batches; after deletion only those of the same length fit together."""
        size = self.run.batch_size(self.run.input_maps if self.by == "attention" else ())
        if self.by != "delete":
            return list(chunks(variants, size))
        erased = [sum(len(self.units[number]) for number in units) for units in variants]
        groups = [
            [units for units, count in zip(variants, erased, strict=True) if count == length]
            for length in sorted({*erased})
        ]
        return [batch for group in groups for batch in chunks(group, size)]

    def _run_batch(self, variants: Sequence[frozenset[int]]) -> Float[Tensor, " variant"]:
        erased = self._erased_tokens(variants)
        run, arguments = self.run, repeat_arguments(self.run.example.arguments, len(variants))
        if self.by == "attention":
            edit = HideKeys.of(run, erased)
            output = run_forward(run.model, arguments, edit=edit, sites=edit.first_site)
        elif self.by == "delete":
            output = run_forward(run.model, self._delete_tokens(arguments, erased))
        else:
            output = run_forward(run.model, arguments | self._fill_tokens(arguments, erased))
        return run.objective.after_erasure(output, _token_rows(erased, moved=self.by == "delete"))

    def _erased_tokens(self, variants: Sequence[frozenset[int]]) -> Erased:
        erased = torch.zeros(len(variants), len(self.run.tokens), dtype=torch.bool)
        for row, numbers in zip(erased, variants, strict=True):
            row[[place for number in numbers for place in self.units[number]]] = True
        return erased

    def _fill_tokens(self, arguments: Mapping[str, Any], erased: Erased) -> dict[str, Tensor]:
        """The argument that holds the tokens, with the erased ones replaced."""
        name = self.run.example.held
        assert name is not None
        tokens: Tensor = arguments[name]
        mask = erased.to(tokens.device)
        if tokens.is_floating_point():
            return {name: tokens.masked_fill(mask[:, :, None], self.options.fill or 0.0)}
        return {name: tokens.masked_fill(mask, self._fill_id())}

    def _fill_id(self) -> int:
        if self.options.fill is not None:
            return int(self.options.fill)
        for name in ("mask_token_id", "unk_token_id", "pad_token_id"):
            number = getattr(self.run.tokenizer, name, None)
            if number is not None:
                return int(number)
        raise InputError(
            "erasing by a mask token needs a tokenizer with a mask, unknown or padding token; "
            "give the id to put there as fill=, or erase by 'attention' or 'delete'"
        )

    def _delete_tokens(self, arguments: Mapping[str, Any], erased: Erased) -> dict[str, Any]:
        """The arguments, with the entries of erased tokens left out of each."""
        variants, count = erased.shape
        if bool(erased.all(dim=1).any()):
            raise InputError(
                "erasing by 'delete' would leave no token at all; erase by 'attention' or "
                "'mask-token'"
            )
        shortened = dict(arguments)
        for name, value in arguments.items():
            if name.startswith("decoder_") or not isinstance(value, Tensor) or value.dim() < 2:
                continue
            # masks and token types run along the tokens too, and lose the same entries
            if value.shape[:2] == (variants, count):
                kept = (~erased).to(value.device)
                shortened[name] = value[kept].view(variants, -1, *value.shape[2:])
        return shortened


@dataclass(frozen=True, eq=False)
class HideKeys:
    """An edit of attention: no query of a variant sees the tokens that are erased in it."""

    erased: Erased
    columns: Mapping[str, tuple[int, ...]]

    @classmethod
    def of(cls, run: CleanRun, erased: Erased) -> "HideKeys":
        """Hide keys at all sites that attend to the example's tokens."""
        if not run.input_maps:
            raise InputError(
                f"{type(run.model).__name__} was not seen to attend to its tokens; erase by "
                "'mask-token' or 'delete'"
            )
        return cls(
            erased, {module_path(each.site): each.columns.positions for each in run.input_maps}
        )

    @property
    def first_site(self) -> str:
        """The pattern of the site that runs first: statistics of one site are enough, and cheap."""
        return literal_pattern(next(iter(self.columns)))

    def __call__(self, call: AttentionCall) -> Edit | None:
        """The call's weights without the erased tokens, where it attends to them."""
        places = self.columns.get(call.site)
        if places is None:
            return None
        variants, batch = len(self.erased), call.sizes[0]
        if call.sizes[3] != len(places) or batch % variants:
            raise InputError(
                f"{call.site!r} looks at {call.sizes[3]} keys of {batch} examples, and not at the "
                f"{len(places)} tokens of {variants}; erase by 'mask-token' or 'delete'"
            )
        erased = self.erased[:, list(places)].repeat_interleave(batch // variants, dim=0)
        sink = call.scoring is not None and call.scoring.sink is not None
        return Edit(weights=hide_keys(call.weights(), erased[:, None, None], sink=sink))


def hide_keys(
    weights: Float[Tensor, "batch head query key"],
    hidden: Bool[Tensor, "batch 1 1 key"],
    *,
    sink: bool = False,
) -> Float[Tensor, "batch head query key"]:
    """The weights as if a mask hid some keys: their mass goes to the other keys in proportion.

    A row keeps its sum; with a sink, the sink's share grows too. A row with no other key is zero.
    """
    left = weights.masked_fill(hidden.to(weights.device), 0)
    kept, total = (each.sum(dim=-1, keepdim=True) for each in (left, weights))
    if sink:
        return left / (kept + (1 - total).clamp_min(0)).clamp_min(torch.finfo(left.dtype).tiny)
    return torch.where(kept > 0, left * (total / kept), 0)


def repeat_arguments(arguments: Mapping[str, Any], times: int) -> dict[str, Any]:
    """The arguments of a batch with `times` copies of one example."""
    return {
        name: value.repeat(times, *[1] * (value.dim() - 1))
        if isinstance(value, Tensor) and value.dim() and value.shape[0] == 1
        else value
        for name, value in arguments.items()
    }


def _default_method(run: CleanRun) -> ErasureMethod:
    if getattr(run.tokenizer, "mask_token_id", None) is not None:
        return "mask-token"
    self_attention = any(each.rows.stream == each.columns.stream for each in run.input_maps)
    return "attention" if self_attention else "delete"


def _erasable_units(run: CleanRun, options: ErasureOptions, by: ErasureMethod) -> list[list[int]]:
    """The units of the example, except those whose rows the objective reads."""
    objective, needed = run.objective, set[int]()
    if isinstance(objective, TokenProbability) and objective.name == "masked tokens":
        needed = {*objective.rows}
    elif objective.name == "next token" and by == "attention":
        needed = {len(run.tokens) - 1}
    units = word_units(run.tokens, words=options.words, special=options.special)
    erasable = [unit for unit in units if not needed & {*unit}]
    if not erasable:
        raise InputError(
            f"expected a text with more than what is needed to tell the {objective.name}, got "
            f"{', '.join(run.tokens.texts)}"
        )
    return erasable


def _left_out_tokens(run: CleanRun, units: Sequence[Sequence[int]]) -> tuple[LeftOut, ...]:
    """The tokens that are in no unit, with the reason why they are never erased."""
    erased = {place for unit in units for place in unit}
    special = run.tokens.special or (False,) * len(run.tokens)
    return tuple(
        LeftOut(place, text, "special token" if is_special else "needed by the objective")
        for place, (text, is_special) in enumerate(zip(run.tokens.texts, special, strict=True))
        if place not in erased
    )


def _token_rows(erased: Erased, *, moved: bool) -> Int[Tensor, "variant token"]:
    """The row of each token in the output, -1 for erased tokens."""
    places = torch.arange(erased.shape[1]).expand_as(erased)
    rows = (~erased).cumsum(dim=1) - 1 if moved else places
    return rows.masked_fill(erased, -1)
