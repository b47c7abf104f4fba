"""The decoding loop, `generate`, and what it needs of a model."""

from collections import deque
from collections.abc import Iterator
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.models.generation.hypotheses import Hypotheses, SearchState
from regard.models.generation.prompts import Inputs, Prefix, prepare_prompt
from regard.models.generation.request import GenerationRequest
from regard.models.generation.result import GeneratedSequences
from regard.models.generation.settings import GenerationSettings
from regard.models.generation.stopping import TextDecoder
from regard.models.generation.strategy import Strategy

Self = TypeVar("Self")


@runtime_checkable
class DecodingState(Protocol):
    """What a model keeps between two steps of decoding, such as its key/value cache."""

    def select(self: Self, rows: Int[Tensor, " row"]) -> Self:
        """The state of these rows in this order; a row may be repeated, and others are dropped."""
        ...


S = TypeVar("S", bound=DecodingState)


@runtime_checkable
class GenerativeModel(Protocol[S]):
    """A model that generates tokens: an encoder-decoder, a decoder alone, an image captioner.

    A model with `reads_source` encodes its inputs in `begin` and generates from the start token on;
    any other continues the prompt that its inputs are. The caller may change the logits of `step`
    in place. A state must not be used again after `step` or `select` was called on it, because its
    memory is reused.
    """

    generation: GenerationSettings

    @property
    def reads_source(self) -> bool:
        """True if the inputs are a source, such as a sentence to translate, and no beginning."""
        ...

    def begin(self, inputs: Any, attention_mask: Int[Tensor, "row length"] | None = None) -> S:
        """The state before the first token; a prompt is padded on its left."""
        ...

    def step(
        self, state: S, tokens: Int[Tensor, "row new"]
    ) -> tuple[Float[Tensor, "row vocab"], S]:
        """The logits after the last of the new tokens, and the state after reading them."""
        ...


def generate(
    model: GenerativeModel[Any],
    inputs: Inputs,
    attention_mask: Tensor | None = None,
    *,
    prefix: Prefix | None = None,
    tokenizer: TextDecoder | None = None,
    **settings: Any,
) -> GeneratedSequences:
    """The sequences that a model generates from its inputs, by greedy search unless set otherwise.

    The inputs are ids, (batch, length) with padding on either side that `attention_mask` marks,
    or a list of sequences. `prefix` is what the target begins with: ids for all inputs, or for each
    of them. The settings are those of `GenerationSettings`; what is not given is as in
    `model.generation`.
    """
    request = make_request(model, inputs, attention_mask, prefix, tokenizer, settings)
    (search,) = deque(decode(model, request), maxlen=1)  # only the last state is needed
    return request.collect(search.finished)


def make_request(
    model: GenerativeModel[Any],
    inputs: Inputs,
    attention_mask: Tensor | None,
    prefix: Prefix | None,
    tokenizer: TextDecoder | None,
    changes: dict[str, Any],
) -> GenerationRequest:
    """The request of these arguments, checked; without a tokenizer, with the model's own."""
    settings = model.generation.replace(**changes)
    tokenizer = getattr(model, "tokenizer", None) if tokenizer is None else tokenizer
    prompt = prepare_prompt(inputs, attention_mask, prefix, settings, model.reads_source)
    return GenerationRequest(settings, prompt, tokenizer, model.reads_source)


def decode(
    model: GenerativeModel[Any], request: GenerationRequest, strategy: Strategy | None = None
) -> Iterator[SearchState]:
    """The search after each token, until no hypothesis is left to continue.

    Without a `strategy` it is the one of the request's settings.
    """
    prompt, strategy = request.prompt, strategy or request.strategy()
    search = SearchState(Hypotheses.from_prompts(prompt.tokens))
    tokens = prompt.model_ids(request.settings.pad_token_id or 0)
    with torch.no_grad():
        state = model.begin(prompt.inputs, prompt.mask)
    while search.active.count:
        # The yield must stay outside of no_grad: it would change the mode of the caller's code.
        with torch.no_grad():
            logits, state = model.step(state, tokens)
            if search.active.new_tokens == 0:
                request.check_tokens(logits.shape[1])
            rows = search.active.all_rows
            search = strategy(logits.float(), search)
            state, tokens = _reorder(state, search.active, rows)
        yield search


def _reorder(
    state: S, hypotheses: Hypotheses, rows: Int[Tensor, " row"]
) -> tuple[S, Int[Tensor, "new_row 1"]]:
    """The model's state with the rows that the hypotheses continue, and the tokens to read next.

    In greedy search the rows usually stay as they are, and nothing is copied.
    """
    continued = hypotheses.row_history[:, -1]
    moved = len(continued) and not torch.equal(continued, rows)
    return state.select(continued) if moved else state, hypotheses.ids[:, -1:]
