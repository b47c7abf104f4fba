from dataclasses import replace

import pytest
import torch

from regard.errors import InputError, ShapeError, UnknownNameError
from regard.types import AttentionMap, Axis, DenseWeights, SummaryOnly, maps
from traces import COLUMNS, HEADS, ROWS, a_map, by_definition


def dense_map(heads=3, rows=5, columns=7, **parts):
    return AttentionMap(
        "h.0",
        "encoder",
        Axis("tokens", tuple(range(rows))),
        Axis("tokens", tuple(range(columns))),
        DenseWeights(torch.rand(heads, rows, columns)),
        **parts,
    )


def test_a_map_knows_its_shape():
    assert a_map().shape == (HEADS, ROWS, COLUMNS)
    assert a_map().heads == HEADS


def test_the_weights_of_all_heads_are_those_of_the_call():
    each = a_map()
    torch.testing.assert_close(each.weights().double(), by_definition(each), atol=1e-5, rtol=0)


def test_the_weights_of_a_head_are_its_own():
    each = a_map()
    assert torch.equal(each.weights(4), each.weights()[4])


def test_a_window_is_a_rectangle_of_the_weights():
    each = a_map()
    found = each.window(2, range(3, 8), range(1, 12)).mean
    torch.testing.assert_close(found, each.weights(2)[3:8, 1:12])


def test_selected_heads_keep_their_weights_in_the_order_asked():
    each = a_map()
    torch.testing.assert_close(each.select([5, 0, 2]).weights(), each.weights()[[5, 0, 2]])


def test_selected_heads_keep_what_was_seen_of_them():
    each = a_map()
    some = each.select([5, 0])
    assert torch.equal(some.statistics.entropy, each.statistics.entropy[[5, 0]])
    assert torch.equal(some.top.keys, each.top.keys[[5, 0]])
    assert torch.equal(some.atlas.largest, each.atlas.largest[[5, 0]])
    assert (some.rows, some.columns, some.produced) == (each.rows, each.columns, each.produced)


def test_a_part_keeps_the_weights_of_its_rows_and_columns():
    each = a_map()
    part = each.part(range(3, 8), range(1, 12))
    torch.testing.assert_close(part.weights(), each.weights()[:, 3:8, 1:12])


def test_a_part_keeps_the_places_of_its_rows_and_columns():
    part = a_map().part(range(3, 5), range(1, 4))
    assert part.rows == Axis("target", (3, 4))
    assert part.columns == Axis("source", (1, 2, 3))
    assert part.produced == Axis("target", (4, 5))


def test_a_part_keeps_the_numbers_of_its_whole_rows():
    each = a_map()
    part = each.part(range(3, 5), range(1, 4))
    assert torch.equal(part.statistics.distance, each.statistics.distance[:, 3:5])
    assert torch.equal(part.top.weights, each.top.weights[:, 3:5])


def test_keys_of_a_part_count_from_its_first_column():
    each = a_map()
    part = each.part(range(ROWS), range(4, 9))
    for found, whole in (
        (part.statistics.largest_key, each.statistics.largest_key),
        (part.top.keys, each.top.keys),
    ):
        inside = (whole >= 4) & (whole < 9)
        assert inside.any()
        assert torch.equal(found[inside], whole[inside] - 4)
        assert (found[~inside] == -1).all()


def test_only_the_whole_map_keeps_its_atlas():
    each = a_map()
    assert each.part(range(ROWS), range(1, COLUMNS)).atlas is None
    assert torch.equal(each.part(range(ROWS), range(COLUMNS)).atlas.mean, each.atlas.mean)


def test_a_map_of_which_little_is_known_can_be_cut():
    part = dense_map().select([2, 1]).part(range(1, 4), range(2, 7))
    assert part.shape == (2, 3, 5)
    assert (part.statistics, part.top, part.atlas, part.produced) == (None, None, None, None)


def test_a_map_refuses_weights_that_do_not_fit_its_tokens():
    with pytest.raises(InputError, match=r"'h.0' expected weights of 5 rows and 11 columns, one "):
        replace(dense_map(), columns=Axis("tokens", tuple(range(11))))


def test_a_map_refuses_an_unknown_kind(unchecked):
    with pytest.raises(UnknownNameError, match="no kind of map 'crosss'; did you mean 'cross'"):
        replace(dense_map(), kind="crosss")


def test_a_map_refuses_more_produced_tokens_than_rows():
    with pytest.raises(InputError, match="one produced token for each of its 5 rows, got 2"):
        dense_map(produced=Axis("tokens", (3, 4)))


