"""What each view shows, by value."""

import numpy as np
import pytest
import torch

from regard.errors import InputError
from regard.types import AttentionMap, Axis, DenseWeights, Tokens, Trace
from regard.views import MapReference, ViewState, compare, flow, heads
from regard.views.kinds.compare.numbers import compare_numbers
from regard.views.kinds.flow.numbers import flow_numbers
from regard.views.kinds.heads.numbers import heads_numbers
from regard.views.kinds.heatmap.numbers import heatmap_numbers
from regard.views.kinds.highlight.numbers import highlight_numbers
from regard.views.kinds.overlay.numbers import overlay_numbers
from regard.views.labelled_map import shade_weights, ticks
from regard.views.scene import build_scene

TEXTS = ("[CLS]", "un", "##kind", "word", ".", "Go", "[SEP]")
TOKENS = Tokens(TEXTS, words=(None, 0, 0, 1, 2, 3, None), special=(True, *[False] * 5, True))


def a_scene(*layers, tokens=TOKENS):
    found = {f"h.{index}": layer for index, layer in enumerate(layers)}
    return build_scene(Trace.from_weights(found, tokens))


def random(heads=3, size=7):
    return torch.randn(heads, size, size).mul(2).softmax(-1)


def texts(labels):
    return [each.text for each in labels]


def near(array, rows):
    assert np.asarray(array) == pytest.approx(np.asarray(rows), rel=1e-5, abs=1e-7)


def test_a_heatmap_shows_the_weights_of_its_head():
    weights = random()
    found = heatmap_numbers(a_scene(weights), ViewState("heatmap", head=2))
    near(found.weights, weights[2])
    assert texts(found.rows) == texts(found.columns) == list(TEXTS)
    assert found.cells == (1, 1)


def test_without_a_head_it_is_the_mean_over_heads():
    weights = random()
    near(heatmap_numbers(a_scene(weights), ViewState("heatmap")).weights, weights.mean(0))


def test_without_the_first_token_rows_sum_to_one_again():
    weights = random()
    found = heatmap_numbers(a_scene(weights), ViewState("heatmap", head=0, hide=("first",)))
    near(found.weights, weights[0, :, 1:] / weights[0, :, 1:].sum(-1, keepdim=True))
    assert texts(found.columns) == list(TEXTS[1:])
    assert texts(found.rows) == list(TEXTS)


def test_special_tokens_leave_rows_and_columns():
    weights = random()
    found = heatmap_numbers(a_scene(weights), ViewState("heatmap", head=1, hide=("special",)))
    kept = weights[1, 1:6, 1:6]
    near(found.weights, kept / kept.sum(-1, keepdim=True))
    assert texts(found.rows) == texts(found.columns) == list(TEXTS[1:6])


def test_a_row_of_which_nothing_is_left_is_zeros():
    found = heatmap_numbers(
        a_scene(torch.eye(7)[None]), ViewState("heatmap", head=0, hide=("first",))
    )
    assert found.weights[0].tolist() == [0] * 6
    assert found.weights[1].tolist() == [1, 0, 0, 0, 0, 0]


def test_words_sum_over_keys_and_average_over_queries():
    weights = random()
    found = heatmap_numbers(a_scene(weights), ViewState("heatmap", head=0, unit="word"))
    assert texts(found.columns) == ["[CLS]", "unkind", "word", ".", "Go", "[SEP]"]
    assert found.weights[1, 1] == pytest.approx(float(weights[0, 1:3, 1:3].sum(-1).mean()))
    assert found.weights[2, 1] == pytest.approx(float(weights[0, 3, 1:3].sum()))
    assert found.weights.sum(-1) == pytest.approx(1)


def test_sentences_are_running_text():
    found = heatmap_numbers(a_scene(random()), ViewState("heatmap", head=0, unit="sentence"))
    assert texts(found.rows) == ["[CLS]", "unkind word .", "Go", "[SEP]"]
    assert (found.rows[1].start, found.rows[1].stop) == (1, 5)


