import pytest
import torch

import regard
from regard.errors import InputError
from regard.tracing.assembly.beam_rows import find_trace_rows
from regard.tracing.assembly.token_labels import TokenLabels
from regard.tracing.recording.record import CallRecord
from tracing.decoders import Decoder, step_by_step

pytestmark = pytest.mark.usefixtures("unchecked")

BATCH, LENGTH = 3, 7


def run(*batches, row_matches=None, site="h", queries=None, windows=1):
    """Steps with these batches; `row_matches` are the parents of each step, by a site."""
    calls = []
    for step, batch in enumerate(batches):
        length = 1 if queries is None else queries[step]
        weights = torch.rand(batch * windows, 2, length, 5)
        nothing = torch.empty(batch * windows, 2, 0, 0)
        found = None
        if row_matches is not None and step and row_matches[step - 1] is not None:
            found = torch.zeros(batch, batches[step - 1], dtype=torch.bool)
            for row, parents in enumerate(row_matches[step - 1]):
                found[row, parents] = True
        calls.append(
            CallRecord(
                site,
                "a",
                "a",
                nothing,
                nothing,
                weights=weights,
                windows=windows,
                row_matches=found,
            )
        )
    return calls


def test_rows_that_stay_are_their_own():
    assert find_trace_rows([run(3, 3)]) == [[[0, 1, 2], [0, 1, 2]]]


def test_the_rows_of_the_last_batch_are_followed_back():
    moved = run(3, 3, 3, row_matches=[[[1], [1], [2]], [[2], [0], [1]]])
    assert find_trace_rows([moved]) == [[[2, 1, 1], [2, 0, 1], [0, 1, 2]]]


def test_deeper_layers_tell_apart_what_the_first_one_cannot():
    first = run(2, 2, row_matches=[[[0, 1], [0, 1]]])
    second = run(2, 2, row_matches=[[[1], [0]]], site="h.1")
    assert find_trace_rows([first, second])[0] == [[1, 0], [0, 1]]


def test_sites_that_know_nothing_follow_those_that_do():
    known = run(2, 2, row_matches=[[[1], [0]]])
    assert find_trace_rows([run(2, 2, site="by hand"), known])[0] == [[1, 0], [0, 1]]


def test_of_rows_that_are_alike_each_is_taken_once():
    left = run(3, 2, row_matches=[[[1, 2], [1, 2]]])
    assert find_trace_rows([left]) == [[[0, 1, 2], [-1, 0, 1]]]


def test_rows_that_leave_keep_their_place_in_the_first_batch():
    left = run(3, 2, 1, row_matches=[[[0], [2]], [[1]]])
    assert find_trace_rows([left]) == [[[0, 1, 2], [0, -1, 1], [-1, -1, 0]]]


def test_a_prompt_that_is_read_once_goes_on_as_several_beams():
    spread = run(2, 6, row_matches=[[[0], [0], [0], [1], [1], [1]]])
    assert find_trace_rows([spread])[0] == [[0, 0, 0, 1, 1, 1], [0, 1, 2, 3, 4, 5]]


def test_an_encoder_that_ran_before_the_beams_has_a_row_for_several():
    found = find_trace_rows([run(2, site="encoder"), run(6, 6)])
    assert found[0] == [[0, 0, 0, 1, 1, 1]]


def test_streams_side_by_side_are_not_spread():
    found = find_trace_rows([run(4, site="text"), run(2, site="image")])
    assert found == [[[0, 1, 2, 3]], [[0, 1, -1, -1]]]


def test_a_second_decoding_has_a_lineage_of_its_own():
    one, two = ([[[1], [0]]], [[[1], [1]]])
    found = find_trace_rows([run(2, 2, row_matches=one), run(2, 2, row_matches=two)])
    assert found == [[[1, 0], [0, 1]], [[1, 1], [0, 1]]]


def test_windows_of_a_picture_count_by_example():
    assert find_trace_rows([run(2, windows=3), run(2, site="whole")])[0] == [[0, 1]]


