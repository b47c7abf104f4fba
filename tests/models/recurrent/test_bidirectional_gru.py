import pytest
import torch

from regard.models.recurrent import encoder as encoder_module
from regard.models.recurrent.encoder import Encoder

BATCH, STEPS, DIM, HIDDEN = 3, 11, 5, 7


def run(encoder, embedded, real):
    """States, final states, and the gradients of a sum of them."""
    encoded = encoder(embedded, real)
    torch.manual_seed(2)
    weights = torch.randn(BATCH, STEPS, 2 * HIDDEN), torch.randn(BATCH, 2 * HIDDEN)
    total = (encoded.states * weights[0]).sum() + (encoded.final * weights[1]).sum()
    return [*encoded[:2], *torch.autograd.grad(total, [embedded, *encoder.parameters()])]


@pytest.mark.parametrize("lengths", [(11, 4, 1), (11, 11, 11)])
def test_states_and_gradients_are_those_of_torch(lengths, monkeypatch):
    encoder = Encoder("gru", DIM, HIDDEN, 1, 0.0).train()
    embedded = torch.randn(BATCH, STEPS, DIM, requires_grad=True)
    real = torch.arange(STEPS) < torch.tensor(lengths)[:, None]
    assert encoder_module.supports_both_directions(encoder.rnn, embedded)
    ours = run(encoder, embedded, real)
    monkeypatch.setattr(encoder_module, "supports_both_directions", lambda *_: False)
    torch.testing.assert_close(ours, run(encoder, embedded, real), atol=1e-5, rtol=1e-4)


def test_padding_on_the_left_is_left_to_torch():
    encoder = Encoder("gru", DIM, HIDDEN, 1, 0.0).train()
    embedded = torch.randn(1, STEPS, DIM)
    real = torch.arange(STEPS)[None] >= 3
    states = encoder(embedded, real).states
    torch.testing.assert_close(states[:, 3:], encoder(embedded[:, 3:]).states)


def test_a_model_that_is_not_trained_runs_by_torch():
    encoder = Encoder("gru", DIM, HIDDEN, 1, 0.0)
    embedded = torch.randn(BATCH, STEPS, DIM)
    assert not encoder_module.supports_both_directions(encoder.eval().rnn, embedded)
    assert not encoder_module.supports_both_directions(
        Encoder("lstm", DIM, HIDDEN, 1, 0.0).train().rnn, embedded
    )
