"""The layers of a trace, and what cannot be one."""

from dataclasses import replace

import pytest
import torch

from attribution.networks import traced
from measures.attending import a_text
from regard.attribution.layer_graph import layer_graph
from regard.errors import InputError
from regard.types import Gap, Trace


def test_a_layer_keeps_as_much_as_it_takes_where_rows_sum_to_one():
    (strip,) = layer_graph(traced("bert")).layers[0].strips()
    torch.testing.assert_close(strip.keeps, torch.full((7,), 0.5).double())
    torch.testing.assert_close(strip.takes.sum(1), torch.full((7,), 0.5).double())


def test_only_rows_from_the_first_to_the_last_wanted_token_are_computed():
    wanted = torch.zeros(11, dtype=torch.bool)
    wanted[[4, 6]] = True
    layer = layer_graph(a_text()).layers[0]
    assert [strip.tokens.tolist() for strip in layer.strips(wanted)] == [[4, 5, 6]]
    assert list(layer.strips(torch.zeros(11, dtype=torch.bool))) == []


@pytest.mark.parametrize(
    ("name", "rows", "columns"),
    [("bert", "tokens", "tokens"), ("gpt2", "tokens", "tokens"), ("marian", "target", "source")],
)
def test_by_default_it_asks_from_the_end_across_or_to_itself(name, rows, columns):
    found = layer_graph(traced(name))
    assert (found.rows.stream, found.columns.stream) == (rows, columns)


def test_windows_of_a_picture_are_refused():
    (each,) = a_text().maps
    windows = tuple(replace(each, site=f"layers.0@{part}") for part in range(2))
    with pytest.raises(InputError, match=r"'layers.0@0' looks within a window of its own"):
        layer_graph(Trace(a_text().streams, windows))


def test_a_trace_without_maps_is_refused():
    with pytest.raises(InputError, match="expected a trace with maps, got one without"):
        layer_graph(Trace({}, (), (Gap("h.0", "it is scripted"),)))


def test_heads_that_there_are_not_are_refused():
    with pytest.raises(InputError, match=r"some of the heads 0 to 2 of .*, got \[3\]"):
        layer_graph(traced("bert"), heads=[3])
