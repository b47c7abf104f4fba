"""Small writers with fixed weights, and the search that tries every sequence."""

from dataclasses import dataclass, replace
from itertools import product

import torch
from torch import Tensor

from regard.models.generation import GenerationSettings

EOS, START = 1, 0


@dataclass(frozen=True)
class Memory:
    """What each row has read: a vector that depends on all of it, and the tokens themselves."""

    hidden: Tensor
    read: Tensor
    real: Tensor | None = None

    def select(self, rows: Tensor) -> "Memory":
        return replace(self, hidden=self.hidden[rows], read=self.read[rows])


class Scribe:
    """A tiny recurrent network that writes; it notes what its rows had read at each step."""

    tokenizer = None

    def __init__(self, vocab=7, hidden=5, reads_source=False, seed=0, sharp=3.0, **settings):
        source = torch.Generator().manual_seed(seed)
        self.embedding = torch.randn(vocab, hidden, generator=source)
        self.turn = torch.randn(hidden, hidden, generator=source)
        self.out = sharp * torch.randn(hidden, vocab, generator=source)
        self.reads_source = reads_source
        defaults = {"eos_token_id": EOS, "decoder_start_token_id": START} | settings
        self.generation = GenerationSettings().replace(**defaults)
        self.steps = []

    def begin(self, inputs, attention_mask=None):
        hidden = torch.zeros(len(inputs), self.turn.shape[0])
        nothing = torch.empty(len(inputs), 0, dtype=torch.long)
        if not self.reads_source:
            return Memory(hidden, nothing, attention_mask)
        return Memory(self._read(hidden, inputs, attention_mask), nothing)

    def step(self, state, tokens):
        hidden = self._read(state.hidden, tokens, state.real)
        read = torch.cat([state.read, tokens], dim=1)
        self.steps.append(read)
        return hidden @ self.out, Memory(hidden, read)

    def _read(self, hidden, tokens, real):
        for place in range(tokens.shape[1]):
            new = torch.tanh(hidden @ self.turn + self.embedding[tokens[:, place]])
            hidden = new if real is None else torch.where(real[:, place, None] > 0, new, hidden)
        return hidden

    def log_probability(self, inputs, target):
        """That of a target after one input, teacher-forced."""
        start = torch.tensor([[START]]) if self.reads_source else inputs
        logits, state = self.step(self.begin(inputs), start)
        total = 0.0
        for token in target:
            total += logits.log_softmax(dim=1)[0, token]
            logits, state = self.step(state, torch.tensor([[token]]))
        return float(total)


class Table:
    """A writer whose next token depends on the last one alone, by rows of probabilities."""

    tokenizer = None
    reads_source = False

    def __init__(self, rows, **settings):
        self.logs = torch.tensor(rows).log()
        self.generation = GenerationSettings().replace(**settings)

    def begin(self, inputs, attention_mask=None):
        nothing = torch.empty(len(inputs), 0, dtype=torch.long)
        return Memory(nothing, nothing)

    def step(self, state, tokens):
        return self.logs[tokens[:, -1]], state


def every_sequence(scribe, inputs, longest):
    """All sequences that end, or are as long as can be, with their log-probabilities."""
    vocab = scribe.out.shape[1]
    others = [token for token in range(vocab) if token != EOS]
    for length in range(1, longest + 1):
        for body in product(others, repeat=length - 1):
            for last in [EOS] if length < longest else range(vocab):
                yield scribe.log_probability(inputs, (*body, last)), (*body, last)


class Letters:
    """A tokenizer of bytes: id 3 + b is the byte b, the first three ids are special."""

    def decode(self, token_ids, *, skip_special_tokens=True):
        return bytes(int(i) - 3 for i in token_ids if i >= 3).decode(errors="replace")

    def encode(self, text):
        return [3 + byte for byte in text.encode()]


class Reciter:
    """A writer that recites one text of bytes, whatever it reads, and ends."""

    def __init__(self, text, **settings):
        self.tokenizer, self.reads_source = Letters(), True
        self.ids = [*self.tokenizer.encode(text), EOS]
        self.generation = GenerationSettings().replace(
            eos_token_id=EOS, decoder_start_token_id=START, max_new_tokens=200, **settings
        )

    def begin(self, inputs, attention_mask=None):
        return Memory(torch.zeros(len(inputs), 1), torch.zeros(len(inputs), 0, dtype=torch.long))

    def step(self, state, tokens):
        place = int(state.hidden[0, 0])
        logits = torch.full((len(tokens), 259), -5.0)
        logits[:, self.ids[min(place, len(self.ids) - 1)]] = 5.0
        return logits, replace(state, hidden=state.hidden + 1)
