"""The induction test: random tokens that come twice, and which heads find what followed them.

The model reads "<s> 7 3 9 7 3 9". From the second 7, an induction head attends to the first 3, what
followed 7 before; a duplicate-token head attends to the first 7. A model with induction heads also
predicts the second copy better than the first.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.arguments import check_first_argument
from regard.attribution.clean_run import source_tokenizer
from regard.attribution.objectives import output_rows, vocabulary_size
from regard.errors import InputError
from regard.measures.heads import distance_profile
from regard.measures.repeated_tokens import repeat_attention
from regard.tracing.inputs.example import NON_TEXT_ARGUMENTS, prepare_example, trace_example
from regard.types import Trace

Masses = Float[Tensor, "sequence head"]

_NO_LIMIT = 1 << 62  # the vocabulary of a model or tokenizer that does not tell its size


@dataclass(frozen=True, eq=False)
class CopyWeights:
    """How much weight the heads of one site put on earlier copies, in each sequence."""

    induction: Masses
    """The weight of tokens of the second copy on what followed them in the first."""
    duplicate: Masses
    """Their weight on the same token in the first copy."""
    previous: Masses
    """The weight of all tokens on the token before."""

    def mean(self, pattern: str = "induction") -> Float[Tensor, " head"]:
        """The weight on one of the patterns, averaged over all sequences."""
        masses: Tensor = getattr(self, pattern)
        return masses.mean(dim=0)


@dataclass(frozen=True, eq=False)
class InductionTest:
    """What heads did with repeated random tokens, by site, and the model's loss in each copy.

    `loss` is the mean over the first and over the second copy, in nats; NaN where the model does
    not predict next tokens. The difference is what the model took from its context.
    """

    length: int
    sequences: Int[Tensor, "sequence token"]
    sites: Mapping[str, CopyWeights]
    loss: tuple[float, float]


@dataclass(frozen=True)
class RepeatOptions:
    """How many sequences are drawn, of how many random tokens, each of which comes twice.

    Tokens are drawn from `ids`, or from all that are not special. Give the ids of some text that
    the model knows where its vocabulary is large: a small model has seldom met most of it.
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


