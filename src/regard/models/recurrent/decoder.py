"""Decoders: where attention stands, before the update (Bahdanau) or after it (Luong)."""

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.models.recurrent.config import DecoderConfig
from regard.models.recurrent.recurrence import Hidden, Layers

Embedded = Float[Tensor, "row query dim"]
Features = Float[Tensor, "row query width"]
Contexts = Float[Tensor, "row query key_dim"]
Fixed = Float[Tensor, "row 1 key_dim"]
Read = Callable[[Float[Tensor, "row query hidden"], int], Contexts]  # queries, place of the first


class Decoder(nn.Module, ABC):
    """Turns what was written so far, and what it looks at, into the features of the next token."""

    layers: Layers

    def __init__(self, config: DecoderConfig, key_dim: int) -> None:
        super().__init__()
        self.config = config
        lstm = config.cell == "lstm"
        self.bridge = nn.Linear(key_dim, (1 + lstm) * config.layers * config.hidden)
        self.dropout = nn.Dropout(config.dropout)

    @abstractmethod
    def forward(
        self, embedded: Embedded, hidden: Hidden, read: Read | Fixed, place: int = 0
    ) -> tuple[Features, Hidden]:
        """The features after each token, the first of which stands at `place`.

        `read` gives the contexts of queries, or is the one context of all where nothing attends.
        """

    def start(self, final: Float[Tensor, "row key_dim"]) -> Hidden:
        """The state before the first token, s_0 = tanh(W h) (Bahdanau et al. 2015, A.2.2)."""
        parts = torch.tanh(self.bridge(final)).unflatten(-1, (-1, self.config.hidden))
        parts = parts.transpose(0, 1).contiguous()
        depth = self.config.layers
        fed = None
        if self.config.input_feeding:
            fed = final.new_zeros(len(final), self.config.width)
        return Hidden(parts[:depth], parts[depth:] if len(parts) > depth else None, fed)


class BahdanauDecoder(Decoder):
    """c_i = attend(s_{i-1}), s_i = f(s_{i-1}, y_{i-1}, c_i), and y_i from both (eq. 4 to 6).

    The output is deep, one maxout layer over s_i, y_{i-1} and c_i (A.2.2, where it is s_{i-1};
    section 3.1 has s_i), or with maxout=False one of tanh.
    """

    def __init__(self, config: DecoderConfig, key_dim: int, context_dim: int) -> None:
        super().__init__(config, key_dim)
        sizes = (config.d_embed, context_dim, config.hidden)
        self.layers = Layers(config.cell, sizes, config.layers, config.dropout)
        pieces = 2 if config.maxout else 1
        joined = config.hidden + config.d_embed + context_dim
        self.readout = nn.Linear(joined, pieces * config.width)

    def forward(
        self, embedded: Embedded, hidden: Hidden, read: Read | Fixed, place: int = 0
    ) -> tuple[Features, Hidden]:
        """The features after each token."""
        if isinstance(read, Tensor):
            contexts = read.expand(-1, embedded.shape[1], -1)
            states, hidden = self.layers.run(torch.cat([embedded, contexts], dim=-1), hidden)
            return self._deep(states, embedded, contexts), hidden
        steps = self.layers.steps(embedded, hidden)
        written, seen = [], []
        for step in range(embedded.shape[1]):
            context = read(steps.top[:, None], place + step)[:, 0]
            written.append(steps.advance(step, context))
            seen.append(context)
        states, contexts = torch.stack(written, dim=1), torch.stack(seen, dim=1)
        return self._deep(states, embedded, contexts), steps.hidden()

    def _deep(self, states: Tensor, embedded: Embedded, contexts: Contexts) -> Features:
        joined: Tensor = torch.cat([states, embedded, contexts], dim=-1)
        joined = self.readout(self.dropout(joined))
        if not self.config.maxout:
            return torch.tanh(joined)
        return joined.view(*joined.shape[:-1], -1, 2).amax(dim=-1)


class LuongDecoder(Decoder):
    """h_t = f(h_{t-1}, y_{t-1}), c_t = attend(h_t), h~_t = tanh(W [c_t; h_t]) (eq. 5).

    Without input feeding the recurrence knows nothing of attention: all steps run at once, and
    then all look at once. With it, h~_{t-1} enters the next step beside the token (section 3.3).
    """

    def __init__(self, config: DecoderConfig, key_dim: int, context_dim: int) -> None:
        super().__init__(config, key_dim)
        fed = config.width if config.input_feeding else 0
        sizes = (config.d_embed, fed, config.hidden)
        self.layers = Layers(config.cell, sizes, config.layers, config.dropout)
        self.readout = nn.Linear(context_dim + config.hidden, config.width, bias=False)

    def forward(
        self, embedded: Embedded, hidden: Hidden, read: Read | Fixed, place: int = 0
    ) -> tuple[Features, Hidden]:
        """The features after each token."""
        if hidden.fed is not None:
            return self._feeding(embedded, hidden, read, place)
        states, hidden = self.layers.run(embedded, hidden)
        contexts = read if isinstance(read, Tensor) else read(states, place)
        return self._attentional(contexts.expand(-1, states.shape[1], -1), states), hidden

    def _feeding(
        self, embedded: Embedded, hidden: Hidden, read: Read | Fixed, place: int
    ) -> tuple[Features, Hidden]:
        steps, fed, features = self.layers.steps(embedded, hidden), hidden.fed, []
        assert fed is not None
        for step in range(embedded.shape[1]):
            state = steps.advance(step, fed)[:, None]
            context = read if isinstance(read, Tensor) else read(state, place + step)
            fed = self._attentional(context, state)[:, 0]
            features.append(fed)
        return torch.stack(features, dim=1), steps.hidden(fed)

    def _attentional(self, contexts: Contexts, states: Tensor) -> Features:
        return torch.tanh(self.readout(self.dropout(torch.cat([contexts, states], dim=-1))))


def decoder(config: DecoderConfig, key_dim: int, context_dim: int) -> Decoder:
    """The decoder of the config's style."""
    kind = BahdanauDecoder if config.style == "bahdanau" else LuongDecoder
    return kind(config, key_dim, context_dim)
