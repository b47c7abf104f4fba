"""Reports by value: what is in the scene, what is looked at first, what comes back from a file."""

import json
import math
from dataclasses import replace

import pytest
import torch

from regard.errors import InputError, NotFiniteError, UnknownNameError
from regard.types import Trace
from regard.types.finding import Finding, FindingText, FindingView
from regard.views import View, heatmap, report
from regard.views.reports import MOST_TRACES
from views import vectors

TEXTS = {"en": FindingText("A sentence."), "zh": FindingText("一句话。")}


def finding(example=0, view=None, severity="warning", check="sink", **more):
    return Finding(check, severity, 0.5, 0.25, TEXTS, example=example, view=view, **more)


def small(seed=0, size=5):
    torch.manual_seed(seed)
    weights = torch.randn(2, 3, size, size).softmax(-1)
    return Trace.from_weights(weights, [f"t{seed}{place}" for place in range(size)])


HEAD = FindingView("heatmap", "layer 1", 2)


def test_the_worst_findings_come_first_and_equals_keep_their_order():
    told = report(vectors.a_trace(), vectors.findings())
    assert [each.check for each in told.scene.findings] == ["leak", "odd", "sink", "lost"]
    assert repr(told) == "<report of 4 findings>"


def test_a_report_begins_with_the_picture_of_its_first_finding():
    state = report(vectors.a_trace(), vectors.findings()).state
    assert (state.view, state.site, state.head) == ("highlight", "cross.0", None)
    assert (state.finding, state.axis, state.place, state.depth) == (0, "row", 2, "layer")


def test_a_column_is_pinned_where_a_picture_has_no_row():
    sink = vectors.findings()[0]
    state = report(vectors.a_trace(), [sink], language="zh", hide=["first"]).state
    assert (state.view, state.axis, state.place, state.depth) == ("heatmap", "column", 5, "head")
    assert (state.language, state.hide) == ("zh", ("first",))


def test_a_report_without_pictures_begins_with_all_heads():
    state = report(small(), [finding()]).state
    assert (state.view, state.finding) == ("heads", None)


def test_heads_have_badges_of_what_was_found_at_them():
    found = [finding(site="layer 1", head=2), finding(site="layer 1", head=2, check="dead")]
    told = report(small(), found, badges={("layer 1", 2): ["mine"], ("layer 0", 0): ["first"]})
    first, second = told.scene.traces[0].sites
    assert second.badges == ((), (), ("mine", "sink", "dead"))
    assert first.badges == (("first",), (), ())


def test_the_traces_that_findings_name_are_held_and_numbered_anew():
    traces = [small(seed) for seed in range(9)]
    told = report(traces, [finding(7, HEAD), finding(3, HEAD, "bug"), finding(5)])
    assert [each.name[:1] for each in told.scene.traces] == ["1", "4", "8"]
    assert [each.example for each in told.scene.findings] == [1, 2, 0]
    assert told.state.trace == 1
    assert told.scene.alignments is None


def test_a_finding_of_a_trace_that_is_not_held_is_told_without_its_picture():
    traces = [small(seed) for seed in range(MOST_TRACES + 3)]
    told = report(traces, [finding(each, HEAD) for each in range(1, MOST_TRACES + 3)])
    assert len(told.scene.traces) == MOST_TRACES
    assert [each.view is None for each in told.scene.findings] == [False] * 5 + [True] * 3


def test_a_report_comes_back_from_its_file(tmp_path):
    told = report(vectors.a_trace(), vectors.findings(), title="Two")
    read = View.load(told.save(tmp_path / "report.json"))
    assert read.state == told.state
    known = [replace(each, value=0.0, limit=0.0) for each in told.scene.findings]
    assert [replace(each, value=0.0, limit=0.0) for each in read.scene.findings] == known
    assert math.isnan(read.scene.findings[0].value)


def test_the_header_of_a_report_is_json_of_every_reader():
    header = report(vectors.a_trace(), vectors.findings()).packed.header
    assert json.loads(json.dumps(header, allow_nan=False))["findings"][0]["value"] is None


def test_other_scenes_have_no_findings():
    assert heatmap(small()).packed.header["findings"] is None


def test_weights_that_are_no_numbers_are_shown_as_none_and_the_caption_says_so():
    weights = torch.full((2, 3, 3), 1 / 3)
    weights[1, 1, 2] = torch.nan
    trace = Trace.from_weights({"broken": weights}, ["a", "b", "c"])
    told = report(trace, [finding(view=FindingView("heatmap", "broken", 1))])
    assert told.numbers.weights[1].tolist() == pytest.approx([1 / 3, 1 / 3, 0])
    assert "(NaN, infinite or negative) are shown as 0" in told.numbers.caption
    assert told.packed.header["traces"][0]["sites"][0]["mended"] is True
    with pytest.raises(NotFiniteError, match="hold NaN or infinity"):
        _ = heatmap(trace, head=1).numbers


def test_a_mended_map_is_mended_still_when_it_was_read(tmp_path):
    trace = Trace.from_weights(torch.tensor([[torch.inf, 0.5], [0.5, 0.5]]), ["a", "b"])
    read = View.load(
        report(trace, [finding(view=FindingView("heatmap"))]).save(tmp_path / "r.json")
    )
    assert "shown as 0" in read.numbers.caption


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (finding(4), InputError, "'sink' is of trace 4, and there are 1, numbered from 0"),
        (finding(0, FindingView("flow", "h.9")), UnknownNameError, "no attention site 'h.9'"),
        (finding(0, replace(HEAD, head=3)), InputError, "has head 3 of 'layer 1', which has 3"),
        (finding(0, replace(HEAD, rows=(5,))), InputError, "has row 5 of 'layer 1', which has 5"),
        (
            finding(0, FindingView("heatmap", columns=(-1,))),
            InputError,
            "has column -1 of 'layer 0'",
        ),
    ],
)
def test_a_picture_of_what_is_not_there_is_refused(wrong, error, message):
    with pytest.raises(error, match=message):
        report(small(), [wrong])


def test_a_report_of_no_trace_is_refused():
    with pytest.raises(InputError, match="expected a trace or more, got none"):
        report([], [])


def test_an_argument_that_no_view_has_is_refused():
    with pytest.raises(TypeError, match="report got an unexpected argument 'colour'"):
        report(small(), [], colour="red")