def test_hiding_everything_is_refused():
    tokens = Tokens(("<s>", "</s>"), special=(True, True))
    scene = a_scene(random(1, 2), tokens=tokens)
    with pytest.raises(InputError, match=r"no column of 'h.0' is left when special tokens are"):
        heatmap_numbers(scene, ViewState("heatmap", hide=("special",)))


def test_colours_are_linear_logarithmic_or_by_row():
    weights = np.array([[0.5, 0.1], [0.001, 0.0]], np.float32)
    near(shade_weights(weights, "linear"), [[1, 0.2], [0.002, 0]])
    near(shade_weights(weights, "log"), [[1 + np.log10(0.5) / 5, 0.8], [0.4, 0]])
    near(shade_weights(weights, "row"), [[1, 0.2], [1, 0]])
    near(shade_weights(np.zeros((2, 3), np.float32), "row"), np.zeros((2, 3)))


@pytest.mark.parametrize(
    ("count", "most", "step"), [(7, 7, 1), (8, 7, 2), (100, 30, 5), (1000, 30, 50), (5, 0, 5)]
)
def test_labels_thin_out_by_round_steps(count, most, step):
    assert ticks(count, most) == tuple(range(0, count, step))


def cross_trace():
    source = Tokens(("我", "爱", "你"))
    target = Tokens(("<s>", "I", "love", "you"), special=(True, False, False, False))
    rows, columns = Axis("target", (0, 1, 2)), Axis("source", (0, 1, 2))
    weights = torch.tensor([[[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.0, 0.1, 0.9]]])
    each = AttentionMap(
        "cross", "cross", rows, columns, DenseWeights(weights), produced=Axis("target", (1, 2, 3))
    )
    return Trace({"source": source, "target": target}, (each,))


def test_rows_of_a_cross_map_are_called_by_what_was_produced_and_it_says_so():
    found = heatmap_numbers(build_scene(cross_trace()), ViewState("heatmap"))
    assert texts(found.rows) == ["I", "love", "you"]
    assert "labelled with the output token" in found.caption
    read = heatmap_numbers(build_scene(cross_trace()), ViewState("heatmap", label="read"))
    assert texts(read.rows) == ["<s>", "I", "love"]
    assert "labelled with the input token" in read.caption


def test_hiding_special_tokens_of_the_target_keeps_rows_of_a_cross_map():
    found = heatmap_numbers(build_scene(cross_trace()), ViewState("heatmap", hide=("special",)))
    assert texts(found.rows) == ["I", "love", "you"]


def test_the_caption_says_what_was_done():
    state = ViewState(
        "heatmap", site="h.0", head=1, hide=("first", "special"), unit="word", scale="row"
    )
    caption = heatmap_numbers(a_scene(random()), state).caption
    assert caption == (
        "h.0, head 1. Rows are labelled with the input token. The first token and special tokens "
        "are hidden, and rows are renormalised. Tokens are grouped into words: weights are summed "
        "over keys and averaged over queries. Colours are relative to the largest weight of each "
        "row."
    )


def test_text_is_shaded_by_what_a_query_looked_at():
    found = highlight_numbers(build_scene(cross_trace()), ViewState("highlight", head=0, place=1))
    assert [each.text for each in found.words] == ["我", "爱", "你"]
    near([each.weight for each in found.words], [0.2, 0.7, 0.1])
    near([each.shade for each in found.words], [2 / 7, 1, 1 / 7])
    assert [text for text, _ in found.top] == ["爱", "我", "你"]
    assert "What love attends to." in found.caption


def test_without_a_query_text_is_shaded_by_the_mean_of_all():
    found = highlight_numbers(build_scene(cross_trace()), ViewState("highlight", head=0))
    near([each.weight for each in found.words], [1 / 3, 0.3, 1.1 / 3])


