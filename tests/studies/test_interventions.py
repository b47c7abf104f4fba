import pytest
import torch

import regard
from regard.errors import InputError
from regard.models import Transformer
from regard.studies.interventions import compare_edit, knock_out, mask_future, set_temperature

SIZES = {"vocab": 101, "d_model": 12, "layers": 2, "heads": 3, "d_ff": 17}


@pytest.fixture
def teller():
    return Transformer(kind="decoder", **SIZES).eval()


@pytest.fixture
def encoder():
    return Transformer(kind="encoder", **SIZES).eval()


IDS = {"input_ids": torch.tensor([[5, 6, 7, 8, 9, 4, 3]])}


def test_a_change_of_nothing_changes_nothing(teller):
    found = compare_edit(teller, None, IDS, set_temperature("*", 1.0))
    assert found.loss[0] == pytest.approx(found.loss[1], abs=1e-5)
    assert found.changed == 0


def test_before_and_after_can_be_compared_map_by_map(teller):
    found = compare_edit(teller, None, IDS, knock_out("*layers.0*", heads=[1]))
    site = found.before[0].maps[0].site
    assert found.before[0][site].weights(1).sum() > 0
    assert found.after[0][site].weights(1).sum() == 0


def test_means_are_over_all_texts_and_each_is_told(teller):
    heard = []
    found = compare_edit(teller, None, [IDS, IDS], knock_out("*"), on_progress=heard.append)
    assert (len(found.after), heard) == (2, [1, 2])
    assert "over 2 texts" in str(found)
    assert "of rows predict another token" in str(found)


def test_a_model_of_vectors_is_judged_by_likeness(encoder):
    found = compare_edit(encoder, None, IDS, knock_out("*"))
    assert found.objective == "similarity"
    assert found.loss[0] == pytest.approx(0, abs=1e-6)
    assert "say another" not in str(found)


def test_no_texts_are_refused(teller):
    with pytest.raises(InputError, match="compare_edit expected at least one text, got none"):
        compare_edit(teller, None, [], knock_out("*"))


def test_a_temperature_is_that_of_the_scores():
    attention = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x, name = torch.randn(1, 5, 8), "MultiheadAttention"
    maps = []
    for edit in (None, set_temperature("*", 2.0, heads=[1])):
        with regard.watch(attention, edit=edit) as seen, torch.no_grad():
            attention(x, x, x, need_weights=False)
        maps.append(seen[0][name].weights())
    cold, warm = maps
    torch.testing.assert_close(warm[0], cold[0])
    torch.testing.assert_close(warm[1], (cold[1].log() / 2).softmax(dim=-1))


def test_a_temperature_of_nothing_is_refused():
    with pytest.raises(InputError, match="set_temperature expected a temperature above 0, got 0"):
        set_temperature("*", 0)


def test_later_tokens_can_be_hidden(encoder):
    found = compare_edit(encoder, None, IDS, mask_future("*"))
    for each in found.after[0]:
        assert each.row_statistics.on_future.sum() == 0
        torch.testing.assert_close(each.weights().sum(dim=2), torch.ones(3, 7))
