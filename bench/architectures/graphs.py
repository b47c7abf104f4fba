"""Graph networks of torch_geometric, compared with the weights that their layers return.

The independent recorder sees no softmax in them, because they normalise by scatter functions. Their
layers return edges and weights if they are asked to; of layers that cannot, only the number of maps
is known.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import regard
from bench.architectures.compare import Comparison
from bench.architectures.matching import TOLERANCE
from bench.architectures.tensors import random_tensor

__all__ = ["LAYERS", "NODES", "compare_edges", "make_network"]

LAYERS = ("GATConv", "GATv2Conv", "TransformerConv", "GCNConv", "SuperGATConv", "AGNNConv")
NODES, FEATURES, HEADS = 11, 8, 2
_RETURN_WEIGHTS = frozenset(("GATConv", "GATv2Conv", "TransformerConv"))


def make_network(name: str) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    """Two layers, with nodes and edges: a ring of eleven nodes with some chords."""
    from torch_geometric import nn as graphs

    nodes = torch.arange(NODES)
    targets = torch.cat([(nodes + step) % NODES for step in (1, 4, 6)])
    edges = torch.stack([nodes.repeat(3), targets])
    layer = getattr(graphs, name)
    if name == "AGNNConv":
        layers = [layer(), layer()]
    elif name == "GCNConv":
        layers = [layer(FEATURES, FEATURES), layer(FEATURES, FEATURES)]
    else:
        first = layer(FEATURES, FEATURES, heads=HEADS)
        layers = [first, layer(FEATURES * HEADS, FEATURES, heads=HEADS)]
    model = graphs.Sequential("x, edges", [(part, "x, edges -> x") for part in layers])
    return model, (random_tensor(NODES, FEATURES), edges)


def compare_edges(model: nn.Module, run: Callable[[], Any], comparison: Comparison) -> None:
    """Compare maps with the weights that layers return, and note those that differ."""
    expected = _weights_of_layers(model, run)
    if not expected:
        return
    comparison.recorded = len(expected)
    with torch.no_grad(), regard.watch(model) as seen:
        run()
    shown = {attention_map.site: attention_map.weights() for attention_map in seen[0].maps}
    for site, weights in expected.items():
        if site not in shown:
            comparison.missed.append(f"{site}: edge weights")
        elif shown[site].shape != weights.shape:
            comparison.inexact.append(f"{site}: a map of {tuple(shown[site].shape)}")
        elif float((shown[site] - weights).abs().max()) > TOLERANCE:
            comparison.inexact.append(f"{site}: other weights than the layer returns")


def _weights_of_layers(model: nn.Module, run: Callable[[], Any]) -> dict[str, Tensor]:
    """The weights (head target source) that each layer returns in a run, by its path."""
    inputs: dict[str, tuple[Any, ...]] = {}
    layers = {
        path: layer
        for path, layer in model.named_modules()
        if type(layer).__name__ in _RETURN_WEIGHTS
    }
    handles = [
        layer.register_forward_pre_hook(lambda _, args, path=path: inputs.update({path: args}))
        for path, layer in layers.items()
    ]
    with torch.no_grad():
        run()
        for handle in handles:
            handle.remove()
        return {
            path: _place(*layers[path](*args, return_attention_weights=True)[1])
            for path, args in inputs.items()
        }


def _place(edges: Tensor, weights: Tensor) -> Tensor:
    """Weights of edges as a matrix of targets by sources for each head."""
    placed = torch.zeros(weights.shape[1], NODES, NODES)
    for source, target, row in zip(*edges.tolist(), weights, strict=True):
        placed[:, target, source] += row
    return placed
