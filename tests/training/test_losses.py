"""The loss in pieces equals the plain one, gradients included."""

import pytest
import torch
from torch import nn

from regard.training import losses
from regard.training.losses import IGNORED, cross_entropy, projected_cross_entropy

ROWS, LENGTH, DIM, VOCABULARY = 3, 7, 5, 11


def _inputs() -> tuple[torch.Tensor, nn.Linear, torch.Tensor]:
    torch.manual_seed(0)
    hidden = torch.randn(ROWS, LENGTH, DIM, dtype=torch.float64, requires_grad=True)
    labels = torch.randint(0, VOCABULARY, (ROWS, LENGTH))
    labels[0, 4:] = IGNORED
    return hidden, nn.Linear(DIM, VOCABULARY, dtype=torch.float64), labels


@pytest.mark.parametrize("smoothing", [0.0, 0.13])
@pytest.mark.parametrize("piece", [1, 5 * VOCABULARY, 1 << 20])
def test_pieces_give_the_loss_and_the_gradients_of_the_whole(
    monkeypatch: pytest.MonkeyPatch, smoothing: float, piece: int
) -> None:
    monkeypatch.setattr(losses, "PIECE", piece)
    hidden, output, labels = _inputs()
    leaves = (hidden, output.weight, output.bias)
    whole = cross_entropy(output(hidden), labels, smoothing)
    pieces = projected_cross_entropy(hidden, output.weight, output.bias, labels, smoothing)
    expected, found = (torch.autograd.grad(each, leaves) for each in (whole, pieces))
    torch.testing.assert_close(pieces, whole)
    torch.testing.assert_close(found, expected)


def test_an_output_layer_without_bias_is_taken() -> None:
    hidden, output, labels = _inputs()
    whole = cross_entropy(hidden @ output.weight.T, labels)
    pieces = projected_cross_entropy(hidden, output.weight, None, labels)
    torch.testing.assert_close(pieces, whole)


def test_a_batch_of_ignored_labels_has_no_loss() -> None:
    hidden, output, labels = _inputs()
    nothing = torch.full_like(labels, IGNORED)
    assert projected_cross_entropy(hidden, output.weight, output.bias, nothing) == 0
