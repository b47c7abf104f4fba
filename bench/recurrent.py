"""Recurrent training, forward and backward, against the step-by-step loop of tutorials."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from bench.measure import OURS, Contender, Effort, Row, Table, Target, compare, time_rows
from regard.models.recurrent import Recurrent
from regard.training.losses import projected_cross_entropy

BATCH, LENGTH, WIDTH, VOCAB = 32, 40, 256, 8000  # about the words of the tutorials

_NAIVE = "a loop over steps, as in the tutorials"

Loss = Callable[[Recurrent, Tensor, Tensor, Tensor], Tensor]


def training(style: str, attention: str, feeding: bool = False) -> Mapping[str, Contender]:
    """The loss and all gradients of one batch with the same weights, computed in two ways."""
    torch.manual_seed(0)
    model = Recurrent(
        vocab=VOCAB,
        target_vocab=VOCAB,
        d_embed=WIDTH,
        hidden=WIDTH,
        style=style,
        attention=attention,
        input_feeding=feeding,
        dropout=0.0,
    )
    batch = [torch.randint(0, VOCAB, (BATCH, LENGTH)) for _ in range(3)]
    ways: dict[str, Loss] = {OURS: _at_once, _NAIVE: _luong if style == "luong" else _bahdanau}
    return {name: partial(_gradients, way, model, batch) for name, way in ways.items()}


def _gradients(way: Loss, model: Recurrent, batch: list[Tensor]) -> list[Tensor]:
    loss = way(model, *batch)
    return [loss, *torch.autograd.grad(loss, list(model.parameters()))]


def _at_once(model: Recurrent, source: Tensor, read: Tensor, written: Tensor) -> Tensor:
    """As our training computes it: the features of all steps, and then the loss in pieces."""
    features, (weight, bias) = model.features(source, read), model.projection
    return projected_cross_entropy(features, weight, bias, written) / written.numel()


def _luong(model: Recurrent, source: Tensor, read: Tensor, written: Tensor) -> Tensor:
    """Luong's decoder, one step after another: update, scores, context, h~, logits and loss."""
    states, final, _ = model.encode(source)
    state, decoder = model.decoder.start(final).state, model.decoder
    fed, loss = states.new_zeros(len(source), 1, WIDTH), states.new_zeros(())
    for step in range(LENGTH):
        inputs = model.words.table(read[:, step : step + 1])
        if model.config.input_feeding:
            inputs = torch.cat([inputs, fed], dim=-1)
        output, state = decoder.layers.rnn(inputs, state)
        scores = torch.bmm(output @ model.reader.mechanism.score.W, states.transpose(1, 2))
        context = torch.bmm(torch.softmax(scores, dim=-1), states)
        fed = torch.tanh(decoder.readout(torch.cat([context, output], dim=-1)))
        loss = loss + F.cross_entropy(model.output(fed[:, 0]), written[:, step])
    return loss / LENGTH


def _bahdanau(model: Recurrent, source: Tensor, read: Tensor, written: Tensor) -> Tensor:
    """Bahdanau's decoder, one step after another: scores, context, update, deep output, loss."""
    states, final, _ = model.encode(source)
    state, decoder, score = (
        model.decoder.start(final).state,
        model.decoder,
        model.reader.mechanism.score,
    )
    loss = states.new_zeros(())
    for step in range(LENGTH):
        embedded = model.words.table(read[:, step : step + 1])
        query = F.linear(state[-1][:, None], score.W)
        scores = torch.tanh(query + F.linear(states, model.reader.U)) @ score.v
        context = torch.bmm(torch.softmax(scores, dim=-1)[:, None], states)
        output, state = decoder.layers.rnn(torch.cat([embedded, context], dim=-1), state)
        joined = decoder.readout(torch.cat([output, embedded, context], dim=-1))
        features = joined.unflatten(-1, (-1, 2)).amax(dim=-1)
        loss = loss + F.cross_entropy(model.output(features[:, 0]), written[:, step])
    return loss / LENGTH


def training_rows(effort: Effort) -> Iterator[Row]:
    """Each decoder against its step-by-step loop."""
    cases = {
        "Luong, general": (partial(training, "luong", "general"), 1.9),
        "Bahdanau, additive": (partial(training, "bahdanau", "additive"), 1.6),
        "Luong, general, input feeding": (partial(training, "luong", "general", True), None),
    }
    for name, (case, faster) in cases.items():
        target = None if faster is None else Target(faster, at_least=True)
        timings = compare(case(), effort.repeats, seconds=3 * effort.seconds, gradient=True)
        yield from time_rows(timings, name, {_NAIVE: target})


TABLES = {
    "training": Table(
        f"Recurrent training, forward and backward, B = {BATCH}, length {LENGTH}, "
        f"width {WIDTH}, vocabulary {VOCAB}",
        training_rows,
        1.0,
    )
}
