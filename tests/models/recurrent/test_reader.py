"""A reader's logits depend on question and text alone, and equal runs of neighbours are found."""

import pytest
import torch

import regard
from regard.errors import InputError
from regard.models import RecurrentReader, from_pretrained
from regard.models.recurrent.reader import match_lengths

LENGTH, ASKED = 19, (5, 3, 7)


def reader(**settings):
    torch.manual_seed(0)
    sizes = {"vocab": 101, "d_embed": 11, "hidden": 26, "pairs": 23, "cell": "gru"}
    return RecurrentReader(**sizes | settings).eval()


def windows():
    """Three windows with questions of different lengths."""
    torch.manual_seed(1)
    ids, types = torch.randint(5, 101, (3, LENGTH)), torch.ones(3, LENGTH, dtype=torch.long)
    for row, size in enumerate(ASKED):
        types[row, :size] = 0
    return ids, types


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_a_window_alone_equals_itself_in_a_padded_batch(cell):
    (ids, types), model = windows(), reader(cell=cell)
    mask = torch.ones_like(ids)
    mask[1, 13:] = 0
    together = model(ids, attention_mask=mask, token_type_ids=types)
    alone = model(ids[1:2, :13], token_type_ids=types[1:2, :13])
    torch.testing.assert_close(together[1:2, :13], alone)


def test_gradients_reach_every_parameter():
    (ids, types), model = windows(), reader()
    model.words.pairs.set_pairs([(int(ids[0, 0]), int(ids[0, 1]))])
    model(ids, token_type_ids=types)[..., 0].square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert (parameter.grad != 0).any(), name


def test_the_text_attends_to_the_question_and_back():
    (ids, types), model = windows(), reader()
    with regard.watch(model) as watched, torch.no_grad():
        model(ids[:1], token_type_ids=types[:1])
    summary, reading = watched[0].maps
    assert (summary.site, reading.site) == ("coattention.summary", "coattention.reading")
    assert summary.shape == reading.shape == (1, LENGTH, LENGTH)
    assert (summary.weights()[0, : ASKED[0], ASKED[0] :].sum(1) > 0.5).all()
    assert (reading.weights()[0, ASKED[0] :, ASKED[0] :] == 0).all()


def test_columns_that_are_masked_change_nothing():
    (ids, types), model = windows(), reader(dropout=0.0)
    expected = model(ids, token_type_ids=types)
    torch.testing.assert_close(model.train()(ids, token_type_ids=types), expected)


def plain_matches(question, text, length):
    """For each token of the text: whether it is in a run that the question has too."""
    runs = {tuple(question[at : at + length]) for at in range(len(question) - length + 1)}
    starts = range(len(text) - length + 1)
    found = [at for at in starts if tuple(text[at : at + length]) in runs]
    return [any(at <= place < at + length for at in found) for place in range(len(text))]


@pytest.mark.parametrize("length", [1, 2, 3])
def test_runs_of_neighbours_are_found_on_both_sides(length):
    torch.manual_seed(length)
    ids = torch.randint(0, 3, (7, 17))
    is_text = torch.arange(17).expand(7, 17) >= 6
    found = match_lengths(ids, is_text, ~is_text[:, :6])[..., length - 1]
    for row, own in zip(ids.tolist(), found.bool().tolist(), strict=True):
        assert own[6:] == plain_matches(row[:6], row[6:], length)
        assert own[:6] == plain_matches(row[6:], row[:6], length)


def test_a_saved_reader_is_loaded_by_its_class(tmp_path):
    (ids, types), model = windows(), reader()
    model.save_pretrained(tmp_path / "m")
    loaded = from_pretrained(tmp_path / "m")
    torch.testing.assert_close(
        loaded(ids, token_type_ids=types), model(ids, token_type_ids=types), atol=0, rtol=0
    )


def test_an_odd_width_is_refused():
    with pytest.raises(InputError, match="half of hidden, got hidden=7; make it even"):
        RecurrentReader(hidden=7)
