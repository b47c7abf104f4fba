"""Attention over pictures in the layouts of vision libraries: patches, halos, one token."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import regard
from regard.errors import InputError

pytestmark = pytest.mark.usefixtures("unchecked")

BATCH, SIDE, HEADS, DIM = 2, 6, 3, 5
WIDTH, TOKENS = HEADS * DIM, SIDE * SIDE


class Layer(nn.Module):
    """A layer that sees a picture (batch channel row column); the test reads `weights`."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Conv2d(WIDTH, WIDTH, 1) for _ in range(3))
        self.score = nn.Conv2d(WIDTH, 1, 1)
        self.token = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.first, self.second = (nn.Parameter(torch.randn(HEADS, HEADS)) for _ in range(2))
        self.weights = torch.empty(0)

    def heads(self, x):
        """A picture as (batch head token feature)."""
        return x.flatten(2).unflatten(1, (HEADS, DIM)).mT


class ClassToken(Layer):
    """One token looks at all; its heads come from a reshape without a transpose."""

    def forward(self, x):
        tokens = torch.cat([self.token.expand(len(x), -1, -1), x.flatten(2).mT], 1)
        query = tokens[:, :1].reshape(len(x), HEADS, 1, DIM)
        keys = tokens.unflatten(-1, (HEADS, DIM)).transpose(1, 2)
        self.weights = (query @ keys.mT).softmax(-1)
        return (self.weights @ keys).flatten(1)


class LearnedQuery(Layer):
    """A learned query whose heads are mixed before and after the softmax."""

    def forward(self, x):
        keys = self.heads(x)
        query = self.token.expand(len(x), -1, -1).unflatten(-1, (HEADS, DIM)).transpose(1, 2)
        scores = torch.einsum("bhqk,hg->bgqk", query @ keys.mT, self.first)
        self.weights = torch.einsum("bhqk,hg->bgqk", scores.softmax(-1), self.second)
        return (self.weights @ keys).flatten(1)


class AfterLinearAttention(Layer):
    """Pointwise convolutions after a layer that has no map, and then attention."""

    def forward(self, x):
        q, k, v = (self.heads(f(x)) for f in (self.query, self.key, self.value))
        x = (q @ (k.softmax(-2).mT @ v)).mT.reshape(x.shape)
        q, k, v = (self.heads(f(x)) for f in (self.query, self.key, self.value))
        self.weights = (q @ k.mT).softmax(-1)
        return self.weights @ v


def halo(x):
    """Blocks of 3 x 3 with a border of one place: (batch * head, block, 25, feature)."""
    blocks = F.pad(x, (1, 1, 1, 1)).unfold(2, 5, 3).unfold(3, 5, 3)
    return blocks.reshape(len(x) * HEADS, DIM, 4, 25).permute(0, 2, 3, 1)


class Halo(Layer):
    """Each block of the picture looks at itself and at a border around it (Vaswani et al. 2021)."""

    def forward(self, x):
        q = self.query(x).reshape(len(x) * HEADS, DIM, 2, 3, 2, 3).permute(0, 2, 4, 3, 5, 1)
        k, v = halo(self.key(x)), halo(self.value(x))
        hidden = halo(torch.ones_like(x))[..., 0] == 0
        scores = (q.flatten(1, 2).flatten(2, 3) @ k.mT).masked_fill(hidden[:, :, None], -1e9)
        weights = scores.softmax(-1)
        self.context = weights @ v  # (batch * head, block, 9, feature)
        context = self.context.unflatten(1, (2, 2)).unflatten(3, (3, 3))
        self.context = context.permute(0, 1, 3, 2, 4, 5).reshape(len(x), HEADS, TOKENS, DIM)
        self.values = self.heads(self.value(x))
        return context


def patches(x):
    """Nine patches of 2 x 2 places: (batch channel place patch)."""
    return x.reshape(len(x), -1, 3, 2, 3, 2).permute(0, 1, 3, 5, 2, 4).flatten(4).flatten(2, 3)


class Separable(Layer):
    """One score for each place, normalised over patches (Mehta and Rastegari 2022)."""

    def forward(self, x):
        x = patches(x)
        scores = self.score(x).softmax(-1)
        context = (self.key(x) * scores).sum(-1, keepdim=True)
        self.weights = scores.squeeze(1)
        return F.relu(self.value(x)) * context.expand_as(x)


