import sys

import pytest
import torch

import regard
from regard.errors import InputError
from regard.storage import load_trace, save_trace
from regard.tracing.assembly.token_labels import BlockInfo, TokenLabels
from regard.tracing.assembly.traces import assemble
from regard.types import Axis, Gap, Tokens
from storage.sameness import assert_same
from tracing.decoders import Decoder, Growing, Pair, step_by_step

pytestmark = pytest.mark.usefixtures("unchecked")

BATCH, LENGTH = 3, 7
STARTS = (0, 2, 3)


@pytest.fixture
def padded():
    """A decoder over a batch that is padded at the left, watched; and its weights, whole."""
    model, ids = Decoder().eval(), torch.randint(31, (BATCH, LENGTH))
    real = torch.arange(LENGTH) >= torch.tensor(STARTS)[:, None]
    seen = torch.ones(LENGTH, LENGTH).tril().bool() & real[:, None, None]
    with regard.watch(model, top=2) as found, torch.no_grad():
        model(ids, mask=seen)
    return found


def test_padding_at_the_left_is_dropped(padded):
    assert [each.maps[0].shape[1:] for each in padded] == [(7, 7), (5, 5), (4, 4)]


def test_keys_count_from_the_first_that_is_no_padding(padded):
    for trace in padded:
        for each in trace:
            weights = each.weights()
            assert torch.equal(each.statistics.largest_key, weights.argmax(-1).int())
            assert torch.equal(each.top.keys[..., 0], each.statistics.largest_key)


def test_a_key_that_no_row_has_is_none(padded):
    first_row = padded[2].maps[0].top.keys[:, 0]
    assert (first_row == torch.tensor([0, -1])).all()


def test_the_first_key_is_the_first_that_is_no_padding(padded):
    for trace in padded:
        for each in trace:
            torch.testing.assert_close(each.statistics.on_first, each.weights()[:, :, 0])


def words(prefix, count):
    return Tokens(tuple(f"{prefix}{n}" for n in range(count)), ids=tuple(range(count)))


def translated(*tokens):
    source, target = torch.randint(31, (2, LENGTH)), torch.randint(31, (2, 5))
    with regard.watch(model := Pair()) as seen, torch.no_grad():
        model(source, target)
        seen.set_labels(TokenLabels(tokens))
    return seen


def test_told_tokens_are_those_of_each_example():
    told = [{"source": words(name, 7), "target": words(name.upper(), 5)} for name in "ab"]
    for trace, tokens in zip(translated(*told), told, strict=True):
        assert trace.streams == tokens
        assert trace.of("cross")[0].produced is None


def test_rows_of_a_cross_map_lead_to_the_next_token_where_it_is_known():
    told = [{"source": words("a", 7), "target": words("b", 6)}] * 2
    own, cross = translated(*told)[1]
    assert cross.rows == Axis("target", (0, 1, 2, 3, 4))
    assert cross.produced == Axis("target", (1, 2, 3, 4, 5))
    assert own.produced is None


@torch.no_grad()
def test_a_told_hypothesis_that_ended_has_its_own_rows_and_tokens():
    model, ids = Decoder().eval(), torch.randint(31, (BATCH, LENGTH))
    rows = torch.tensor([[2, 0], [2, 0], [2, -1], [2, -1], [2, -1]])
    with regard.watch(model) as told:
        step_by_step(model, ids)
        told.set_labels(TokenLabels(({"tokens": words("a", 8)}, {"tokens": words("b", 5)}), rows))
    assert [each.maps[0].shape for each in told] == [(3, 7, 7), (3, 4, 4)]
    assert [len(each.streams["tokens"]) for each in told] == [8, 5]
    with regard.watch(model) as whole:
        model(ids[:1, :4])
    torch.testing.assert_close(told[1].maps[1].weights(), whole[0].maps[1].weights())


@torch.no_grad()
def test_a_trace_that_ended_keeps_its_own_padding():
    model, ids = Decoder().eval(), torch.randint(31, (BATCH, LENGTH))
    real = (torch.arange(LENGTH) >= torch.tensor(STARTS)[:, None])[:, None, None]
    caches = [Growing() for _ in model.layers]
    with regard.watch(model) as told:
        model(ids[:, :5], caches, torch.ones(5, 5).tril().bool() & real[..., :5])
        model(ids[:, 5:6], caches, real[..., :6])
        model(ids[:, 6:], caches, real)
        told.set_labels(TokenLabels(rows=torch.tensor([[2, 0], [-1, 0], [-1, 0]])))
    assert [each.maps[0].shape[1:] for each in told] == [(2, 2), (7, 7)]


def runs_of(model, *inputs):
    """What a watcher keeps of a model, before it is assembled."""
    caught, door = [], sys.modules["regard.tracing.watch"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(door, "assemble_later", lambda runs, *rest: caught.append(runs) or [])
        with regard.watch(model), torch.no_grad():
            model(*inputs)
    return caught[0]


def test_gaps_are_in_every_trace():
    gaps = (Gap("h.3", "it only adds"),)
    runs = runs_of(Decoder(), torch.randint(31, (BATCH, LENGTH)))
    assert [each.gaps for each in assemble(runs, "windows", BlockInfo(gaps=gaps))] == [gaps] * BATCH


def test_gaps_alone_are_a_trace():
    gaps = (Gap("h.3", "it only adds"),)
    (only,) = assemble([], "windows", BlockInfo(gaps=gaps))
    assert (len(only), only.gaps) == (0, gaps)


def test_nothing_at_all_gets_its_sentence():
    with pytest.raises(InputError, match="no attention was seen"):
        assemble([], "windows", BlockInfo())


def test_a_grid_labels_the_stream_and_goes_to_disk_and_back(tmp_path):
    runs = runs_of(Decoder(), torch.randint(31, (BATCH, LENGTH)))
    begun = runs[0][0].query_stream
    found = assemble(runs, "windows", BlockInfo(grids={begun: (2, 3)}))[0]
    assert found.streams["tokens"].texts[:2] == ("[0]", "0,0")
    save_trace(found, tmp_path / "picture.trace")
    assert_same(load_trace(tmp_path / "picture.trace"), found)


@torch.no_grad()
def test_a_step_over_a_cache_is_a_decoder_s():
    model, ids = Decoder().eval(), torch.randint(31, (BATCH, LENGTH))
    with regard.watch(model) as seen:
        step_by_step(model, ids)
    assert {each.kind for each in seen[0]} == {"decoder"}
