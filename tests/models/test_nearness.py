"""Nearness of texts: what it is for one pair, whatever stands beside it in a batch."""

import math

import pytest
import torch

from regard.models.nearness import ALIGNED, align, nearness, text_states


def texts(*lengths, dim=5, seed=0):
    """Random states of texts of some lengths, padded with numbers that must not matter."""
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(len(lengths), max(lengths), dim, generator=generator)
    return states, torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def by_hand(question, entry):
    """The nearness of one question to one entry, number by number."""

    def cosine(a, b):
        return float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))

    aligned = 0.0
    for token in question:
        near = [cosine(token, other) for other in entry]
        weights = [math.exp(10 * each) for each in near]
        aligned += sum(w * c for w, c in zip(weights, near, strict=True)) / sum(weights)
    return cosine(question.mean(0), entry.mean(0)) + ALIGNED * aligned / len(question)


def test_every_pair_of_a_batch_is_as_near_as_alone():
    (questions, asked), (entries, real) = texts(3, 1), texts(2, 4, 1, seed=1)
    found = nearness(text_states(questions, asked), text_states(entries, real))
    wanted = [
        [by_hand(question[own], entry[other]) for entry, other in zip(entries, real, strict=True)]
        for question, own in zip(questions, asked, strict=True)
    ]
    torch.testing.assert_close(found, torch.tensor(wanted))


def test_padding_is_not_attended_to():
    asked, entries = text_states(*texts(2)), text_states(*texts(1, 3, seed=1))
    weights, _ = align(asked, entries)
    assert weights.shape == (1, 2, 2, 3)
    assert weights[0, 0, :, 1:].eq(0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 2, 2))


@pytest.mark.parametrize("scale", [0.1, 3.0])
def test_a_text_is_nearest_to_itself_whatever_its_length(scale):
    states, real = texts(3, 2, 4)
    near = nearness(text_states(states, real), text_states(scale * states, real))
    assert near.argmax(1).tolist() == [0, 1, 2]
