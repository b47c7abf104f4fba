"""Laws over every kind of recurrent model."""

import pytest
import torch
from torch import nn

import regard
from models.recurrent.variants import BATCH, SOURCE, TARGET, VARIANTS, VOCAB, WRITTEN, batch, built
from regard.errors import InputError, ShapeError
from regard.models.recurrent import Recurrent

SAMPLED = {"bahdanau hard", "luong hard"}
EVERY = pytest.mark.parametrize("name", VARIANTS)


@EVERY
def test_step_by_step_equals_all_at_once(name):
    model, (source, written, mask) = built(name), batch()
    expected = model(source, written, attention_mask=mask)
    state = model.begin(source, mask)
    for step in range(TARGET):
        logits, state = model.step(state, written[:, step : step + 1])
        torch.testing.assert_close(logits, expected[:, step])


@EVERY
def test_several_tokens_at_once_equal_one_by_one(name):
    model, (source, written, mask) = built(name), batch()
    state = model.begin(source, mask)
    _, state = model.step(state, written[:, :2])
    logits, _ = model.step(state, written[:, 2:])
    torch.testing.assert_close(logits, model(source, written, attention_mask=mask)[:, -1])


@EVERY
def test_an_example_alone_equals_itself_in_a_padded_batch(name):
    model, (source, written, mask) = built(name), batch()
    together = model(source, written, attention_mask=mask)
    torch.testing.assert_close(model(source[1:2, :4], written[1:2]), together[1:2])


@EVERY
def test_gradients_reach_every_parameter(name):
    model, (source, written, mask) = built(name).train(), batch()
    if name in SAMPLED:
        model(source, written, attention_mask=mask)
        logits, log_probability = model.sample_attention(source, written, attention_mask=mask)
        loss = logits.logsumexp(-1).sum() + log_probability.sum()
    else:
        loss = model(source, written, attention_mask=mask).logsumexp(-1).sum()
    loss.backward()
    unreached = [
        name
        for name, each in model.named_parameters()
        if each.grad is None or not (each.grad != 0).any()
    ]
    assert unreached == []


@pytest.mark.parametrize("name", ["bahdanau gru", "bahdanau hard", "luong general"])
def test_a_watcher_sees_a_row_of_each_step_over_the_real_source(name):
    model, (source, written, mask) = built(name).float(), batch()
    with regard.watch(model) as seen, torch.no_grad():
        logits = model(source, written, attention_mask=mask)
    torch.testing.assert_close(logits, model(source, written, attention_mask=mask))
    site = seen[1]["reader"]
    assert site.weights(head=0).shape == (TARGET, 4)
    torch.testing.assert_close(site.weights(head=0).sum(-1), torch.ones(TARGET))


@EVERY
def test_rows_are_reordered_repeated_and_dropped(name):
    model, (source, written, mask) = built(name), batch()
    expected = model(source, written, attention_mask=mask)
    state = model.begin(source, mask)
    _, state = model.step(state, written[:, :2])
    for rows in ([0, 0, 1, 1, 2, 2], [2, 3, 3, 5], [3, 1, 0, 0]):
        state = state.select(torch.tensor(rows))
    owners = [2, 1, 1, 1]
    assert state.rows == len(owners)
    logits, _ = model.step(state, written[owners, 2:3])
    torch.testing.assert_close(logits, expected[owners, 2])


@EVERY
def test_rows_of_one_sentence_write_each_their_own(name):
    model, (source, _, mask) = built(name), batch()
    owners = torch.tensor([0, 0, 1, 1, 2, 2])
    tokens = torch.randint(0, WRITTEN, (6, 3))
    expected = model(source[owners], tokens, attention_mask=mask[owners])
    state = model.begin(source, mask).select(owners)
    for step in range(3):
        logits, state = model.step(state, tokens[:, step : step + 1])
        torch.testing.assert_close(logits, expected[:, step])


