"""Which tokens are one stream: what a module embeds and sums, and what it does not."""

import pytest
import torch
from torch import nn

import regard

pytestmark = pytest.mark.usefixtures("unchecked")

BATCH, SOURCE, TARGET, WIDTH, VOCABULARY = 2, 7, 5, 6, 31


class Reader(nn.Module):
    """One attention of a target over a source; `shared` embeds both with the same matrix."""

    def __init__(self, shared=False, positions=False):
        super().__init__()
        self.words, self.others = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(VOCABULARY, WIDTH)
        self.shared, self.positions = shared, positions

    def forward(self, source, target):
        key, query = self.words(source), (self.words if self.shared else self.others)(target)
        if self.positions:
            key = key + self.places(torch.arange(source.shape[1]))
            query = query + self.places(torch.arange(target.shape[1]))
        return (query @ key.mT).softmax(-1) @ key


def kind_of(model, source, target):
    with torch.no_grad(), regard.watch(model) as seen:
        model(source, target)
    return seen[0].maps[0].kind


@pytest.mark.parametrize("target", [TARGET, SOURCE])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("positions", [False, True])
def test_source_and_target_that_one_module_embeds_are_two_streams(target, shared, positions):
    ids = (torch.randint(VOCABULARY, (BATCH, length)) for length in (SOURCE, target))
    assert kind_of(Reader(shared, positions), *ids) == "cross"


class Words(nn.Module):
    """Self-attention of words, with positions that are embedded before or after them."""

    def __init__(self, first):
        super().__init__()
        self.words, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(VOCABULARY, WIDTH)
        self.first = first

    def forward(self, ids):
        places = torch.arange(ids.shape[1])
        x = self.places(places) if self.first else self.words(ids)
        x = x + (self.words(ids) if self.first else self.places(places))
        return (x @ x.mT).softmax(-1) @ x


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("batch", [1, BATCH, SOURCE])
def test_words_and_their_positions_are_one_stream(first, batch):
    ids = torch.randint(VOCABULARY, (batch, SOURCE))
    model = Words(first)
    with torch.no_grad(), regard.watch(model) as seen:
        model(ids)
    assert [(shown.kind, shown.rows.stream) for shown in seen[0].maps] == [("encoder", "tokens")]


def test_words_that_count_up_are_no_positions():
    model = Words(first=False)
    ids = torch.arange(SOURCE)[None]
    with torch.no_grad(), regard.watch(model) as seen:
        model(ids)
        model(ids + 1)
    assert {shown.rows.stream for shown in seen[0].maps} == {"tokens"}