@pytest.mark.parametrize("name", ["statistics", "top"])
def test_a_map_refuses_numbers_of_other_rows(name):
    message = rf"expected {name} with the axes \(head query\) = \(3, 5\), got .* leave the batch"
    with pytest.raises(ShapeError, match=message):
        dense_map(**{name: getattr(a_map(), name)})


@pytest.mark.parametrize("head", [-1, 3])
def test_a_head_that_is_not_there_is_named_with_those_that_are(head):
    with pytest.raises(InputError, match=f"no head {head} at 'h.0'; it has heads 0 to 2"):
        dense_map().weights(head)


@pytest.mark.parametrize("heads", [[], [0, 3], [-1]])
def test_selecting_refuses_heads_that_are_not_there(heads):
    with pytest.raises(InputError, match=r"some of the heads 0 to 2 of 'h.0', got \["):
        dense_map().select(heads)


@pytest.mark.parametrize("run", [range(0), range(2, 9), range(-1, 2), range(0, 4, 2)])
def test_a_part_refuses_rows_outside_the_map(run):
    with pytest.raises(InputError, match=r"expected rows within 0 to 5 of 'h.0' with a step"):
        dense_map().part(run, range(7))


def test_a_part_refuses_columns_outside_the_map():
    with pytest.raises(InputError, match=r"columns within 0 to 7 of 'h.0' .*, got range\(0, 8\)"):
        dense_map().part(range(5), range(8))


def test_too_many_weights_are_refused_with_the_way_out(monkeypatch):
    monkeypatch.setattr(maps, "MAX_DENSE_WEIGHTS", 100)
    message = "'h.0' are 105 numbers, more than 100; ask for one head, for a part"
    with pytest.raises(InputError, match=message):
        dense_map().weights()
    assert dense_map().weights(0).shape == (5, 7)


def test_a_summary_has_no_weights():
    with pytest.raises(InputError, match="keeps only statistics and an atlas"):
        replace(dense_map(), source=SummaryOnly((3, 5, 7))).weights(0)


@pytest.mark.parametrize("source", ["recomputable", "dense", "summary"])
def test_a_map_shows_what_it_is(source):
    sources = {
        "recomputable": a_map().source,
        "dense": DenseWeights(torch.rand(HEADS, ROWS, COLUMNS)),
        "summary": SummaryOnly((HEADS, ROWS, COLUMNS)),
    }
    expected = f"<cross map 'h.0': 6 heads, 11 target rows x 13 source columns, {source}>"
    assert repr(replace(a_map(), source=sources[source])) == expected


def test_a_map_of_one_head_says_so():
    assert "'h.0': 1 head, 5 tokens rows" in repr(dense_map(heads=1))


def with_sides(**parts):
    sides = {"values": torch.rand(2, COLUMNS, 7), "gradient": torch.rand(HEADS, ROWS, 7)}
    return replace(a_map(), **sides | parts)


def test_selected_heads_say_which_they_are_in_the_model():
    assert a_map().head_indices is None
    assert a_map().select([5, 0, 2]).head_indices == (5, 0, 2)
    assert a_map().select([5, 0, 2]).select([2, 0]).head_indices == (2, 5)


def test_a_part_of_selected_heads_still_says_which_they_are():
    assert a_map().select([4, 1]).part(range(3), range(5)).head_indices == (4, 1)


def test_a_map_shows_which_heads_it_has():
    assert "'h.0': 2 heads (5, 0), 11 target rows" in repr(a_map().select([5, 0]))
    many = replace(dense_map(heads=11), head_indices=tuple(range(2, 13)))
    assert "11 heads (2, 3, 4, 5, 6, 7, 8, 9, …), 5 tokens" in repr(many)


def test_selected_heads_keep_their_values_and_gradients():
    each = with_sides()
    some = each.select([5, 0])
    assert torch.equal(some.values, each.values[[1, 0]])
    assert torch.equal(some.gradient, each.gradient[[5, 0]])


def test_selected_heads_keep_their_parts_of_the_output_projection():
    each = with_sides(output_projection=torch.rand(HEADS, 7, 17))
    assert torch.equal(each.select([5, 0]).output_projection, each.output_projection[[5, 0]])
    assert torch.equal(each.part(range(3), range(5)).output_projection, each.output_projection)


def test_a_map_refuses_an_output_projection_of_other_heads():
    with pytest.raises(
        ShapeError, match=r"\(head value_dim model\) for its 6 heads, got \(5, 7, 17"
    ):
        replace(a_map(), output_projection=torch.rand(5, 7, 17))


def test_a_part_keeps_the_values_of_its_columns_and_the_gradients_of_its_rows():
    each = with_sides()
    part = each.part(range(3, 5), range(1, 4))
    assert torch.equal(part.values, each.values[:, 1:4])
    assert torch.equal(part.gradient, each.gradient[:, 3:5])


