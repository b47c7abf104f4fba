"""Leaks: outputs that change though they should not, by later tokens or by padding in a batch.

A causal model that reads "I love you" has to give the same output for "I" whatever follows, and any
model has to give the same output for a text whether or not it is padded beside a longer one.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.attribution.clean_run import source_tokenizer
from regard.attribution.objectives import output_rows
from regard.errors import InputError
from regard.tracing.inputs.example import PreparedExample, prepare_example, run_forward

RowChanges = Float[Tensor, " row"]


@dataclass(frozen=True, eq=False)
class Leak:
    """How much an output changed that should have stayed the same.

    `largest` is the largest change of any number of the output, divided by `scale`, the standard
    deviation of all of them. `row` is the row where it is, `change` what was changed then: the
    position of the first replaced token, or the number of padding tokens. `rows` has the largest
    change of each row; 0 where nothing could be compared.
    """

    largest: float
    row: int
    change: int
    scale: float
    rows: RowChanges


def causal_leak(
    model: nn.Module,
    processor: Any,
    inputs: Any,
    *,
    target: str | None = None,
    cuts: int = 8,
    seed: int = 0,
) -> Leak:
    """How much later tokens change the outputs of earlier ones: exactly 0 if the model is causal.

    At each of up to `cuts` positions, all tokens from there on are replaced by random ones, and the
    rows before are compared. Of an encoder-decoder the decoder's tokens are replaced. A model that
    attends in both directions, such as an encoder, has a large leak; the caller has to know whether
    it should.

    >>> import torch
    >>> from regard.models import Transformer
    >>> from regard.studies import causal_leak
    >>> settings = {"vocab": 101, "d_model": 12, "layers": 1, "heads": 3, "d_ff": 17}
    >>> inputs = {"input_ids": torch.tensor([[5, 6, 7, 8]])}
    >>> causal_leak(Transformer(kind="decoder", **settings), None, inputs).largest
    0.0
    """
    example = prepare_example(model, processor, inputs, target=target)
    name = "decoder_input_ids" if example.decodes else example.held
    if name is None or example.arguments[name].shape[1] < 2:
        raise InputError(
            "expected at least two tokens, of which the later are exchanged, got "
            f"{', '.join(example.arguments)}"
        )
    tokens: Tensor = example.arguments[name]
    count = tokens.shape[1]
    clean = _rows_of_tokens(run_forward(model, example.arguments), count)
    generator = torch.Generator().manual_seed(seed)
    positions = sorted({round(1 + n * (count - 2) / max(1, cuts - 1)) for n in range(cuts)})
    changes = torch.zeros(len(positions), count, dtype=torch.float64)
    for cut_changes, cut in zip(changes, positions, strict=True):
        # not as a batch: sums in another order would differ in their last bits
        arguments = example.arguments | {name: _replace_later_tokens(tokens, cut, generator)}
        changed = _rows_of_tokens(run_forward(model, arguments), count)
        cut_changes[:cut] = _largest_change(clean, changed)[:cut]
    return _largest_leak(changes, positions, clean)


def padding_leak(
    model: nn.Module,
    processor: Any,
    inputs: Any,
    *,
    target: str | None = None,
    padding: int = 7,
    side: Literal["left", "right"] = "right",
) -> Leak:
    """How much an output changes when its text is padded in a batch, beside a longer text.

    The longer text is made of the same tokens. The leak is nearly 0 if the model respects its
    attention_mask and keeps examples apart; sums in another order may differ in the last bits. Of
    an encoder-decoder the source is padded. Models with absolute positions may need position_ids
    where padding is on the left `side`.

    >>> import torch
    >>> from regard.models import Transformer
    >>> from regard.studies import padding_leak
    >>> settings = {"vocab": 101, "d_model": 12, "layers": 1, "heads": 3, "d_ff": 17}
    >>> inputs = {"input_ids": torch.tensor([[5, 6, 7, 8]])}
    >>> padding_leak(Transformer(kind="encoder", **settings), None, inputs).largest < 1e-5
    True
    """
    example = prepare_example(model, processor, inputs, target=target)
    if padding < 1:
        raise InputError(f"expected at least one token of padding, got {padding}")
    arguments = _pad_batch(model, processor, example, padding if side == "right" else -padding)
    clean = output_rows(run_forward(model, example.arguments))[0]
    padded = output_rows(run_forward(model, arguments))[0]
    if len(padded) > len(clean):
        padded = padded[: len(clean)] if side == "right" else padded[-len(clean) :]
    return _largest_leak(_largest_change(clean, padded)[None], [padding], clean)


def _replace_later_tokens(tokens: Tensor, cut: int, generator: torch.Generator) -> Tensor:
    """The ids or vectors with random ones from position `cut` on."""
    later = tokens[:, cut:]
    if tokens.is_floating_point():
        other = torch.randn(later.shape, generator=generator).to(later) * tokens.std()
    else:
        most = max(1, int(tokens.max()))  # ids up to the largest are in the vocabulary
        steps = torch.randint(1, most + 1, later.shape, generator=generator).to(later)
        other = (later + steps) % (most + 1)
    return torch.cat([tokens[:, :cut], other], dim=1)


def _pad_batch(
    model: nn.Module, processor: Any, example: PreparedExample, padding: int
) -> Mapping[str, Any]:
    """A batch of two: the padded example, on the left if `padding` < 0, and a longer one."""
    name = example.held
    takes_mask = "attention_mask" in inspect.signature(model.forward).parameters
    if name is None or not (takes_mask or "attention_mask" in example.arguments):
        raise InputError(
            f"{type(model).__name__} cannot be told of padding: expected a model with an "
            "attention_mask and an input of tokens"
        )
    tokens: Tensor = example.arguments[name]
    mask = torch.ones(tokens.shape[:2], dtype=torch.long, device=tokens.device)
    arguments = {"attention_mask": mask} | example.arguments
    fill = {name: getattr(source_tokenizer(processor), "pad_token_id", None) or 0}
    batch = {}
    for key, value in arguments.items():
        batch[key] = value
        if isinstance(value, Tensor) and value.dim() and len(value) == 1:
            per_token = not key.startswith("decoder_") and value.shape[:2] == tokens.shape[:2]
            rows = _pad_and_extend(value, padding, fill.get(key, 0)) if per_token else [value] * 2
            batch[key] = torch.cat(rows)
    return batch


def _pad_and_extend(value: Tensor, padding: int, fill: int) -> list[Tensor]:
    """The entries of each token padded, and entries of the same length that repeat the text."""
    ends = (0, padding) if padding > 0 else (-padding, 0)
    padded = F.pad(value, (*[0, 0] * (value.dim() - 2), *ends), value=fill)
    times = -(-padded.shape[1] // value.shape[1])
    longer = value.repeat(1, times, *[1] * (value.dim() - 2))[:, : padded.shape[1]]
    return [padded, longer]


def _rows_of_tokens(output: Any, count: int) -> Float[Tensor, "row dim"]:
    """The output's rows of the first example; an `InputError` unless there is one per token."""
    rows = output_rows(output)[0]
    if len(rows) != count:
        raise InputError(
            f"expected an output for each of {count} tokens, got {len(rows)}; what comes before "
            "a token cannot be compared"
        )
    return rows


def _largest_change(clean: Tensor, changed: Tensor) -> RowChanges:
    """The largest absolute change of each row."""
    return (clean.double() - changed.double()).abs().amax(dim=-1).cpu()


def _largest_leak(changes: Float[Tensor, "change row"], causes: list[int], clean: Tensor) -> Leak:
    """The largest of all changes, relative to the spread of the clean output."""
    scale = float(clean.double().std(correction=0))
    relative = changes / scale if scale else changes
    worst = int(relative.argmax())
    return Leak(
        float(relative.max()),
        worst % changes.shape[1],
        causes[worst // changes.shape[1]],
        scale,
        relative.amax(dim=0),
    )
