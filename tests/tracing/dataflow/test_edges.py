"""Which inputs are a graph, and how index tensors are read."""

import torch

from regard.tracing.dataflow.edges import find_nodes, read_index


def test_features_beside_pairs_of_indices_are_nodes():
    nodes, edges = torch.randn(7, 5), torch.randint(0, 7, (2, 11))
    assert find_nodes({"x": nodes, "edge_index": edges}) == "x"
    assert find_nodes({"x": nodes}) is None


def test_features_beside_an_undirected_adjacency_matrix_are_nodes():
    adjacency = torch.eye(7)
    assert find_nodes({"x": torch.randn(7, 5), "adjacency": adjacency}) == "x"
    assert find_nodes({"x": torch.randn(7, 5), "adjacency": adjacency.to_sparse()}) == "x"


def test_rows_of_a_batch_are_no_nodes():
    features = torch.randn(2, 5)
    assert find_nodes({"x": features, "input_ids": torch.randint(0, 2, (2, 11))}) is None
    assert find_nodes({"x": torch.randn(7, 5), "ids": torch.randint(7, 9, (2, 11))}) is None
    assert find_nodes({"x": torch.randn(7, 5), "y": torch.randn(7, 7)}) is None
    assert find_nodes({"x": torch.randn(7, 5), "mask": torch.ones(7, 7)}) is None


def test_an_index_may_be_expanded_to_the_shape_of_rows():
    index = torch.randint(0, 7, (11,))
    assert torch.equal(read_index(index[:, None].expand(11, 5)), index)
    assert torch.equal(read_index(index[:, None].repeat(1, 5)), index)
    assert read_index(torch.arange(55).view(11, 5)) is None
    assert read_index(index.float()) is None
