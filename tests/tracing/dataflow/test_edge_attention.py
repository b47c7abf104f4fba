"""Attention along the edges of a graph is a map of nodes by nodes."""

import pytest
import torch
import transformers

import regard
from regard.errors import InputError
from regard.tracing.dataflow import edges as edge_maps
from tracing.graphs import (
    DIM,
    FEATURES,
    GAT,
    GCN,
    HEADS,
    NODES,
    DenseGAT,
    GATv2,
    GraphTransformer,
    InPlaceGAT,
    LateGAT,
    Network,
    SigmoidGAT,
    dense_map,
    log_softmax,
    make_graph,
    reciprocal_softmax,
)

LAYERS = [GAT, GATv2, GraphTransformer, LateGAT]


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_edge_weights_are_one_map_of_nodes_by_nodes_for_each_layer(layer, mode):
    network, graph = Network(layer).eval(), make_graph()
    with mode():
        alone = network(*graph)
        with regard.watch(network) as seen:
            assert torch.equal(network(*graph), alone)
    (trace,) = seen
    assert not trace.gaps
    assert [shown.site for shown in trace.maps] == ["layers.0", "layers.1"]
    for place, shown in enumerate(trace.maps):
        assert (shown.kind, shown.shape) == ("encoder", (HEADS, NODES, NODES))
        torch.testing.assert_close(shown.weights(), dense_map(network.layers[place]))


@pytest.mark.parametrize("layer", LAYERS)
def test_graphs_of_embedded_nodes_have_the_stream_of_the_embedding(layer):
    network, (_, edges) = Network(layer, embeds=True).eval(), make_graph()
    with torch.no_grad(), regard.watch(network) as seen:
        network(torch.arange(NODES), edges)
    (trace,) = seen
    assert not trace.gaps
    for place, shown in enumerate(trace.maps):
        assert shown.kind == "encoder"
        torch.testing.assert_close(shown.weights(), dense_map(network.layers[place]))
    assert len(trace.maps) == 2


def test_the_map_times_the_values_of_the_nodes_is_the_context():
    layer, graph = GAT().eval(), make_graph()
    with torch.no_grad(), regard.watch(layer) as seen:
        context = layer(*graph)
    values = layer.values(graph[0]).view(NODES, HEADS, DIM).transpose(0, 1)
    again = (seen[0].maps[0].weights() @ values).transpose(0, 1).flatten(1)
    torch.testing.assert_close(again, context)


@pytest.mark.parametrize("normalise", [reciprocal_softmax, log_softmax])
def test_weights_may_be_normalised_by_other_formulas(normalise):
    layer, graph = GATv2().eval(), make_graph()
    layer.normalise = normalise
    with torch.no_grad(), regard.watch(layer) as seen:
        layer(*graph)
    torch.testing.assert_close(seen[0].maps[0].weights(), dense_map(layer))


def test_weights_that_do_not_sum_to_one_are_a_map_if_they_depend_on_both_ends():
    network, graph = Network(SigmoidGAT).eval(), make_graph()
    with torch.no_grad(), regard.watch(network) as seen:
        network(*graph)
    (trace,) = seen
    for shown, layer in zip(trace.maps, network.layers, strict=True):
        torch.testing.assert_close(shown.weights(), dense_map(layer))


def test_weights_and_products_may_be_computed_in_place():
    layer, graph = InPlaceGAT().eval(), make_graph()
    with torch.no_grad(), regard.watch(layer) as seen:
        layer(*graph)
    torch.testing.assert_close(seen[0].maps[0].weights(), dense_map(layer))


def test_a_graph_with_an_adjacency_matrix_is_one_trace_with_all_heads():
    network, (nodes, edges) = Network(DenseGAT).eval(), make_graph()
    adjacency = torch.eye(NODES)
    adjacency[edges[0], edges[1]] = adjacency[edges[1], edges[0]] = 1
    with torch.no_grad(), regard.watch(network) as seen:
        network(nodes, adjacency)
    (trace,) = seen
    assert len(trace.maps) == 2
    for shown, layer in zip(trace.maps, network.layers, strict=True):
        torch.testing.assert_close(shown.weights(), layer.weights)


def test_dropout_of_edge_weights_shows_in_the_map():
    layer, graph = GAT(), make_graph()
    with regard.watch(layer) as seen:
        layer(*graph)
    torch.testing.assert_close(seen[0].maps[0].weights(), dense_map(layer))
    assert (layer.weights == 0).any()


