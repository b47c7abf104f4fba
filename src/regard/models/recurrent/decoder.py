"""Recurrent decoders with attention before the recurrent update (Bahdanau) or after it (Luong).

A decoder does not know how attention works: it is called with a function that returns the contexts
of some queries, or with one fixed context if the model has no attention.
"""

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
# The contexts of some queries, given the position of the first of them in the target.
Attend = Callable[[Float[Tensor, "row query hidden"], int], Contexts]


class Decoder(nn.Module, ABC):
    """Turns embedded target tokens and the source into features that predict the next token."""

    layers: Layers

    def __init__(self, config: DecoderConfig, key_dim: int) -> None:
        super().__init__()
        self.config = config
        states = 2 if config.cell == "lstm" else 1  # an LSTM also has a cell state
        self.bridge = nn.Linear(key_dim, states * config.layers * config.hidden)
        self.dropout = nn.Dropout(config.dropout)

    @abstractmethod
    def forward(
        self, embedded: Embedded, hidden: Hidden, attend: Attend | FixedContext, position: int = 0
    ) -> tuple[Features, Hidden]:
        """The features after each token, the first of which is at `position`.

        `attend` returns the contexts of queries; without attention it is the one fixed context.
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
    """Attends before the update: c_i = attend(s_{i-1}), then s_i = f(s_{i-1}, y_{i-1}, c_i).

    These are equations 4 to 6 of Bahdanau et al. 2015.

    The features are a maxout layer over s_i, y_{i-1} and c_i, or a tanh layer with maxout=False.
    Appendix A.2.2 of the paper has s_{i-1} instead of s_i here; section 3.1 has s_i.
    """

    def __init__(self, config: DecoderConfig, key_dim: int, context_dim: int) -> None:
        super().__init__(config, key_dim)
        sizes = (config.d_embed, context_dim, config.hidden)
        self.layers = Layers(config.cell, sizes, config.layers, config.dropout)
        units = 2 if config.maxout else 1  # of which maxout takes the larger one
        inputs = config.hidden + config.d_embed + context_dim
        self.readout = nn.Linear(inputs, units * config.width)

    def forward(
        self, embedded: Embedded, hidden: Hidden, attend: Attend | FixedContext, position: int = 0
    ) -> tuple[Features, Hidden]:
        """The features after each token."""
        if isinstance(attend, Tensor):
            # A fixed context does not depend on the states: all steps run at once.
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
        """The features from states, embedded tokens and contexts, by maxout or tanh."""
        joined: Tensor = torch.cat([states, embedded, contexts], dim=-1)
        joined = self.readout(self.dropout(joined))
        if not self.config.maxout:
            return torch.tanh(joined)
        return joined.view(*joined.shape[:-1], -1, 2).amax(dim=-1)


class LuongDecoder(Decoder):
    """Attends after the update: h_t = f(h_{t-1}, y_{t-1}), then c_t = attend(h_t).

    The features are h~_t = tanh(W [c_t; h_t]) (Luong et al. 2015, eq. 5).

    Without input feeding the recurrence does not depend on attention: the update runs for all steps
    at once, and then all steps attend at once. With input feeding, h~_{t-1} and the token are the
    inputs of step t (section 3.3), and the steps run one by one.
    """

    def __init__(self, config: DecoderConfig, key_dim: int, context_dim: int) -> None:
        super().__init__(config, key_dim)
        fed_width = config.width if config.input_feeding else 0
        sizes = (config.d_embed, fed_width, config.hidden)
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
        """The features step by step, where the h~ of a step is an input of the next."""
        steps, fed, features = self.layers.steps(embedded, hidden), hidden.fed, []
        assert fed is not None
        for step in range(embedded.shape[1]):
            state = steps.advance(step, fed)[:, None]
            context = attend if isinstance(attend, Tensor) else attend(state, position + step)
            fed = self._attentional_state(context, state)[:, 0]
            features.append(fed)
        return torch.stack(features, dim=1), steps.hidden(fed)

    def _attentional_state(self, contexts: Contexts, states: Tensor) -> Features:
        """The attentional hidden state h~ = tanh(W [c; h]) (eq. 5)."""
        return torch.tanh(self.readout(self.dropout(torch.cat([contexts, states], dim=-1))))


def make_decoder(config: DecoderConfig, key_dim: int, context_dim: int) -> Decoder:
    """The decoder of the config's style."""
    kind = BahdanauDecoder if config.style == "bahdanau" else LuongDecoder
    return kind(config, key_dim, context_dim)