def test_a_map_refuses_numbers_for_other_heads():
    with pytest.raises(InputError, match=r"a number for each of its 3 heads, got \(1, 2\)"):
        dense_map(head_indices=(1, 2))


@pytest.mark.parametrize("shape", [(2, 11, 7), (4, 13, 7)])
def test_a_map_refuses_values_of_other_columns_or_heads(shape):
    with pytest.raises(ShapeError, match="values for its 13 columns, of a number of heads that"):
        with_sides(values=torch.rand(shape))


def test_a_map_refuses_a_gradient_of_other_rows():
    with pytest.raises(ShapeError, match=r"gradient with the axes \(head query\) = \(6, 11\) fir"):
        with_sides(gradient=torch.rand(HEADS, ROWS + 2, 7))


def test_kept_numbers_are_given_as_they_are():
    each = a_map()
    assert each.row_statistics is each.statistics


def test_numbers_that_were_not_kept_are_counted_once():
    each = replace(a_map(), statistics=None)
    assert each.row_statistics is each.row_statistics
    torch.testing.assert_close(each.row_statistics.entropy, a_like(each).entropy)


def a_like(each):
    dense = replace(each, source=DenseWeights(each.weights()), rows=moved(each.rows, each.offset))
    sink = each.row_statistics.on_sink
    entropy = dense.row_statistics.entropy - torch.special.xlogy(sink, sink)
    return replace(dense.row_statistics, entropy=entropy)


def moved(axis, offset):
    return Axis(axis.stream, tuple(place + offset for place in axis.positions))


def test_dense_rows_stand_at_their_places():
    part = dense_map(rows=7).part(range(3, 6), range(1, 7))
    assert part.offset == 2
    expected = part.weights().diagonal(2, dim1=1, dim2=2)
    torch.testing.assert_close(part.row_statistics.on_self, expected)


def test_a_part_of_a_recomputable_map_stands_where_its_weights_do():
    each = a_map()
    assert each.offset == 2
    assert each.part(range(3, 8), range(1, 12)).offset == 4


def test_counted_numbers_of_a_part_are_of_its_columns():
    each = replace(a_map(), statistics=None)
    part = each.part(range(3, 8), range(4, 9))
    torch.testing.assert_close(part.row_statistics.on_first, each.weights()[:, 3:8, 4])


def test_a_summary_with_statistics_gives_them():
    each = replace(a_map(), source=SummaryOnly((HEADS, ROWS, COLUMNS)))
    assert each.row_statistics is each.statistics


def test_columns_of_every_source_receive_the_same():
    each = a_map()
    dense = replace(each, source=DenseWeights(each.weights()))
    labels = torch.arange(COLUMNS) % 3
    found, other = each.received(labels), dense.received(labels)
    torch.testing.assert_close(found.total, other.total)
    torch.testing.assert_close(found.by_label, other.by_label)
    torch.testing.assert_close(found.by_label.sum(-1), each.weights().sum(-1))


def test_labels_are_one_for_each_column():
    with pytest.raises(ShapeError, match=r"expected a label for each of the 7 columns, got \(5,\)"):
        dense_map().received(torch.zeros(5).long())


def test_labels_are_whole_numbers(unchecked):
    with pytest.raises(InputError, match=r"whole numbers, got torch.float32; use .long"):
        dense_map().received(torch.zeros(7))


def test_visible_columns_come_from_the_mask():
    each = a_map()
    seen = each.source.scoring.mask.dense(ROWS, COLUMNS, offset=2)[0]
    assert torch.equal(each.visible_counts, seen.sum(-1).expand(HEADS, ROWS))


def test_dense_rows_that_never_look_ahead_may_see_what_came_before():
    weights = torch.rand(3, 7, 7).tril()
    each = replace(dense_map(rows=7), source=DenseWeights(weights))
    assert each.visible_counts[1].tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert replace(each, kind="cross").visible_counts.tolist() == [[7] * 7] * 3


def test_dense_rows_that_look_ahead_may_see_everything():
    assert dense_map().visible_counts.tolist() == [[7] * 5] * 3


def test_rows_of_a_map_come_in_strips():
    each = a_map()
    found = torch.cat([weights for _, weights in each.row_strips(max_weights=200)], dim=1)
    torch.testing.assert_close(found, each.weights())


def test_strips_of_a_summary_are_refused_with_the_way_out():
    each = replace(dense_map(), source=SummaryOnly((3, 5, 7)))
    with pytest.raises(InputError, match="watch again with keep='windows' or keep='dense'"):
        next(each.row_strips())
