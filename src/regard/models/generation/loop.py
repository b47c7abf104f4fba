"""The one loop of decoding: step, choose, select, until nothing goes on."""

from collections import deque
from collections.abc import Iterator
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.models.generation.hypotheses import Board, Drafts
from regard.models.generation.prompts import Inputs, Prefix, prepare
from regard.models.generation.request import Plan
from regard.models.generation.result import GeneratedSequences
from regard.models.generation.settings import GenerationSettings
from regard.models.generation.stopping import Decoder
from regard.models.generation.strategy import Strategy, everyone

Own = TypeVar("Own")


@runtime_checkable
class DecodingState(Protocol):
    """All that a model remembers of what its rows have read."""

    def select(self: Own, rows: Int[Tensor, " row"]) -> Own:
        """These rows in this order, a row as often as it is named; the others leave."""
        ...


S = TypeVar("S", bound=DecodingState)


@runtime_checkable
class GenerativeModel(Protocol[S]):
    """A model that writes: an encoder-decoder, a decoder alone, a captioner.

    A writer with `reads_source` encodes its inputs in `begin` and starts to write from the start
    token; any other goes on from the prompt that its inputs are. The logits of `step` are the
    caller's to change, and a state is spent once `step` or `select` was called on it.
    """

    generation: GenerationSettings

    @property
    def reads_source(self) -> bool:
        """Whether the inputs are a source to write about, and not the beginning of the text."""
        ...

    def begin(self, inputs: Any, attention_mask: Int[Tensor, "row length"] | None = None) -> S:
        """The state before the first token; a prompt is padded on its left."""
        ...

    def step(
        self, state: S, tokens: Int[Tensor, "row new"]
    ) -> tuple[Float[Tensor, "row vocab"], S]:
        """The logits after the last of the new tokens, and the state that has read them."""
        ...


def generate(
    writer: GenerativeModel[Any],
    inputs: Inputs,
    attention_mask: Tensor | None = None,
    *,
    prefix: Prefix | None = None,
    tokenizer: Decoder | None = None,
    **settings: Any,
) -> GeneratedSequences:
    """What the model writes about its inputs, or after them: greedy unless the settings say else.

    The inputs are ids, (batch, length) with padding on either side that `attention_mask` marks,
    or a list of sequences. `prefix` is what the target begins with: ids for all, or for each.
    The settings are those of `GenerationSettings`; what is left out is as in `writer.generation`.
    """
    plan = plan_for(writer, inputs, attention_mask, prefix, tokenizer, settings)
    (board,) = deque(write(writer, plan), maxlen=1)
    return plan.harvest(board.finished)


def plan_for(
    writer: GenerativeModel[Any],
    inputs: Inputs,
    attention_mask: Tensor | None,
    prefix: Prefix | None,
    tokenizer: Decoder | None,
    changes: dict[str, Any],
) -> Plan:
    """What is to be done, checked; the tokenizer is the writer's own unless one is given."""
    settings = writer.generation.replace(**changes)
    tokenizer = getattr(writer, "tokenizer", None) if tokenizer is None else tokenizer
    prompt = prepare(inputs, attention_mask, prefix, settings, writer.reads_source)
    return Plan(settings, prompt, tokenizer, writer.reads_source)


def write(
    writer: GenerativeModel[Any], plan: Plan, strategy: Strategy | None = None
) -> Iterator[Board]:
    """The board after each token until no draft goes on, by the strategy of the plan or another."""
    prompt, strategy = plan.prompt, strategy or plan.strategy()
    board = Board(Drafts.of(prompt.tokens))
    tokens = prompt.readable(plan.settings.pad_token_id or 0)
    with torch.no_grad():
        state = writer.begin(prompt.inputs, prompt.mask)
    while board.drafts.rows:
        with torch.no_grad():  # never around the yield: the caller has a mode of its own
            logits, state = writer.step(state, tokens)
            if board.drafts.new == 0:
                plan.check(logits.shape[1])
            rows = everyone(board.drafts)
            board = strategy(logits.float(), board)
            state, tokens = _moved(state, board.drafts, rows)
        yield board


def _moved(
    state: S, drafts: Drafts, rows: Int[Tensor, " row"]
) -> tuple[S, Int[Tensor, "new_row 1"]]:
    """The state with the rows that go on, where they are not all rows as they were."""
    chosen = drafts.path[:, -1]
    moved = len(chosen) and not torch.equal(chosen, rows)
    return state.select(chosen) if moved else state, drafts.ids[:, -1:]
