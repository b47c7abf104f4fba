"""The law of decoding: step by step equals the teacher-forced pass, whatever rows do."""

import pytest
import torch

import regard
from models.transformer.cases import WRITERS, inputs, small, written
from regard.attention import catalog
from regard.errors import InputError, ShapeError
from regard.models.transformer.kv_cache import GrowingCache

CLOSE = {"atol": 1e-5, "rtol": 1e-5}
ROWS, SOURCE, LENGTH = 3, 7, 11


def prepared(model, source=SOURCE):
    """The state of some rows, what they will read, and the logits of the whole pass."""
    if model.reads_source:
        ids, marks = inputs(model, ROWS, source)
        target = written(model, ROWS, LENGTH)
        return model.begin(ids, marks), target, model(ids, target, attention_mask=marks)
    ids, marks = inputs(model, ROWS, LENGTH, side="left")
    return model.begin(ids[:, :5], marks[:, :5]), ids, model(ids, attention_mask=marks)


@pytest.mark.parametrize("name", WRITERS)
def test_step_by_step_equals_the_teacher_forced_pass(name):
    model = small(name)
    state, target, whole = prepared(model)
    for start, stop in ((0, 5), (5, 6), (6, 7), (7, 11)):
        logits, state = model.step(state, target[:, start:stop])
        torch.testing.assert_close(logits, whole[:, stop - 1], **CLOSE)


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize(
    "rows",
    [[2, 0, 1], [0, 0, 1, 1, 2, 2], [2, 2, 0, 0], [1], [0, 0, 1], [2, 1, 2, 0, 0]],
    ids=["moved", "beams", "one left", "one stays", "uneven", "mixed"],
)
def test_rows_that_moved_go_on_as_what_they_were(name, rows):
    model, rows = small(name), torch.tensor(rows)
    state, target, whole = prepared(model)
    _, state = model.step(state, target[:, :5])
    state, target, whole = state.select(rows), target[rows], whole[rows]
    for stop in (6, 7):
        logits, state = model.step(state, target[:, stop - 1 : stop])
        torch.testing.assert_close(logits, whole[:, stop - 1], **CLOSE)
    last = torch.tensor([len(rows) - 1, 0])
    logits, state = model.step(state.select(last), target[last, 7:8])
    torch.testing.assert_close(logits, whole[last, 7], **CLOSE)


@pytest.mark.parametrize("kind", ["encoder-decoder", "decoder"])
@pytest.mark.parametrize(
    "name",
    [name for name in catalog if name not in ("local-p", "co-attention", "copy", "coverage")],
)
def test_every_mechanism_of_the_catalog_writes_step_by_step(name, kind):
    model = small("vaswani" if kind == "encoder-decoder" else "gpt2", attention=name)
    state, target, whole = prepared(model)
    _, state = model.step(state, target[:, :5])
    rows = torch.tensor([2, 2, 0, 0])
    logits, _ = model.step(state.select(rows), target[rows, 5:6])
    torch.testing.assert_close(logits, whole[rows, 5], **CLOSE)


@pytest.mark.parametrize("name", ["local-m", "local-p", "alibi", "causal"])
def test_a_mechanism_that_counts_positions_reads_the_source_of_beams(name):
    model = small("vaswani", cross_attention=name)
    state, target, whole = prepared(model)
    _, state = model.step(state, target[:, :5])
    rows = torch.tensor([1, 1, 2, 2])
    logits, _ = model.step(state.select(rows), target[rows, 5:6])
    torch.testing.assert_close(logits, whole[rows, 5], **CLOSE)


def test_beams_of_a_sentence_share_its_source():
    state, _, _ = prepared(small("vaswani"))
    beams = state.select(torch.arange(ROWS).repeat_interleave(5))
    assert beams.source.caches[0].key is state.source.caches[0].key
    fewer = beams.select(torch.arange(5, 15))
    assert fewer.source.caches[0].key.shape[0] == 2


