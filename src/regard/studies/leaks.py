"""What should make no difference: later tokens for what came before, and padding for anything."""

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
from regard.tracing.inputs.example import Prepared, forward, prepare

Rows = Float[Tensor, " row"]


@dataclass(frozen=True, eq=False)
class Leak:
    """How far an output changed that should have stayed, relative to its spread.

    `largest` is the largest change of any number of the output over `scale`, the standard
    deviation of all of them, `row` where it is, `change` what was changed there: the first of the
    tokens that were exchanged, or how many were padded. `rows` has the largest of each row; 0
    where nothing could be compared.
    """

    largest: float
    row: int
    change: int
    scale: float
    rows: Rows


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

    From each of some places on, the tokens are exchanged for others that are drawn at random, and
    the rows before are compared. Of an encoder-decoder they are the decoder's. A model that looks
    both ways, as an encoder does, has a large one: whether it should is for the caller to know.

    >>> import torch
    >>> from regard.models import Transformer
    >>> from regard.studies.leaks import causal_leak
    >>> settings = {"vocab": 101, "d_model": 12, "layers": 1, "heads": 3, "d_ff": 17}
    >>> inputs = {"input_ids": torch.tensor([[5, 6, 7, 8]])}
    >>> causal_leak(Transformer(kind="decoder", **settings), None, inputs).largest
    0.0
    """
    example = prepare(model, processor, inputs, target=target)
    name = "decoder_input_ids" if example.decodes else example.held
    if name is None or example.arguments[name].shape[1] < 2:
        raise InputError(
            "expected at least two tokens, of which the later are exchanged, got "
            f"{', '.join(example.arguments)}"
        )
    given: Tensor = example.arguments[name]
    count = given.shape[1]
    whole = _rows(forward(model, example.arguments), count)
    generator = torch.Generator().manual_seed(seed)
    places = sorted({round(1 + n * (count - 2) / max(1, cuts - 1)) for n in range(cuts)})
    found = torch.zeros(len(places), count, dtype=torch.float64)
    for changes, cut in zip(found, places, strict=True):
        # alone, as the whole ran: sums in another order would differ in their last bits
        other = example.arguments | {name: _exchanged(given, cut, generator)}
        changes[:cut] = _change(whole, _rows(forward(model, other), count))[:cut]
    return _leak(found, places, whole)


def padding_leak(
    model: nn.Module,
    processor: Any,
    inputs: Any,
    *,
    target: str | None = None,
    padding: int = 7,
    side: Literal["left", "right"] = "right",
) -> Leak:
    """How much it changes an output that its text stands padded in a batch, beside a longer one.

    The longer text is made of the same tokens. It is nearly 0 if the model keeps to its
    attention_mask and its examples apart: sums may be made in another order. Of an encoder-decoder
    the source is padded. Models without relative positions that count them from the left may need
    position_ids where padding is on that `side`.

    >>> import torch
    >>> from regard.models import Transformer
    >>> from regard.studies.leaks import padding_leak
    >>> settings = {"vocab": 101, "d_model": 12, "layers": 1, "heads": 3, "d_ff": 17}
    >>> inputs = {"input_ids": torch.tensor([[5, 6, 7, 8]])}
    >>> padding_leak(Transformer(kind="encoder", **settings), None, inputs).largest < 1e-5
    True
    """
    example = prepare(model, processor, inputs, target=target)
    if padding < 1:
        raise InputError(f"expected at least one token of padding, got {padding}")
    arguments = _padded(model, processor, example, padding if side == "right" else -padding)
    whole = output_rows(forward(model, example.arguments))[0]
    beside = output_rows(forward(model, arguments))[0]
    if len(beside) > len(whole):
        beside = beside[: len(whole)] if side == "right" else beside[-len(whole) :]
    return _leak(_change(whole, beside)[None], [padding], whole)


def _exchanged(given: Tensor, cut: int, generator: torch.Generator) -> Tensor:
    """What was given, with other ids, or vectors, from a place on."""
    later = given[:, cut:]
    if given.is_floating_point():
        other = torch.randn(later.shape, generator=generator).to(later) * given.std()
    else:
        most = max(1, int(given.max()))  # ids up to the largest are in the vocabulary
        steps = torch.randint(1, most + 1, later.shape, generator=generator).to(later)
        other = (later + steps) % (most + 1)
    return torch.cat([given[:, :cut], other], dim=1)


def _padded(model: nn.Module, processor: Any, example: Prepared, padding: int) -> Mapping[str, Any]:
    """A batch of two: the example padded, on its left if less than 0, and a longer one."""
    name = example.held
    takes = "attention_mask" in inspect.signature(model.forward).parameters
    if name is None or not (takes or "attention_mask" in example.arguments):
        raise InputError(
            f"{type(model).__name__} cannot be told of padding: expected a model with an "
            "attention_mask and an input of tokens"
        )
    given: Tensor = example.arguments[name]
    marks = torch.ones(given.shape[:2], dtype=torch.long, device=given.device)
    arguments = {"attention_mask": marks} | example.arguments
    filling = {name: getattr(source_tokenizer(processor), "pad_token_id", None) or 0}
    found = {}
    for each, value in arguments.items():
        found[each] = value
        if isinstance(value, Tensor) and value.dim() and len(value) == 1:
            wide = not each.startswith("decoder_") and value.shape[:2] == given.shape[:2]
            rows = [value, value] if not wide else _widened(value, padding, filling.get(each, 0))
            found[each] = torch.cat(rows)
    return found


def _widened(value: Tensor, padding: int, filling: int) -> list[Tensor]:
    """What each token has, padded, and as much of it going on with its beginning."""
    ends = (0, padding) if padding > 0 else (-padding, 0)
    own = F.pad(value, (*[0, 0] * (value.dim() - 2), *ends), value=filling)
    times = -(-own.shape[1] // value.shape[1])
    longer = value.repeat(1, times, *[1] * (value.dim() - 2))[:, : own.shape[1]]
    return [own, longer]


def _rows(output: Any, count: int) -> Float[Tensor, "row dim"]:
    found = output_rows(output)[0]
    if len(found) != count:
        raise InputError(
            f"expected an output for each of {count} tokens, got {len(found)}; what comes before "
            "a token cannot be compared"
        )
    return found


def _change(whole: Tensor, other: Tensor) -> Rows:
    return (whole.double() - other.double()).abs().amax(dim=-1).cpu()


def _leak(found: Float[Tensor, "change row"], changes: list[int], whole: Tensor) -> Leak:
    scale = float(whole.double().std(correction=0))
    relative = found / scale if scale else found
    worst = int(relative.argmax())
    return Leak(
        float(relative.max()),
        worst % found.shape[1],
        changes[worst // found.shape[1]],
        scale,
        relative.amax(dim=0),
    )
