"""Self-attention of decoders, and cross-attention, told apart without a mask that says so."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import regard

pytestmark = pytest.mark.usefixtures("unchecked")

WORDS, WIDTH, PICTURE, QUERIES = 31, 6, 7, 5


def attend(query, key, **options):
    return query + F.scaled_dot_product_attention(query, key, key, **options)


def kinds(model, *inputs):
    with torch.no_grad(), regard.watch(model) as seen:
        model(*inputs)
    return [each.kind for each in seen[0]]


def ids(length=PICTURE):
    return torch.randint(WORDS, (2, length))


class Detector(nn.Module):
    """Learned queries see each other, then a picture that an encoder has read."""

    def __init__(self, encodes=True):
        super().__init__()
        self.queries = nn.Parameter(torch.randn(QUERIES, WIDTH))
        self.embedding, self.encodes = nn.Embedding(WORDS, WIDTH), encodes

    def forward(self, input_ids):
        x = self.embedding(input_ids)
        x = attend(x, x) if self.encodes else x
        queries = self.queries.expand(len(x), -1, -1)
        zeros = torch.zeros_like(queries)
        return attend(attend(queries + zeros, queries + zeros), x)


def test_learned_queries_that_attend_to_an_encoder_are_a_decoder():
    assert kinds(Detector(), ids()) == ["encoder", "decoder", "cross"]


def test_learned_queries_without_an_encoder_are_none():
    assert kinds(Detector(encodes=False), ids()) == ["encoder", "cross"]


class Translator(nn.Module):
    """Two embeddings in one module, or one that reads both texts."""

    def __init__(self, shared=False):
        super().__init__()
        self.source, self.positions = nn.Embedding(WORDS, WIDTH), nn.Embedding(WORDS, WIDTH)
        self.target = self.source if shared else nn.Embedding(WORDS, WIDTH)

    def forward(self, input_ids, others):
        places = [torch.arange(each.shape[1]) for each in (input_ids, others)]
        x = self.positions(places[0]) + self.source(input_ids)
        y = self.target(others) + self.positions(places[1])
        x = attend(x, x)
        y = attend(y, y, is_causal=y.shape[1] > 1)
        return attend(y, x)


# a single token of a shared embedding may be the next step of the first text
LENGTHS = [(shared, length) for length in (QUERIES, PICTURE, 11) for shared in (False, True)]


@pytest.mark.parametrize(("shared", "length"), [(False, 1), *LENGTHS])
def test_texts_that_one_module_embeds_attend_to_each_other(shared, length):
    model, texts = Translator(shared), (ids(), ids(length))
    assert kinds(model, *texts) == ["encoder", "decoder", "cross"]
    with torch.no_grad(), regard.watch(model) as seen:
        model(*texts)
    assert [each.rows.stream for each in seen[1]] == ["source", "target", "target"]


class Forecast(nn.Module):
    """One series, whose past is read by an encoder and its future by a decoder."""

    def __init__(self, past):
        super().__init__()
        self.past, self.linear = past, nn.Linear(WIDTH, WIDTH)

    def forward(self, series):
        past, future = series[:, : self.past], series[:, self.past :, ...]
        x = attend(past, past)
        y = attend(future, future, is_causal=True)
        return attend(self.linear(y), x)


@pytest.mark.parametrize("past", [4, 5, 7])
def test_the_future_of_a_series_attends_to_its_past(past):
    assert kinds(Forecast(past), torch.randn(2, 10, WIDTH)) == ["encoder", "decoder", "cross"]


class Patches(nn.Module):
    """Bytes are pooled into patches, which they attend to."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)

    def forward(self, input_ids):
        x = self.embedding(input_ids)
        index = (torch.arange(x.shape[1]) // 2)[None, :, None].expand_as(x)
        patches = torch.zeros(len(x), 4, WIDTH).scatter_reduce(1, index, x, reduce="amax")
        return attend(x, attend(patches, patches))


def test_bytes_attend_to_patches_of_bytes():
    assert kinds(Patches(), ids()) == ["encoder", "cross"]


class Borrowed(nn.Module):
    """Learned queries that took over the name of the picture whose positions they carry."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.queries = nn.Parameter(torch.randn(QUERIES, WIDTH))

    def forward(self, input_ids):
        x = self.embedding(input_ids)
        placed = self.queries + x[:, :QUERIES]
        return attend(attend(placed, placed), x)


def test_queries_that_see_more_keys_than_they_are_belong_to_no_decoder():
    assert kinds(Borrowed(), ids()) == ["encoder", "cross"]


class PooledFrames(nn.Module):
    """Self-attention with tokens first, then a score for each frame, normalised and averaged."""

    def __init__(self):
        super().__init__()
        self.attention, self.score = nn.MultiheadAttention(WIDTH, 2), nn.Linear(WIDTH, 1)

    def forward(self, frames):
        x = frames.transpose(0, 1)
        x = self.attention(x, x, x)[0].transpose(0, 1)
        return torch.bmm(F.softmax(self.score(x).transpose(2, 1), dim=2), x)


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_frames_are_pooled_in_every_batch(batch):
    model = PooledFrames()
    with torch.no_grad(), regard.watch(model) as seen:
        model(torch.randn(batch, PICTURE, WIDTH))
    assert len(seen) == batch
    assert [each.kind for each in seen[-1]] == ["encoder", "cross"]