def told(rows, *runs):
    return find_trace_rows(list(runs), torch.tensor(rows))


def test_told_rows_are_taken_as_they_are():
    rows = [[0, 5], [2, 3], [1, -1]]
    assert told(rows, run(6, 6, 6)) == [rows]


def test_an_encoder_of_one_row_for_each_example_stays_by_example():
    assert told([[0, 5], [2, 3]], run(2, site="encoder"), run(6, 6))[0] == [[0, 1]]


def test_an_encoder_that_ran_for_every_beam_has_the_rows_of_the_first_step():
    assert told([[0, 5], [2, 3]], run(6, site="encoder"), run(6, 6))[0] == [[0, 5]]


def test_several_hypotheses_of_an_example_share_its_encoder_s_row():
    rows = [[0, 1, 3, 4], [1, 0, 3, 3]]
    assert told(rows, run(2, site="encoder"), run(6, 6))[0] == [[0, 0, 1, 1]]


def test_steps_after_the_longest_hypothesis_belong_to_nobody():
    assert told([[0, 1], [1, 1]], run(2, 2, 2)) == [[[0, 1], [1, 1], [-1, -1]]]


def test_a_prompt_that_is_read_in_pieces_is_one_step():
    pieces = run(2, 2, 2, 2, queries=[4, 3, 1, 1])
    assert told([[0, 1], [1, 0], [1, -1]], pieces) == [[[0, 1], [0, 1], [1, 0], [1, -1]]]


def test_a_model_without_a_cache_has_one_run_for_each_step():
    assert told([[0, 1], [1, -1]], run(2), run(2)) == [[[0, 1]], [[1, -1]]]


def test_told_rows_beyond_the_batch_get_their_sentence():
    with pytest.raises(InputError, match=r"TokenLabels expected rows below 2 at step 1, .*got 5"):
        told([[0, 1], [5, 0]], run(2, 2))


MOVES = {4: [1, 1, 2], 5: [2, 0, 1], 6: [0, 1, 1]}


@torch.no_grad()
def test_each_row_of_a_reordered_cache_is_one_consistent_hypothesis():
    model, ids = Decoder().eval(), torch.randint(31, (BATCH, LENGTH))
    ids[1] = ids[0]  # alike until they are moved
    with regard.watch(model) as moved:
        final = step_by_step(model, ids, MOVES)
    with regard.watch(model) as whole:
        model(final)
    for one, other in zip(moved, whole, strict=True):
        for each, twin in zip(one, other, strict=True):
            torch.testing.assert_close(each.weights(), twin.weights(), atol=1e-5, rtol=0)
            torch.testing.assert_close(each.statistics.entropy, twin.statistics.entropy)


@torch.no_grad()
def test_rows_that_left_the_batch_have_the_trace_of_what_they_read():
    model, ids = Decoder().eval(), torch.randint(31, (BATCH, LENGTH))
    with regard.watch(model) as left:
        step_by_step(model, ids, {4: [0, 2], 6: [1]})
    for trace, row, length in zip(left, ids, (6, 4, 7), strict=True):
        with regard.watch(model) as whole:
            model(row[None, :length])
        for each, twin in zip(trace, whole[0], strict=True):
            torch.testing.assert_close(each.weights(), twin.weights(), atol=1e-5, rtol=0)


@torch.no_grad()
def test_told_rows_are_followed_where_keys_could_not_tell():
    model, ids = Decoder(layers=1).eval(), torch.randint(31, (BATCH, LENGTH))
    ids[:, 3] = 5  # the keys of a first layer know no more than the last token
    with regard.watch(model) as told:
        final = step_by_step(model, ids, {4: [2, 0, 1]})
        told.set_labels(TokenLabels(rows=torch.tensor([[2, 0, 1]] * 2 + [[0, 1, 2]] * 3)))
    with regard.watch(model) as whole:
        model(final)
    for one, other in zip(told, whole, strict=True):
        torch.testing.assert_close(one.maps[0].weights(), other.maps[0].weights())
