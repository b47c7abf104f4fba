"""Text generation, token by token: greedy search, sampling and beam search over one loop.

Any model can generate that has `begin(inputs) -> state` and `step(state, tokens) -> logits, state`
(`loop.GenerativeModel`). One call of `generate` goes through these files::

    settings.py            GenerationSettings: the options, read from generation_config.json
    prompts.py             inputs of any form -> Prompt: the first tokens of every batch row
    request.py             settings + prompt -> processors, stopping criteria and a strategy
    loop.py                step, choose, reorder, until no hypothesis is left
    logits_processors.py   change the logits: forced, forbidden and repeated tokens
    strategy.py            greedy search;  sampling.py, beam.py: the other strategies
    stopping.py            end tokens, maximum length, stop strings
    result.py              finished hypotheses -> GeneratedSequences
    streaming.py           the same loop, given out token by token

An example: a translator, one input, two beams. The batch row is where a hypothesis lies in the
model's key/value cache, and it changes from step to step::

    step 0   row 0: <s>                       one row, since all beams would be equal
             candidates  I -0.2, We -1.9, ...
    step 1   row 0: <s> I                     continues row 0
             row 1: <s> We                    continues row 0
             candidates  I love -0.3, I like -1.4, We love -2.2, ...
    step 2   row 0: <s> I love                continues row 0
             row 1: <s> I like                continues row 0 as well; row 1 is dropped

After each step the strategy has the new rows in `Hypotheses.row_history[:, -1]`, here [0, 0], and
the loop calls `state.select([0, 0])`: this is how a beam's rows are put back in order. A hypothesis
whose token is an end token moves from `SearchState.active` to `SearchState.finished`, with its
log-probability divided by length ** length_penalty as its score.

    >>> import torch
    >>> from regard.models import Transformer
    >>> model = Transformer(vocab=11, d_model=8, layers=1, heads=2, d_ff=16, dropout=0.0).eval()
    >>> model.generation = model.generation.replace(decoder_start_token_id=0, eos_token_id=1)
    >>> model.generate(torch.tensor([[3, 5, 2]]), num_beams=2, max_new_tokens=4).rows.shape[1]
    1
"""

from regard.models.generation.loop import DecodingState, GenerativeModel, generate
from regard.models.generation.result import GeneratedSequences
from regard.models.generation.settings import GenerationSettings
from regard.models.generation.streaming import stream, stream_ids

__all__ = [
    "DecodingState",
    "GeneratedSequences",
    "GenerationSettings",
    "GenerativeModel",
    "generate",
    "stream",
    "stream_ids",
]
