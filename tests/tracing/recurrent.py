"""Encoder-decoders of recurrent networks, written as tutorials write them, one step at a time.

Each keeps its own weights, (batch, step, key).
"""

import torch
import torch.nn.functional as F
from torch import nn

BATCH, LENGTH, STEPS, WIDTH, VOCABULARY = 2, 7, 5, 12, 19


class Tanh(nn.Module):
    """v . tanh(W q + U k) (Bahdanau et al. 2015), weights with one row."""

    def __init__(self):
        super().__init__()
        self.w, self.u, self.v = (
            nn.Linear(WIDTH, WIDTH),
            nn.Linear(WIDTH, WIDTH),
            nn.Linear(WIDTH, 1),
        )

    def forward(self, state, outputs):
        met = self.v(torch.tanh(self.w(state.unsqueeze(1)) + self.u(outputs)))
        weights = F.softmax(met.squeeze(2).unsqueeze(1), dim=-1)
        return torch.bmm(weights, outputs).squeeze(1), weights[:, 0]


class Column(Tanh):
    """The same, weights as a column over the keys."""

    def forward(self, state, outputs):
        met = self.v(torch.tanh(self.w(state).unsqueeze(1) + self.u(outputs)))
        weights = torch.softmax(met, dim=1)
        return (weights * outputs).sum(dim=1), weights[:, :, 0]


class Concat(nn.Module):
    """v . tanh(W [q; k]), the state repeated for each key, v multiplied by hand."""

    def __init__(self):
        super().__init__()
        self.w, self.v = nn.Linear(2 * WIDTH, WIDTH), nn.Parameter(torch.rand(WIDTH))

    def forward(self, state, outputs):
        repeated = state.unsqueeze(1).repeat(1, outputs.shape[1], 1)
        energy = torch.tanh(self.w(torch.cat((repeated, outputs), dim=2)))
        v = self.v.repeat(len(outputs), 1).unsqueeze(1)
        weights = F.softmax(torch.bmm(v, energy.permute(0, 2, 1)).squeeze(1), dim=1)
        return weights.unsqueeze(1).bmm(outputs)[:, 0], weights


class Dot(nn.Module):
    """q . k (Luong et al. 2015), by a sum."""

    def forward(self, state, outputs):
        weights = torch.sum(state.unsqueeze(1) * outputs, dim=2).softmax(dim=1)
        return torch.einsum("bk,bkd->bd", weights, outputs), weights


class General(nn.Module):
    """q W k (Luong et al. 2015), scores as a column."""

    def __init__(self):
        super().__init__()
        self.w = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, state, outputs):
        weights = torch.bmm(self.w(outputs), state.unsqueeze(2)).softmax(dim=1)
        return torch.bmm(weights.transpose(1, 2), outputs).squeeze(1), weights[:, :, 0]


class Location(nn.Module):
    """softmax(W q) (Luong et al. 2015): the keys are not looked at."""

    def __init__(self):
        super().__init__()
        self.w = nn.Linear(WIDTH, LENGTH)

    def forward(self, state, outputs):
        weights = F.softmax(self.w(state), dim=1)
        return torch.bmm(weights.unsqueeze(1), outputs).squeeze(1), weights


SCORES = (Tanh, Column, Concat, Dot, General, Location)


class Translator(nn.Module):
    """A GRU reads, another writes; it looks before each step, from its state, or after it."""

    def __init__(self, attention, *, before=True):
        super().__init__()
        self.source, self.target = (nn.Embedding(VOCABULARY, WIDTH) for _ in range(2))
        self.encoder = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.decoder = nn.GRUCell(2 * WIDTH if before else WIDTH, WIDTH)
        self.attention, self.before = attention, before
        self.out = nn.Linear(2 * WIDTH, VOCABULARY)

    def forward(self, source, target):
        outputs, state = self.encoder(self.source(source))
        state, steps, results = state[0], [], []
        for token in target.unbind(1):
            read = self.target(token)
            if self.before:
                context, weights = self.attention(state, outputs)
                state = self.decoder(torch.cat([read, context], dim=1), state)
            else:
                state = self.decoder(read, state)
                context, weights = self.attention(state, outputs)
            steps.append(weights)
            results.append(self.out(torch.cat([state, context], dim=1)))
        self.weights = torch.stack(steps, dim=1)
        return torch.stack(results, dim=1).log_softmax(-1)


class Stepwise(nn.Module):
    """An encoder in steps too, batch second, by LSTM cells; outputs are stacked."""

    def __init__(self, attention):
        super().__init__()
        self.source, self.target = (nn.Embedding(VOCABULARY, WIDTH) for _ in range(2))
        self.encoder, self.decoder = (nn.LSTMCell(WIDTH, WIDTH) for _ in range(2))
        self.attention, self.out = attention, nn.Linear(2 * WIDTH, VOCABULARY)

    def forward(self, source, target):
        state = cell = torch.zeros(len(source), WIDTH)
        outputs, steps, results = [], [], []
        for token in source.unbind(1):
            state, cell = self.encoder(self.source(token), (state, cell))
            outputs.append(state)
        outputs = torch.stack(outputs, dim=1)
        for token in target.unbind(1):
            state, cell = self.decoder(self.target(token), (state, cell))
            context, weights = self.attention(state, outputs)
            steps.append(weights)
            results.append(self.out(torch.cat([state, context], dim=1)))
        self.weights = torch.stack(steps, dim=1)
        return torch.stack(results, dim=1)


class BatchSecond(Translator):
    """All tensors with the batch second, as torch's recurrent networks are by default."""

    def __init__(self, attention):
        super().__init__(attention)
        self.encoder = nn.GRU(WIDTH, WIDTH)

    def forward(self, source, target):
        outputs, state = self.encoder(self.source(source))
        outputs, state, steps = outputs.permute(1, 0, 2), state.squeeze(0), []
        for token in target:
            context, weights = self.attention(state, outputs)
            state = self.decoder(torch.cat([self.target(token), context], dim=1), state)
            steps.append(weights)
        self.weights = torch.stack(steps, dim=1)
        return state


class Packed(nn.Module):
    """Tokens of sequences of several lengths, pooled by a score of each."""

    def __init__(self):
        super().__init__()
        self.embedding, self.encoder = nn.Embedding(VOCABULARY, WIDTH), nn.LSTM(WIDTH, WIDTH)
        self.score = nn.Linear(WIDTH, 1)

    def forward(self, ids, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(self.embedding(ids), lengths, batch_first=True)
        outputs, real = nn.utils.rnn.pad_packed_sequence(self.encoder(packed)[0], batch_first=True)
        hidden = torch.arange(outputs.shape[1]) >= real[:, None]
        met = self.score(outputs).squeeze(-1).masked_fill(hidden, float("-inf"))
        self.weights = met.softmax(-1)
        return torch.bmm(self.weights.unsqueeze(1), outputs).squeeze(1)
