"""Recurrent decoders with attention before the recurrent update (Bahdanau) or after it (Luong)."""

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
FixedContext = Float[Tensor, "row 1 key_dim"]
# A function of queries and the position of the first of them.
Attend = Callable[[Float[Tensor, "row query hidden"], int], Contexts]


class Decoder(nn.Module, ABC):
    """Turns the target so far and the attended source into the features of the next token."""

    layers: Layers

    def __init__(self, config: DecoderConfig, key_dim: int) -> None:
        super().__init__()
        self.config = config
        lstm = config.cell == "lstm"
        self.bridge = nn.Linear(key_dim, (1 + lstm) * config.layers * config.hidden)
        self.dropout = nn.Dropout(config.dropout)

    @abstractmethod
    def forward(
        self, embedded: Embedded, hidden: Hidden, attend: Attend | FixedContext, position: int = 0
    ) -> tuple[Features, Hidden]:
        """The features after each token, the first of which is at `position`.

        `attend` gives the contexts of queries; without attention it is the one fixed context.
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
        self, embedded: Embedded, hidden: Hidden, attend: Attend | FixedContext, position: int = 0
    ) -> tuple[Features, Hidden]:
        """The features after each token."""
        if isinstance(attend, Tensor):
            contexts = attend.expand(-1, embedded.shape[1], -1)
            states, hidden = self.layers.run(torch.cat([embedded, contexts], dim=-1), hidden)
            return self._deep_output(states, embedded, contexts), hidden
        steps = self.layers.steps(embedded, hidden)
        states_of_steps, contexts_of_steps = [], []
        for step in range(embedded.shape[1]):
            context = attend(steps.top[:, None], position + step)[:, 0]
            states_of_steps.append(steps.advance(step, context))
            contexts_of_steps.append(context)
        states = torch.stack(states_of_steps, dim=1)
        contexts = torch.stack(contexts_of_steps, dim=1)
        return self._deep_output(states, embedded, contexts), steps.hidden()

    def _deep_output(self, states: Tensor, embedded: Embedded, contexts: Contexts) -> Features:
        """The features from state, token and context, by maxout or tanh."""
        joined: Tensor = torch.cat([states, embedded, contexts], dim=-1)
        joined = self.readout(self.dropout(joined))
        if not self.config.maxout:
            return torch.tanh(joined)
        return joined.view(*joined.shape[:-1], -1, 2).amax(dim=-1)


class LuongDecoder(Decoder):
    """h_t = f(h_{t-1}, y_{t-1}), c_t = attend(h_t), h~_t = tanh(W [c_t; h_t]) (eq. 5).

    Without input feeding the recurrence does not depend on attention: all steps run at once, and
    then all attend at once. With it, h~_{t-1} enters the next step beside the token (section 3.3).
    """

    def __init__(self, config: DecoderConfig, key_dim: int, context_dim: int) -> None:
        super().__init__(config, key_dim)
        fed = config.width if config.input_feeding else 0
        sizes = (config.d_embed, fed, config.hidden)
        self.layers = Layers(config.cell, sizes, config.layers, config.dropout)
        self.readout = nn.Linear(context_dim + config.hidden, config.width, bias=False)

    def forward(
        self, embedded: Embedded, hidden: Hidden, attend: Attend | FixedContext, position: int = 0
    ) -> tuple[Features, Hidden]:
        """The features after each token."""
        if hidden.fed is not None:
            return self._run_with_input_feeding(embedded, hidden, attend, position)
        states, hidden = self.layers.run(embedded, hidden)
        contexts = attend if isinstance(attend, Tensor) else attend(states, position)
        return self._attentional_state(contexts.expand(-1, states.shape[1], -1), states), hidden

    def _run_with_input_feeding(
        self, embedded: Embedded, hidden: Hidden, attend: Attend | FixedContext, position: int
    ) -> tuple[Features, Hidden]:
        """The features step by step, each h~ fed to the next step."""
        steps, fed, features = self.layers.steps(embedded, hidden), hidden.fed, []
        assert fed is not None
        for step in range(embedded.shape[1]):
            state = steps.advance(step, fed)[:, None]
            context = attend if isinstance(attend, Tensor) else attend(state, position + step)
            fed = self._attentional_state(context, state)[:, 0]
            features.append(fed)
        return torch.stack(features, dim=1), steps.hidden(fed)

    def _attentional_state(self, contexts: Contexts, states: Tensor) -> Features:
        """h~ = tanh(W [c; h]) (eq. 5)."""
        return torch.tanh(self.readout(self.dropout(torch.cat([contexts, states], dim=-1))))


def make_decoder(config: DecoderConfig, key_dim: int, context_dim: int) -> Decoder:
    """The decoder of the config's style."""
    kind = BahdanauDecoder if config.style == "bahdanau" else LuongDecoder
    return kind(config, key_dim, context_dim)