@check_first_argument
def induction_test(
    model: nn.Module,
    processor: Any = None,
    *,
    options: RepeatOptions = RepeatOptions(),  # noqa: B008 frozen
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> InductionTest:
    """Find induction heads by the test that discovered them (Olsson et al. 2022).

    Their "prefix matching score" is the weight from each token of the second copy on what followed
    it in the first. The model reads a start token, if there is one, and then the random tokens
    twice, none of them special and none the same within a copy. The decoder of an encoder-decoder
    is given the same tokens. `on_progress(done, total)` counts sequences.

    >>> import torch
    >>> from regard.models import Transformer
    >>> from regard.studies import RepeatOptions, induction_test
    >>> settings = {"kind": "decoder", "d_model": 12, "layers": 1, "heads": 3, "d_ff": 17}
    >>> test = induction_test(Transformer(vocab=101, **settings), options=RepeatOptions(7, 2))
    >>> test.sites["decoder.layers.0.attention"].induction.shape
    torch.Size([2, 3])
    """
    sequences = _draw_sequences(model, processor, options)
    masses = dict[str, list[Tensor]]()
    losses = list[tuple[float, float]]()
    for number, ids in enumerate(sequences):
        example = prepare_example(model, processor, _as_arguments(model, ids))
        output, trace = trace_example(model, example, atlas=0)
        for site, site_masses in _copy_masses(trace).items():
            masses.setdefault(site, []).append(site_masses)
        losses.append(_loss_of_copies(model, output, trace, ids, options.length))
        on_progress(number + 1, options.sequences)
    if not masses:
        raise InputError(f"{type(model).__name__} was not seen to attend to its own tokens")
    sites = {
        site: CopyWeights(*torch.stack(site_masses).unbind(dim=1))
        for site, site_masses in masses.items()
    }
    first, second = torch.tensor(losses, dtype=torch.float64).mean(dim=0).tolist()
    return InductionTest(options.length, sequences, sites, (first, second))


def _draw_sequences(
    model: nn.Module, processor: Any, options: RepeatOptions
) -> Int[Tensor, "sequence token"]:
    """Random ids that come twice, with the start token before them if there is one."""
    tokenizer, config = source_tokenizer(processor), getattr(model, "config", None)
    special = {*getattr(tokenizer, "all_special_ids", ())}
    size = min(vocabulary_size(model), _source_vocabulary(config), _tokenizer_size(tokenizer))
    pool = range(size) if options.ids is None else dict.fromkeys(options.ids)
    plain = torch.tensor([number for number in pool if number not in special])
    if len(plain) < options.length:
        raise InputError(
            f"expected at least {options.length} tokens that are not special to draw from, got "
            f"{len(plain)}; repeat fewer"
        )
    generator = torch.Generator().manual_seed(options.seed)
    orders = [torch.randperm(len(plain), generator=generator) for _ in range(options.sequences)]
    copies = torch.stack([torch.cat([plain[order][: options.length]] * 2) for order in orders])
    start = _start_token(tokenizer, config)
    if start is None or start >= size:  # a config may keep the start token of another vocabulary
        return copies
    return torch.cat([copies.new_full((len(copies), 1), start), copies], dim=1)


def _start_token(tokenizer: Any, config: Any) -> int | None:
    """The id that texts begin with, from the tokenizer or else the config; None without one."""
    names = [(tokenizer, "bos_token_id"), (tokenizer, "cls_token_id"), (config, "bos_token_id")]
    numbers = (getattr(owner, name, None) for owner, name in names)
    return next((number for number in numbers if isinstance(number, int)), None)


def _source_vocabulary(config: Any) -> int:
    """The size of the source vocabulary that the config names, without a limit if it names none."""
    size = getattr(config, "vocab", None)
    return size if isinstance(size, int) else _NO_LIMIT


def _tokenizer_size(tokenizer: Any) -> int:
    """The number of tokens that the tokenizer has, without a limit if it does not tell."""
    return len(tokenizer) if hasattr(tokenizer, "__len__") else _NO_LIMIT


def _as_arguments(model: nn.Module, ids: Int[Tensor, " token"]) -> dict[str, Tensor]:
    """The ids as keyword arguments of the model's forward, also for its decoder if it has one."""
    names = list(inspect.signature(model.forward).parameters)
    if not names or names[0] in NON_TEXT_ARGUMENTS:
        raise InputError(f"{type(model).__name__} reads no ids that could be repeated")
    parameter = next(model.parameters(), None)
    batch = ids[None] if parameter is None else ids[None].to(parameter.device)
    arguments = {"input_ids" if "input_ids" in names else names[0]: batch}
    has_decoder = getattr(getattr(model, "config", None), "is_encoder_decoder", True)
    if "decoder_input_ids" in names and has_decoder:
        arguments["decoder_input_ids"] = batch
    return arguments


def _copy_masses(trace: Trace) -> dict[str, Float[Tensor, "pattern head"]]:
    """The weight of each head on the three patterns of `CopyWeights`, by site."""
    masses = {}
    for attention_map in trace.maps:
        if attention_map.rows.stream == attention_map.columns.stream:
            site = attention_map.site
            copies = repeat_attention(trace, site)
            previous = distance_profile(trace, site, 1)[:, 0]
            masses[site] = torch.stack([copies.induction, copies.duplicate, previous])
    return masses


def _loss_of_copies(
    model: nn.Module, output: Any, trace: Trace, ids: Int[Tensor, " token"], length: int
) -> tuple[float, float]:
    """The loss of a causal model in each copy, without the copy's first token, which is random."""
    logits = output_rows(output)[0]
    if not trace.of("decoder") or logits.shape != (len(ids), vocabulary_size(model)):
        return float("nan"), float("nan")
    predicted = logits[:-1].double().log_softmax(dim=-1).cpu()
    losses = -predicted.gather(1, ids[1:, None])[:, 0]
    rest = length - 1  # the tokens of a copy without its first
    return float(losses[-length - rest : -length].mean()), float(losses[-rest:].mean())