def test_beams_of_a_sentence_do_not_repeat_its_keys():
    model, (source, _, mask) = built("bahdanau gru"), batch()
    state = model.begin(source, mask).select(torch.tensor([0, 0, 1, 1, 2, 2]))
    assert (len(state.memory.key), state.memory.rows_per_input) == (BATCH, 2)
    state = state.select(torch.tensor([0, 1, 4, 5]))
    assert (len(state.memory.key), state.memory.rows_per_input) == (2, 2)
    with pytest.raises(InputError, match="at least one row"):
        state.select(torch.tensor([], dtype=torch.long))


def test_padding_may_be_before_or_inside_a_text():
    model, (source, written, _) = built("bahdanau gru"), batch()
    mask = torch.tensor([[0, 0, 1, 1, 1, 0, 1]] * BATCH)
    expected = model(source[:, mask[0].bool()], written)
    torch.testing.assert_close(model(source, written, attention_mask=mask), expected)


@pytest.mark.parametrize("name", ["bahdanau gru", "luong feeding lstm"])
def test_what_comes_later_changes_nothing_before(name):
    model, (source, written, _) = built(name), batch()
    before = model(source, written)
    written[:, 3:] = (written[:, 3:] + 1) % WRITTEN
    assert torch.equal(model(source, written)[:, :3], before[:, :3])


def test_one_fixed_vector_sees_the_source_too():
    model, (source, written, _) = built("bahdanau none"), batch()
    other = (source + 1) % VOCAB
    assert not torch.allclose(model(source, written), model(other, written))


def test_without_a_target_vocabulary_both_sides_share_embeddings():
    model = Recurrent(vocab=VOCAB, d_embed=11, hidden=14, tie_embeddings=True)
    tables = [each for each in model.modules() if isinstance(each, nn.Embedding)]
    assert len(tables) == 1
    assert model.output is None


def test_dropout_counts_only_while_training():
    model, (source, written, _) = built("bahdanau gru", dropout=0.5), batch()
    assert torch.equal(model(source, written), model(source, written))
    model.train()
    assert not torch.equal(model(source, written), model(source, written))


@pytest.mark.parametrize("name", ["bahdanau gru", "luong general", "luong feeding lstm"])
def test_every_variant_writes_with_beams(name):
    model, (source, _, mask) = built(name), batch()
    model.generation = model.generation.replace(
        decoder_start_token_id=1, eos_token_id=2, pad_token_id=0
    )
    together = model.generate(source, mask, num_beams=3, max_new_tokens=7)
    alone = model.generate(source[1:2, :4], mask[1:2, :4], num_beams=3, max_new_tokens=7)
    assert together[1].tolist() == alone[0].tolist()


@pytest.mark.parametrize("name", ["bahdanau lstm, 2 layers", "luong scaled-dot tied"])
def test_a_saved_model_comes_back(name, tmp_path):
    model, (source, written, _) = built(name).float(), batch()
    model.save_pretrained(tmp_path / "model")
    loaded = Recurrent.from_pretrained(tmp_path / "model")
    assert loaded.config == model.config
    assert torch.equal(loaded(source, written), model(source, written))


@pytest.mark.parametrize(
    ("source", "mask", "message"),
    [
        (torch.zeros(2, 0, dtype=torch.long), None, "one at least"),
        (torch.tensor([[3, VOCAB]]), None, f"no token has id {VOCAB}"),
        (torch.tensor([[3, -1]]), None, "no token has id -1"),
        (torch.tensor([[3, 4]]), torch.tensor([[0, 0]]), "text 0 is empty"),
        (torch.tensor([[3, 4]]), torch.tensor([[1, 1, 1]]), "of the shape of the ids"),
    ],
)
def test_bad_input_gets_its_sentence(unchecked, source, mask, message):
    with pytest.raises((InputError, ShapeError), match=message):
        built("bahdanau gru")(source, torch.tensor([[1]]), attention_mask=mask)


def test_a_step_wants_tokens_for_each_row(unchecked):
    model, (source, _, _) = built("bahdanau gru"), batch()
    state = model.begin(source)
    with pytest.raises(ShapeError, match=r"each of the 3 rows of this state, \(3, new\)"):
        model.step(state, torch.ones(2, 1, dtype=torch.long))
    assert source.shape == (BATCH, SOURCE)
