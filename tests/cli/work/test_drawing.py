import pytest
import torch

from regard.cli.work.drawing import Wish, draw, site_of
from regard.errors import InputError, UnknownNameError
from regard.types import Gap, Trace
from traces import a_trace

LONG = 1031


@pytest.fixture(scope="module")
def long():
    return Trace.from_weights(torch.eye(LONG).expand(3, LONG, LONG), list(map(str, range(LONG))))


def windows(view):
    return view.scene.traces[0].sites[0].windows


def test_the_usual_layer_is_that_which_aligns_and_else_the_last():
    assert site_of(a_trace(), None) == "h.2"
    assert site_of(a_trace(), None, 0) == "h.0"
    assert site_of(a_trace(), "1", 0) == "h.1"
    assert site_of(a_trace(), "h.1") == "h.1"


def test_a_layer_that_is_not_there_is_refused():
    with pytest.raises(InputError, match="no layer 3; there are layers 0 to 2"):
        site_of(a_trace(), "3")
    with pytest.raises(UnknownNameError, match=r"no layer 'h.9'; did you mean"):
        site_of(a_trace(), "h.9")


@pytest.mark.parametrize(("gaps", "said"), [((), ""), ((Gap("x", "it is odd"),), "x: it is odd")])
def test_a_trace_without_maps_says_why(gaps, said):
    with pytest.raises(InputError, match=f"nothing attended.*{said}"):
        site_of(Trace({}, (), gaps), None)


def test_a_short_map_needs_no_windows():
    assert windows(draw(a_trace(), Wish(layer="h.0"))) == ()


def test_a_long_map_has_its_beginning_and_its_end_of_every_head(long):
    found = windows(draw(long, Wish()))
    assert {each.head for each in found} == {0, 1, 2}
    assert {each.rows for each in found} == {(0, 128), (LONG - 128, LONG)}


def test_a_long_map_has_whole_rows_around_the_query(long):
    view = draw(long, Wish(head=1, query="500"))
    assert {each.head for each in windows(view)} == {1}
    assert windows(view)[-1].rows == (484, 516)
    assert windows(view)[-1].columns == (0, LONG)
    assert view.state.place == 500


def test_a_head_that_is_not_there_is_refused_for_long_maps_too(long):
    with pytest.raises(InputError, match="no head 7"):
        draw(long, Wish(head=7))


def test_every_head_has_no_query_of_its_own(long):
    assert draw(long, Wish(view="heads", query="3")).state.place is None
