"""Random tokens that come twice: which heads find what followed, and whether the model copies."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attribution.clean_run import source_tokenizer
from regard.attribution.objectives import output_rows, vocabulary_size
from regard.errors import InputError
from regard.measures.heads import distance_profile
from regard.measures.repeated_tokens import repeat_attention
from regard.tracing.inputs.example import OTHERS, look, prepare
from regard.types import Trace

Scores = Float[Tensor, "sequence head"]


@dataclass(frozen=True, eq=False)
class Copying:
    """The scores of one site's heads in each sequence."""

    induction: Scores
    """The weight of tokens of the second copy on what followed them in the first."""
    duplicate: Scores
    """Their weight on themselves in the first copy."""
    previous: Scores
    """The weight of all tokens on the one before."""

    def mean(self, score: str = "induction") -> Float[Tensor, " head"]:
        """One of the scores, over all sequences."""
        found: Tensor = getattr(self, score)
        return found.mean(dim=0)


@dataclass(frozen=True, eq=False)
class Repetition:
    """What heads did with repeated random tokens, by site, and how surprised the model was.

    `loss` is the mean of the model's own in the first and in the second copy, in nats; NaN where
    it does not tell next tokens. What it lost is what it took from its context.
    """

    length: int
    sequences: Int[Tensor, "sequence token"]
    sites: Mapping[str, Copying]
    loss: tuple[float, float]


@dataclass(frozen=True)
class Repeating:
    """How much there is to copy: so many sequences of so many random tokens, each of them twice.

    They are drawn from `ids`: those of some text that the model knows, since of a large vocabulary
    a small model has seldom met most; from all plain tokens where none are given.
    """

    length: int = 25
    sequences: int = 4
    seed: int = 0
    ids: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.length < 2 or self.sequences < 1:
            raise InputError(
                "expected at least one sequence of at least two tokens to repeat, got "
                f"{self.sequences} of {self.length}"
            )


def repeats(
    model: nn.Module,
    processor: Any = None,
    *,
    how: Repeating = Repeating(),  # noqa: B008 frozen
    told: Callable[[int, int], None] = lambda done, of: None,
) -> Repetition:
    """Induction heads by the test that found them (Olsson et al. 2022, "prefix matching").

    The model reads a start token, if there is one, and random tokens twice, none of them special
    and none the same within a copy. An induction head looks from each token of the second copy at
    what followed it in the first; a duplicate-token head at the token itself there. A decoder
    beside an encoder is given the same tokens. `told` hears how many sequences are done.

    >>> import torch
    >>> from regard.models import Transformer
    >>> from regard.studies.repeated_sequences import Repeating, repeats
    >>> settings = {"kind": "decoder", "d_model": 12, "layers": 1, "heads": 3, "d_ff": 17}
    >>> found = repeats(Transformer(vocab=101, **settings), how=Repeating(7, 2))
    >>> found.sites["decoder.layers.0.attention"].induction.shape
    torch.Size([2, 3])
    """
    drawn = _drawn(model, processor, how)
    found = dict[str, list[Tensor]]()
    losses = list[tuple[float, float]]()
    for number, ids in enumerate(drawn):
        example = prepare(model, processor, _given(model, ids))
        output, trace = look(model, example, atlas=0)
        for site, scores in _scored(trace).items():
            found.setdefault(site, []).append(scores)
        losses.append(_losses(model, output, trace, ids, how.length))
        told(number + 1, how.sequences)
    if not found:
        raise InputError(f"{type(model).__name__} was not seen to attend to its own tokens")
    sites = {site: Copying(*torch.stack(each).unbind(dim=1)) for site, each in found.items()}
    first, second = torch.tensor(losses, dtype=torch.float64).mean(dim=0).tolist()
    return Repetition(how.length, drawn, sites, (first, second))


def _drawn(model: nn.Module, processor: Any, how: Repeating) -> Int[Tensor, "sequence token"]:
    tokenizer, config = source_tokenizer(processor), getattr(model, "config", None)
    special = {*getattr(tokenizer, "all_special_ids", ())}
    known = min(vocabulary_size(model), _source_vocabulary(config), _length(tokenizer))
    pool = range(known) if how.ids is None else dict.fromkeys(how.ids)
    plain = torch.tensor([number for number in pool if number not in special])
    if len(plain) < how.length:
        raise InputError(
            f"expected at least {how.length} tokens that are not special to draw from, got "
            f"{len(plain)}; repeat fewer"
        )
    generator = torch.Generator().manual_seed(how.seed)
    rows = [plain[torch.randperm(len(plain), generator=generator)] for _ in range(how.sequences)]
    copies = torch.stack([torch.cat([row[: how.length]] * 2) for row in rows])
    start = _start(tokenizer, config)
    if start is None or start >= known:  # a config may keep that of another vocabulary
        return copies
    return torch.cat([copies.new_full((len(copies), 1), start), copies], dim=1)


def _start(tokenizer: Any, config: Any) -> int | None:
    names = [(tokenizer, "bos_token_id"), (tokenizer, "cls_token_id"), (config, "bos_token_id")]
    found = (getattr(thing, name, None) for thing, name in names)
    return next((number for number in found if isinstance(number, int)), None)


def _source_vocabulary(config: Any) -> int:
    said = getattr(config, "vocab", None)
    return said if isinstance(said, int) else 1 << 62


def _length(tokenizer: Any) -> int:
    return len(tokenizer) if hasattr(tokenizer, "__len__") else 1 << 62


def _given(model: nn.Module, ids: Int[Tensor, " token"]) -> dict[str, Tensor]:
    """The ids by the name that the model's forward has for them, for its decoder too."""
    names = list(inspect.signature(model.forward).parameters)
    if not names or names[0] in OTHERS:
        raise InputError(f"{type(model).__name__} reads no ids that could be repeated")
    one = next(model.parameters(), None)
    batch = ids[None] if one is None else ids[None].to(one.device)
    found = {"input_ids" if "input_ids" in names else names[0]: batch}
    both = getattr(getattr(model, "config", None), "is_encoder_decoder", True)
    return found | ({"decoder_input_ids": batch} if "decoder_input_ids" in names and both else {})


def _scored(trace: Trace) -> dict[str, Float[Tensor, "score head"]]:
    found = {}
    for each in trace.maps:
        if each.rows.stream == each.columns.stream:
            copies = repeat_attention(trace, each.site)
            previous = distance_profile(trace, each.site, 1)[:, 0]
            found[each.site] = torch.stack([copies.induction, copies.duplicate, previous])
    return found


def _losses(
    model: nn.Module, output: Any, trace: Trace, ids: Int[Tensor, " token"], length: int
) -> tuple[float, float]:
    """The loss of a causal model in each copy; the first token of a copy follows from nothing."""
    logits = output_rows(output)[0]
    if not trace.of("decoder") or logits.shape != (len(ids), vocabulary_size(model)):
        return float("nan"), float("nan")
    said = logits[:-1].double().log_softmax(dim=-1).cpu()
    lost = -said.gather(1, ids[1:, None])[:, 0]
    inside = length - 1  # the tokens of a copy but its first
    return float(lost[-length - inside : -length].mean()), float(lost[-inside:].mean())