def test_a_pinned_column_shades_the_queries_that_looked_at_it():
    found = highlight_numbers(
        build_scene(cross_trace()), ViewState("highlight", head=0, axis="column", place=0)
    )
    near([each.weight for each in found.words], [0.8, 0.2, 0.0])
    assert found.stream == "target"


def test_all_layers_are_averaged_for_the_text():
    first, second = random(), random()
    found = highlight_numbers(a_scene(first, second), ViewState("highlight", depth="all", place=3))
    near([each.weight for each in found.words], (first.mean(0)[3] + second.mean(0)[3]) / 2)
    assert "Mean over all heads of 2 layers." in found.caption


def test_a_place_that_is_hidden_or_missing_is_refused():
    with pytest.raises(InputError, match=r"no row 9 is shown of 'h.0'; it has 0 to 6"):
        highlight_numbers(a_scene(random()), ViewState("highlight", place=9))


def test_lines_are_drawn_from_the_threshold_up_heaviest_last():
    weights = random(2)
    found = flow_numbers(a_scene(weights), ViewState("flow", threshold=0.3))
    assert len(found.lines) == int((weights >= 0.3).sum())
    sizes = [line.weight for line in found.lines]
    assert sizes == sorted(sizes)
    assert found.count == 2 * 49
    last = found.lines[-1]
    assert last.weight == pytest.approx(float(weights[last.head, last.start, last.stop]))


def test_without_a_threshold_only_the_lines_that_matter_are_drawn():
    found = flow_numbers(a_scene(torch.full((5, 7, 7), 1 / 7)), ViewState("flow"))
    assert found.threshold == 0.2
    assert found.lines == ()
    sharp = flow_numbers(a_scene(torch.eye(7)[None]), ViewState("flow"))
    assert (sharp.threshold, len(sharp.lines)) == (0.02, 7)


def test_heads_can_be_switched_off_and_a_row_pinned():
    weights = random(3)
    found = flow_numbers(a_scene(weights), ViewState("flow", heads=(0, 2), place=4, threshold=0.0))
    assert {line.head for line in found.lines} == {0, 2}
    assert {line.start for line in found.lines} == {4}
    assert len(found.lines) == 14


def test_across_all_layers_attention_is_multiplied_down_to_the_last_token():
    first, second = random(1), random(1)
    found = flow_numbers(
        a_scene(first, second), ViewState("flow", head=0, span="all", threshold=0.0)
    )
    assert len(found.levels) == 3
    flow = second[0, 6]
    top = {line.stop: line.weight for line in found.lines if line.level == 0}
    near([top[index] for index in range(7)], flow)
    low = {(line.start, line.stop): line.weight for line in found.lines if line.level == 1}
    assert low[2, 5] == pytest.approx(float(flow[2] * first[0, 2, 5]), rel=1e-4)
    assert sum(low.values()) == pytest.approx(1, rel=1e-4)


def test_layers_that_look_elsewhere_do_not_follow_one_another():
    with pytest.raises(InputError, match=r"rows of 'cross' are not its columns"):
        flow_numbers(build_scene(cross_trace()), ViewState("flow", span="all"))


def test_over_time_lines_go_to_what_was_produced():
    found = flow_numbers(build_scene(cross_trace()), ViewState("flow", span="time", threshold=0.5))
    drawn = {
        (found.levels[0][line.start].text, found.levels[1][line.stop].text) for line in found.lines
    }
    assert drawn == {("I", "我"), ("love", "爱"), ("you", "你")}


def test_every_head_has_a_small_map():
    found = heads_numbers(a_scene(random(3), random(2)), ViewState("heads"))
    assert [len(row) for row in found.rows] == [3, 2]
    assert found.rows[0][0].shades.shape == (7, 7)
    assert found.rows[0][0].shades.max() == 1


