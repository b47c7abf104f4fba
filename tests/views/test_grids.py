"""The grid of a picture's patches is recognised, given by the caller, or refused."""

import pytest
import torch

import regard
from regard.errors import InputError
from regard.types import Tokens, Trace
from regard.views import heatmap, overlay
from regard.views.grids import add_grid

PNG = b"\x89PNG\r\n\x1a\n rest"


class HandWrittenViT(torch.nn.Module):
    """Cuts the picture by reshaping, and attends by hand: nothing tells rows and columns."""

    def __init__(self, rows: int = 3, columns: int = 3) -> None:
        super().__init__()
        self.grid = rows, columns
        self.embed, self.key = torch.nn.Linear(3 * 4 * 4, 8), torch.nn.Linear(8, 8)
        self.first = torch.nn.Parameter(torch.randn(1, 1, 8))

    def forward(self, pixels):
        rows, columns = self.grid
        cut = pixels.reshape(len(pixels), 3, rows, 4, columns, 4)
        patches = cut.permute(0, 2, 4, 1, 3, 5).reshape(len(pixels), rows * columns, 48)
        x = torch.cat([self.first.expand(len(pixels), -1, -1), self.embed(patches)], dim=1)
        weights = (x @ self.key(x).transpose(1, 2) / 8**0.5).softmax(-1)
        return (weights @ x)[:, 0]


def trace_of(rows: int, columns: int) -> Trace:
    model = HandWrittenViT(rows, columns)
    return regard.capture(model, None, {"pixels": torch.randn(1, 3, 4 * rows, 4 * columns)})


def test_a_square_behind_a_class_token_is_recognised():
    trace = trace_of(3, 3)
    assert all(tokens.grid is None for tokens in trace.streams.values())
    view = overlay(trace, PNG)
    weights = trace.maps[0].weights().mean((0, 1))
    torch.testing.assert_close(torch.tensor(view.numbers.weights).flatten(), weights[1:])
    assert view.numbers.elsewhere == pytest.approx(float(weights[0]), abs=1e-6)
    assert view.numbers.steps[:2] == ("[0]", "0,0")


def test_a_grid_that_is_given_has_its_own_rows_and_columns():
    trace = trace_of(2, 3)
    with pytest.raises(InputError, match=r"7 tokens.* such as grid=\(14, 14\)"):
        overlay(trace)
    for view in (overlay(trace, grid=(2, 3)), regard.view(trace, grid=(2, 3))):
        assert view.state.view == "overlay"
        assert view.numbers.weights.shape == (2, 3)
    kept = heatmap(trace, grid=(2, 3)).scene.traces[0].streams
    assert [stream.grid for stream in kept.values()] == [(2, 3)]


@pytest.mark.parametrize(("count", "side"), [(49, 7), (50, 7), (197, 14), (198, 14), (261, 16)])
def test_the_squares_of_known_models_are_recognised(count, side):
    trace = Trace.from_weights(
        torch.full((1, 1, 1, count), 1 / count), Tokens.positions(1), Tokens.positions(count)
    )
    added, site = add_grid(trace, None)
    assert added.streams[added[site].columns.stream].grid == (side, side)


def test_words_are_not_taken_for_patches_unless_the_caller_says_so():
    trace = Trace.from_weights(torch.full((4, 4), 0.25), list("abcd"))
    with pytest.raises(InputError, match="no stream of this trace has a grid of patches"):
        overlay(trace)
    assert overlay(trace, grid=(2, 2)).numbers.weights.shape == (2, 2)


@pytest.mark.parametrize("grid", [(3, 3), (1, 2), (0, 7), (7,), "7x1", (2.0, 2), None])
def test_a_grid_that_does_not_fit_is_refused(grid, unchecked):
    trace = trace_of(2, 3)
    with pytest.raises(InputError, match="grid"):
        add_grid(trace, None, grid)