class SeparableProduct(Layer):
    """The same as a product of matrices."""

    def forward(self, x):
        scores = patches(self.score(x)).permute(0, 2, 1, 3).softmax(-1)
        self.weights = scores.squeeze(2)
        return scores @ patches(self.key(x)).permute(0, 2, 3, 1)


class Experts(Layer):
    """Two experts, weighted by a router for each place: no attention."""

    def forward(self, x):
        x = patches(x)
        outputs = torch.stack([self.key(x), self.value(x)], -1)
        return (outputs * self.query(x)[:, :2].movedim(1, -1).softmax(-1)[:, None]).sum(-1)


class Neighbours(Layer):
    """A picture whose places are weighted with their neighbours, in columns as unfold gives."""

    def near(self, x):
        """(batch head token neighbour feature)"""
        columns = F.unfold(x, 3, padding=1).unflatten(1, (HEADS, DIM, 9))
        return columns.permute(0, 1, 4, 3, 2)

    def own_scores(self, x):
        """Scores that a place makes by itself: (batch head token neighbour)."""
        return self.heads(self.query(x)).repeat(1, 1, 1, 2)[..., :9]


class Outlook(Neighbours):
    """Each place makes the weights of its neighbours by itself (Yuan et al. 2022)."""

    def forward(self, x):
        context = self.own_scores(x)[..., None, :].softmax(-1) @ self.near(self.value(x))
        columns = context.expand(-1, -1, -1, 9, -1).permute(0, 1, 4, 3, 2)
        return F.fold(columns.reshape(len(x), -1, TOKENS), SIDE, 3, 1, 1)


class Involution(Neighbours):
    """The same without a softmax, number by number (Li et al. 2021)."""

    def forward(self, x):
        return (self.own_scores(x)[..., None] * self.near(self.value(x))).sum(-2)


class WeightedNeighbours(Neighbours):
    """The same with a softmax, number by number."""

    def forward(self, x):
        return (self.own_scores(x).softmax(-1)[..., None] * self.near(self.value(x))).sum(-2)


class StandAlone(Neighbours):
    """Queries at the keys around them (Ramachandran et al. 2019)."""

    def forward(self, x):
        query, keys = self.heads(self.query(x))[..., None, :], self.near(self.key(x))
        return (query @ keys.mT).softmax(-1) @ self.near(self.value(x))


def watched(kind):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, WIDTH, 2, 2), kind())
    with torch.no_grad(), regard.watch(model) as seen:
        model(torch.randn(BATCH, 3, 2 * SIDE, 2 * SIDE))
    return model[1], seen


@pytest.mark.parametrize("kind", [ClassToken, LearnedQuery, AfterLinearAttention])
def test_the_map_is_what_the_layer_computed(kind):
    layer, seen = watched(kind)
    assert len(seen) == BATCH
    for trace, weights in zip(seen, layer.weights, strict=True):
        (found,) = trace.maps
        assert torch.equal(found.weights(), weights)


def test_the_map_of_blocks_with_a_border_times_the_values_is_the_context():
    layer, seen = watched(Halo)
    for trace, values, context in zip(seen, layer.values, layer.context, strict=True):
        (found,) = trace.maps
        assert found.shape == (HEADS, TOKENS, TOKENS)
        assert torch.allclose(found.weights() @ values, context, atol=1e-6)


@pytest.mark.parametrize("kind", [Separable, SeparableProduct])
def test_scores_over_patches_are_a_map_with_a_query_for_each_place_in_a_patch(kind):
    layer, seen = watched(kind)
    for trace, weights in zip(seen, layer.weights, strict=True):
        (found,) = trace.maps
        rows = found.weights()[0]
        assert rows.shape == (4, TOKENS)
        assert [row[row > 0].tolist() for row in rows] == weights.tolist()
        assert not found.weights()[0, 0].view(SIDE, SIDE)[1].any()  # the upper row of each patch


def test_experts_in_patches_are_no_attention():
    with pytest.raises(InputError, match="no attention was seen"):
        watched(Experts)


@pytest.mark.parametrize("kind", [Outlook, Involution, WeightedNeighbours, StandAlone])
def test_weights_of_unfolded_neighbours_are_a_gap(kind):
    _, seen = watched(kind)
    assert [(gap.site, "neighbours" in gap.reason) for gap in seen[0].gaps] == [("1", True)]