def test_a_graph_convolution_by_degrees_does_not_attend():
    network, graph = Network(GCN), make_graph()
    with pytest.raises(InputError, match="no attention was seen"), regard.watch(network):
        network(*graph)


@pytest.mark.parametrize("name", ["Mixtral", "SwitchTransformers", "Qwen3Moe"])
def test_rows_that_experts_copy_and_add_up_again_are_no_edges(name):
    sizes = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 3, "vocab_size": 97}
    sizes |= {"intermediate_size": 8, "num_key_value_heads": 3, "head_dim": 4, "use_cache": False}
    if name == "SwitchTransformers":
        sizes = {"d_model": 12, "num_layers": 1, "num_sparse_encoder_layers": 1, "vocab_size": 97}
        sizes |= {"num_heads": 3, "d_kv": 4, "d_ff": 7, "num_experts": 5}
    config = getattr(transformers, name + "Config")(**sizes)
    kind = "EncoderModel" if name == "SwitchTransformers" else "Model"
    model = getattr(transformers, name + kind)(config).eval()
    model.set_experts_implementation("eager")  # experts that copy their rows, and index_add_
    with torch.no_grad(), regard.watch(model) as seen:
        model(torch.arange(22).reshape(2, 11))
    assert [(len(trace.maps), trace.gaps) for trace in seen] == [(1, ())] * 2


def test_products_that_are_changed_before_they_are_summed_are_a_gap():
    layer, graph = GAT().eval(), make_graph()
    layer.aggregate = lambda products, target: GAT.aggregate(layer, products.tanh(), target)
    with regard.watch(layer) as seen:
        layer(*graph)
    assert [(gap.site, gap.reason) for gap in seen[0].gaps] == [("GAT", edge_maps.UNCLEAR)]


def test_a_map_of_too_many_nodes_is_a_gap_with_its_counts(monkeypatch):
    monkeypatch.setattr(edge_maps, "MAX_NUMBERS", 100)
    with regard.watch(layer := GAT().eval()) as seen:
        layer(*make_graph())
    (gap,) = seen[0].gaps
    assert "7 by 7 nodes for 3 head(s) would have 147 numbers" in gap.reason


def test_each_call_with_a_graph_is_seen():
    network, graphs = Network(GAT).eval(), [make_graph(seed) for seed in range(2)]
    expected = []
    with torch.no_grad(), regard.watch(network) as seen:
        for graph in graphs:
            network(*graph)
            expected.append(dense_map(network.layers[0]))
    (trace,) = seen
    for site, weights in zip(("layers.0", "layers.0#1"), expected, strict=True):
        torch.testing.assert_close(trace[site].weights(), weights)


def test_a_layer_that_runs_as_often_as_its_edges_have_ends_is_no_loop_over_examples():
    layer, (_, edges) = GAT(HEADS * DIM).eval(), make_graph()
    network = Network(lambda *_: layer).eval()
    network.embedding = torch.nn.Embedding(NODES, HEADS * DIM)
    with torch.no_grad(), regard.watch(network) as seen:
        network(torch.arange(NODES), edges)
    (trace,) = seen
    assert [shown.site for shown in trace.maps] == ["layers.0", "layers.0#1"]


def test_nodes_that_are_pooled_by_weights_are_a_map_of_graphs_by_nodes():
    class Pool(torch.nn.Module):
        def forward(self, nodes, graphs):
            scores = nodes[:, :1]
            largest = torch.zeros(2, 1).scatter_reduce(0, graphs[:, None], scores, "amax")
            exponentials = (scores - largest[graphs]).exp()
            sums = torch.zeros(2, 1).index_add(0, graphs, exponentials)
            self.weights = exponentials / sums[graphs]
            return torch.zeros(2, FEATURES).index_add(0, graphs, self.weights * nodes)

    pool, graphs = Pool(), torch.tensor([0, 0, 0, 1, 1, 1, 1])
    with torch.no_grad(), regard.watch(pool) as seen:
        pool(make_graph()[0], graphs)
    (shown,) = seen[0].maps
    expected = (graphs == torch.arange(2)[:, None]) * pool.weights.T
    torch.testing.assert_close(shown.weights(0), expected)
