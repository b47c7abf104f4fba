import pytest
import torch

from regard.errors import InputError, UnknownNameError
from regard.types import Gap, Trace
from regard.types.finding import Finding, FindingText
from regard.views import view
from regard.views.choose import choose_site
from regard.views.kinds import KINDS
from traces import a_trace

LONG = 1031


@pytest.fixture(scope="module")
def long():
    return Trace.from_weights(torch.eye(LONG).expand(3, LONG, LONG), list(map(str, range(LONG))))


def windows(found):
    return found.scene.traces[0].sites[0].windows


def test_the_default_site_is_the_last_cross_map():
    assert choose_site(a_trace()) == "h.2"
    assert choose_site(a_trace(), 1) == "h.1"
    assert choose_site(a_trace(), "h.1") == "h.1"


def test_the_default_site_of_self_attention_is_the_first_map():
    trace = Trace.from_weights(torch.eye(3).expand(2, 1, 3, 3), ["a", "b", "c"])
    assert choose_site(trace) == trace.maps[0].site


def test_a_layer_that_is_not_there_is_refused():
    with pytest.raises(InputError, match="no layer 3; there are layers 0 to 2"):
        choose_site(a_trace(), 3)
    with pytest.raises(UnknownNameError, match=r"no layer 'h.9'; did you mean"):
        choose_site(a_trace(), "h.9")


@pytest.mark.parametrize(("gaps", "said"), [((), ""), ((Gap("x", "it is odd"),), "x: it is odd")])
def test_a_trace_without_maps_says_why(gaps, said):
    with pytest.raises(InputError, match=f"nothing attended.*{said}"):
        choose_site(Trace({}, (), gaps))


def test_a_short_map_needs_no_windows():
    assert windows(view(a_trace(), site="h.0")) == ()


def test_a_long_map_has_its_beginning_and_its_end_of_every_head(long):
    found = windows(view(long))
    assert {each.head for each in found} == {0, 1, 2}
    assert {each.rows for each in found} == {(0, 128), (LONG - 128, LONG)}


def test_a_long_map_has_whole_rows_around_the_query(long):
    found = view(long, head=1, query="500")
    assert {each.head for each in windows(found)} == {1}
    assert windows(found)[-1].rows == (484, 516)
    assert windows(found)[-1].columns == (0, LONG)
    assert found.state.place == 500


def test_a_head_that_is_not_there_is_refused_for_long_maps_too(long):
    with pytest.raises(InputError, match="no head 7"):
        view(long, head=7)


def test_a_row_that_is_not_there_is_refused():
    with pytest.raises(InputError, match=r"no row 99 at 'h.0'; it has rows 0 to"):
        view(a_trace(), site="h.0", query=99)


def test_the_overview_of_heads_has_no_query_of_its_own(long):
    assert view(long, "heads", query="3").state.place is None


@pytest.mark.parametrize("kind", [kind.name for kind in KINDS.values() if kind.most_tokens])
def test_a_text_that_is_too_long_for_a_kind_is_refused(long, kind):
    with pytest.raises(InputError, match=r"shows 1,024 tokens at most, got 1,031; show fewer"):
        view(long, kind)


def test_a_kind_that_there_is_not_is_refused():
    with pytest.raises(UnknownNameError, match="no view 'heat'; did you mean 'heatmap'"):
        view(a_trace(), "heat")


def test_two_traces_are_compared():
    trace = Trace.from_weights(torch.eye(3), ["a", "b", "c"])
    assert view([trace, trace]).state.view == "compare"
    with pytest.raises(InputError, match="drawn as 'compare', got kind='flow'"):
        view([trace, trace], "flow")


def test_findings_are_a_report_of_their_traces():
    trace = Trace.from_weights(torch.eye(3), ["a", "b", "c"])
    finding = Finding("sink", "observation", 0.9, 0.5, {"en": FindingText("It is so.")})
    assert repr(view([finding], traces=trace)) == "<report of 1 finding>"
    with pytest.raises(InputError, match="give them as traces="):
        view([finding])


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(InputError, match="view expected a trace, a task's result, two traces"):
        view([1, 2])
