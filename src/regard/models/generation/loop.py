"""The one loop of decoding: step, choose, select, until nothing goes on."""

from collections import deque
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from regard.models.generation.drafts import Board, Drafts
from regard.models.generation.ends import Decoder
from regard.models.generation.generated import Generated
from regard.models.generation.plan import Plan
from regard.models.generation.prompts import Inputs, Prefix, prepare
from regard.models.generation.strategy import Strategy, everyone
from regard.models.generation.writer import S, Writer


def generate(
    writer: Writer[Any],
    inputs: Inputs,
    attention_mask: Tensor | None = None,
    *,
    prefix: Prefix | None = None,
    tokenizer: Decoder | None = None,
    **settings: Any,
) -> Generated:
    """What the model writes about its inputs, or after them: greedy unless the settings say else.

    The inputs are ids, (batch, length) with padding on either side that `attention_mask` marks,
    or a list of sequences. `prefix` is what the target begins with: ids for all, or for each.
    The settings are those of `Settings`; what is left out is as in `writer.generation`.
    """
    plan = plan_for(writer, inputs, attention_mask, prefix, tokenizer, settings)
    (board,) = deque(write(writer, plan), maxlen=1)
    return plan.harvest(board.finished)


def plan_for(
    writer: Writer[Any],
    inputs: Inputs,
    attention_mask: Tensor | None,
    prefix: Prefix | None,
    tokenizer: Decoder | None,
    changes: dict[str, Any],
) -> Plan:
    """What is to be done, checked; the tokenizer is the writer's own unless one is given."""
    settings = writer.generation.updated(**changes)
    tokenizer = getattr(writer, "tokenizer", None) if tokenizer is None else tokenizer
    prompt = prepare(inputs, attention_mask, prefix, settings, writer.reads_source)
    return Plan(settings, prompt, tokenizer, writer.reads_source)


def write(writer: Writer[Any], plan: Plan, strategy: Strategy | None = None) -> Iterator[Board]:
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