@pytest.mark.parametrize("name", ["vaswani", "gpt2"])
def test_watched_steps_give_the_maps_of_the_teacher_forced_pass(name):
    model = small(name)
    ids, target = inputs(model, ROWS, SOURCE)[0], written(model, ROWS, LENGTH)
    source = (ids,) if model.reads_source else ()
    with regard.watch(model) as stepped:
        state = model.begin(ids if source else target)
        for place in range(LENGTH):
            _, state = model.step(state, target[:, place : place + 1])
    with regard.watch(model) as whole:
        model(*source, target)
    for one, other in zip(stepped[1].maps, whole[1].maps, strict=True):
        assert one.site == other.site
        torch.testing.assert_close(one.weights(), other.weights(), **CLOSE)


def test_watched_beams_each_have_a_row_of_their_own():
    model = small("vaswani")
    state, target, _ = prepared(model)
    state = state.select(torch.arange(ROWS).repeat_interleave(5))
    with regard.watch(model) as seen:
        model.step(state, target[:, :1].repeat_interleave(5, dim=0))
    assert len(seen) == 15
    assert {each.weights().shape[1] for each in seen[7].maps} == {1}


def test_a_cache_is_written_into_its_buffer_and_doubled_when_full():
    model = small("gpt2")
    model.decoder.layers[0].register_forward_hook(lambda *_: None)  # so that the layers read
    state = model.begin(torch.zeros(1, 3, dtype=torch.long))
    _, state = model.step(state, torch.zeros(1, 3, dtype=torch.long))
    _, longer = model.step(state, torch.zeros(1, 1, dtype=torch.long))
    assert longer.self_caches[0].key.data_ptr() == state.self_caches[0].key.data_ptr()
    _, longest = model.step(longer, torch.zeros(1, 30, dtype=torch.long))
    assert (
        longer.self_caches[0].buffers[0].shape[2],
        longest.self_caches[0].buffers[0].shape[2],
    ) == (32, 64)
    assert isinstance(longest.self_caches[0], GrowingCache)


def test_rows_that_stay_cost_nothing():
    state, _, _ = prepared(small("gpt2"))
    assert state.select(torch.arange(ROWS)) is state


def test_steps_do_not_ask_for_gradients_and_leave_the_model_trainable():
    model = small("vaswani")
    with torch.inference_mode():
        state, target, _ = prepared(model)
        logits, _ = model.step(state, target[:, :1])
    assert not logits.requires_grad
    target = target.clone()
    model(target, target).sum().backward()
    assert model.decoder.layers[1].attention.w_k.weight.grad.abs().sum() > 0


def test_local_attention_that_predicts_its_place_wants_prompts_of_one_length():
    model = small("gpt2", attention="local-p")
    ids, marks = inputs(model, ROWS, LENGTH, side="left")
    with pytest.raises(InputError, match="'local-p' counts keys from the first"):
        model.begin(ids, marks)
    _, state = model.step(model.begin(ids), ids[:, :7])
    logits, _ = model.step(state, ids[:, 7:8])
    torch.testing.assert_close(logits, model(ids)[:, 7], **CLOSE)


@pytest.mark.usefixtures("unchecked")
def test_what_cannot_be_decoded_gets_its_sentence():
    model = small("gpt2")
    ids = torch.zeros(2, 3, dtype=torch.long)
    with pytest.raises(InputError, match="padded on their left"):
        model.begin(ids, torch.tensor([[1, 1, 1], [1, 1, 0]]))
    with pytest.raises(InputError, match="at least one token in each prompt"):
        model.begin(ids, torch.tensor([[1, 1, 1], [0, 0, 0]]))
    with pytest.raises(ShapeError, match=r"each of the 2 rows .* got \(3, 1\)"):
        model.step(model.begin(ids), torch.zeros(3, 1, dtype=torch.long))
    with pytest.raises(InputError, match="at least one row to go on with"):
        model.begin(ids).select(torch.zeros(0, dtype=torch.long))
    encoder = small("gpt2", kind="encoder")
    with pytest.raises(InputError, match="kind 'encoder' with head 'none' does not write"):
        encoder.begin(ids)


def test_a_text_longer_than_the_table_gets_its_sentence_while_decoding():
    model = small("gpt2", max_positions=5)
    _, state = model.step(model.begin(torch.zeros(1, 5).long()), torch.zeros(1, 5).long())
    with pytest.raises(InputError, match="knows 5 positions, got 6 tokens"):
        model.step(state, torch.zeros(1, 1).long())
