"""Attention along the edges of a graph, written by hand in the ways of graph libraries.

Each layer keeps `weights` (edge, head), `source` and `target` of its last call.
"""

import torch
import torch.nn.functional as F
from torch import nn

NODES, HEADS, DIM, FEATURES = 7, 3, 5, 11


def make_graph(seed=0, parallel=True):
    """Features of nodes, and edges (source, target): some parallel, one node without any."""
    torch.manual_seed(seed)
    edges = torch.randint(0, NODES - 1, (2, 17))
    edges = torch.cat([edges, edges[:, :2]], 1) if parallel else edges
    return torch.randn(NODES, FEATURES), edges


def dense_map(layer):
    """The weights of the last call of a layer as a matrix of targets by sources for each head."""
    dense = torch.zeros(layer.weights.shape[1], NODES, NODES)
    places = zip(layer.target.tolist(), layer.source.tolist(), layer.weights, strict=True)
    for row, column, weights in places:
        dense[:, row, column] += weights
    return dense


def scatter_softmax(scores, target):
    """Exponentials over their sums for each target, by scatter functions on expanded indices."""
    places = target.view(-1, *(1,) * (scores.dim() - 1)).expand_as(scores)
    zeros = scores.new_zeros(NODES, *scores.shape[1:])
    largest = zeros.scatter_reduce(0, places, scores.detach(), "amax", include_self=False)
    exponentials = (scores - largest.index_select(0, target)).exp()
    sums = torch.zeros_like(zeros).scatter_add_(0, places, exponentials) + 1e-16
    return exponentials / sums.index_select(0, target)


def index_softmax(scores, target):
    """The same by plain indices, without the largest score."""
    exponentials = torch.exp(scores)
    sums = torch.zeros(NODES, *scores.shape[1:]).index_add(0, target, exponentials)
    return exponentials / sums[target]


def reciprocal_softmax(scores, target):
    """Exponentials times the reciprocals of their sums."""
    exponentials = torch.exp(scores)
    sums = torch.zeros(NODES, *scores.shape[1:]).index_add(0, target, exponentials)
    return exponentials * (1 / sums)[target]


def log_softmax(scores, target):
    """Exponentials of scores minus the logarithms of the sums."""
    sums = torch.zeros(NODES, *scores.shape[1:]).index_add(0, target, torch.exp(scores))
    return torch.exp(scores - sums.log()[target])


def softmax_in_place(scores, target):
    """The scores become weights where they are."""
    scores -= scores.max()
    scores.exp_()
    scores /= torch.zeros(NODES, *scores.shape[1:]).index_add_(0, target, scores)[target]
    return scores


class GAT(nn.Module):
    """Velickovic et al. 2018: a score from each end, summed."""

    normalise = staticmethod(scatter_softmax)

    def __init__(self, features=FEATURES):
        super().__init__()
        self.values = nn.Linear(features, HEADS * DIM, bias=False)
        self.others = nn.Linear(features, HEADS * DIM, bias=False)
        self.at = nn.Parameter(torch.randn(2, HEADS, DIM))
        self.dropout = nn.Dropout(0.5)

    def project(self, nodes):
        return (layer(nodes).view(-1, HEADS, DIM) for layer in (self.values, self.others))

    def score(self, nodes, source, target):
        values, _ = self.project(nodes)
        ends = ((values * at).sum(-1) for at in self.at)
        scores = next(ends).index_select(0, source) + next(ends).index_select(0, target)
        return F.leaky_relu(scores, 0.2), values.index_select(0, source)

    def aggregate(self, products, target):
        places = target.view(-1, 1, 1).expand_as(products)
        return products.new_zeros(NODES, HEADS, DIM).scatter_add_(0, places, products)

    def weigh(self, weights, values):
        return weights.unsqueeze(-1) * values

    def forward(self, nodes, edges):
        self.source, self.target = edges
        scores, values = self.score(nodes, *edges)
        weights = self.dropout(self.normalise(scores, edges[1]))
        self.weights = weights.detach()
        return self.aggregate(self.weigh(weights, values), edges[1]).flatten(1)


class GATv2(GAT):
    """Brody et al. 2022: a score from the sum of both ends, by plain indices."""

    normalise = staticmethod(index_softmax)

    def score(self, nodes, source, target):
        left, right = self.project(nodes)
        return (F.leaky_relu(left[source] + right[target]) * self.at[0]).sum(-1), left[source]

    def aggregate(self, products, target):
        return torch.zeros(NODES, HEADS, DIM).index_add_(0, target, products)

    def weigh(self, weights, values):
        return values * weights[..., None]


class GraphTransformer(GAT):
    """Shi et al. 2021: products of queries and keys; edges may add to keys and values."""

    def score(self, nodes, source, target):
        keys, queries = self.project(nodes)
        scores = (queries[target] * keys[source]).sum(-1) / DIM**0.5
        return scores, self.values(nodes)[source].view(-1, HEADS, DIM) + 0.5

    def weigh(self, weights, values):
        return torch.einsum("eh,ehd->ehd", weights, values)


class LateGAT(GAT):
    """Values summed by exponentials, and divided by the sums of these at the nodes."""

    def forward(self, nodes, edges):
        self.source, self.target = edges
        scores, values = self.score(nodes, *edges)
        self.weights = index_softmax(scores, edges[1]).detach()
        exponentials = scores.exp().unsqueeze(-1)
        sums = torch.zeros(NODES, HEADS, 1).index_add_(0, edges[1], exponentials)
        return (self.aggregate(exponentials * values, edges[1]) / (sums + 1e-16)).flatten(1)


class SigmoidGAT(GATv2):
    """Weights of edges that do not sum to one."""

    normalise = staticmethod(lambda scores, target: scores.sigmoid())


class InPlaceGAT(GAT):
    """Values that become products where they are."""

    normalise = staticmethod(softmax_in_place)

    def weigh(self, weights, values):
        values *= weights.unsqueeze(-1)
        return values


class DenseGAT(GAT):
    """The same for all pairs of nodes, with an adjacency matrix (target, source) as a mask."""

    def forward(self, nodes, adjacency):
        values, _ = self.project(nodes)
        left, right = ((values * at).sum(-1) for at in self.at)
        scores = F.leaky_relu(left[:, None] + right)
        weights = scores.masked_fill(adjacency[..., None] == 0, -9e15).softmax(1)
        self.weights = weights.detach().permute(2, 0, 1)
        return torch.einsum("ijh,jhd->ihd", weights, values).flatten(1)


class GCN(nn.Module):
    """Kipf & Welling 2017: weights from the degrees of nodes, whatever they contain."""

    def __init__(self, features=FEATURES):
        super().__init__()
        self.values = nn.Linear(features, HEADS * DIM)

    def forward(self, nodes, edges):
        source, target = edges
        degrees = torch.zeros(NODES).scatter_add_(0, target, torch.ones(len(target)))
        scale = degrees.clamp(min=1).pow(-0.5)
        norm = scale[source] * scale[target]
        values = self.values(nodes)
        return torch.zeros_like(values).index_add_(0, target, norm[:, None] * values[source])


class Network(nn.Module):
    """Two layers of a graph network, from features or, with `embeds`, from ids of nodes."""

    def __init__(self, layer, embeds=False):
        super().__init__()
        self.embedding = nn.Embedding(NODES, FEATURES) if embeds else nn.Identity()
        self.layers = nn.ModuleList([layer(), layer(HEADS * DIM)])

    def forward(self, nodes, edges):
        hidden = self.embedding(nodes)
        for layer in self.layers:
            hidden = F.elu(layer(hidden, edges))
        return hidden