def image_trace():
    patches = Tokens(
        tuple(map(str, range(7))), special=(True, *[False] * 6), grid=(2, 3), named=False
    )
    weights = torch.arange(1.0, 8).expand(2, 5, 7) / 28
    words = Tokens(("a", "cat", "on", "a", "mat"))
    axes = Axis("words", tuple(range(5))), Axis("patches", tuple(range(7)))
    return Trace(
        {"words": words, "patches": patches},
        (AttentionMap("cross", "cross", *axes, DenseWeights(weights)),),
    )


def test_patches_lie_as_in_their_picture_and_the_rest_is_said():
    found = overlay_numbers(build_scene(image_trace()), ViewState("overlay", head=1, place=1))
    near(found.weights, np.arange(2, 8).reshape(2, 3) / 28)
    assert found.elsewhere == pytest.approx(1 / 28)
    assert found.steps == ("a", "cat", "on", "a", "mat")
    assert "What cat attends to in the image; 3.6% of its weight" in found.caption


def test_text_is_not_a_picture():
    with pytest.raises(InputError, match=r"columns of 'h.0' are not patches of a picture"):
        overlay_numbers(a_scene(random()), ViewState("overlay"))


def test_two_heads_of_one_trace_are_subtracted():
    weights = random()
    state = ViewState("compare", head=0, other=MapReference(0, None, 2))
    near(compare_numbers(a_scene(weights), state).difference, weights[0] - weights[2])


def test_two_tokenizers_are_compared_by_words():
    mine = Trace.from_weights(random(), TOKENS)
    others = Tokens(
        ("<s>", "unkind", "wo", "rd", ".", "Go"),
        words=(None, 0, 1, 1, 2, 3),
        special=(True, *[False] * 5),
    )
    its = Trace.from_weights(random(2, 6), others)
    found = compare(mine, its, head=1).numbers
    assert texts(found.rows) == ["[CLS]", "unkind", "word", ".", "Go"]
    near(found.first.sum(-1), np.ones(5))
    weights = its["weights"].weights(1)
    assert found.second[1, 2] == pytest.approx(float(weights[1, 2:4].sum()), rel=1e-4)
    near(found.difference, found.first - found.second)
    assert "aligned by words" in found.caption


def test_lines_of_a_long_text_are_thinner_until_there_are_some():
    spread = Trace.from_weights(torch.full((101, 101), 0.0099), [f"t{n}" for n in range(101)])
    spread["weights"].source.weights[0, :, :3] = 0.012
    found = flow(spread, head=0).numbers
    assert found.threshold == 0.01
    assert len(found.lines) == 303
    few = Trace.from_weights(torch.full((3, 3), 0.004), ["a", "b", "c"])
    assert flow(few, head=0).numbers.threshold == 0.02


def test_badges_of_checks_are_called_by_their_names():
    trace = Trace.from_weights(torch.eye(3), ["a", "b", "c"])
    badged = heads(trace, badges={("weights", 0): ["role-previous", "mine"]}, language="zh")
    assert badged.numbers.rows[0][0].badges == ("前词元", "mine")


def test_labels_and_captions_hold_the_beginning_of_what_is_too_long():
    axis = Axis("tokens", (0, 1))
    maps = (AttentionMap("s" * 1_000_000, "encoder", axis, axis, DenseWeights(torch.eye(2)[None])),)
    scene = build_scene(Trace({"tokens": Tokens(("x" * 1_000_000, "y"))}, maps))
    shown = heatmap_numbers(scene, ViewState())
    assert texts(shown.rows) == ["x" * 119 + "…", "y"]
    assert len(shown.caption) < 500


def test_highlighted_units_are_cut_alike_if_the_whole_text_is_too_long():
    scene = a_scene(torch.eye(50)[None], tokens=tuple(f"{n:03}" * 400 for n in range(50)))
    words = highlight_numbers(scene, ViewState()).words
    assert {len(word.text) for word in words} == {240}
