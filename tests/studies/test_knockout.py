"""Heads that are out of use, one at a time."""

import sys
from math import isnan
from types import SimpleNamespace

import pytest
import torch

import regard
from regard.errors import InputError, UnknownNameError
from regard.studies.knockout import Replacement, knock_outs
from regard.tracing import knock_out, uniform
from studies import tiny_models
from studies.tiny_models import Finder, reader, tokenizer, translator, writer

TEXT, SITE = "we love tea and cats", "decoder.layers.1.attention"
EDITS = {"zero": knock_out, "uniform": uniform}


@pytest.mark.parametrize("to", ["zero", "uniform"])
def test_a_head_is_out_as_if_it_alone_were_edited(to: Replacement) -> None:
    model, ids = writer(), torch.tensor([tokenizer()(TEXT)["input_ids"]])
    found = knock_outs(model, tokenizer(), TEXT, to=to)
    own = model(ids).detach().log_softmax(-1)
    said = own[0, :-1].gather(1, ids[0, 1:, None])[:, 0]
    assert (found.objective, found.loss) == ("text", pytest.approx(-said.mean().item(), abs=1e-5))
    for head in range(3):
        with regard.watch(model, edit=EDITS[to](SITE, [head])), torch.no_grad():
            now = model(ids).log_softmax(-1)
        rise = (own - now)[0, :-1].gather(1, ids[0, 1:, None]).mean().item()
        divergence = (own.exp() * (own - now)).sum(-1)[0, :-1].mean().item()
        changed = (own.argmax(-1) != now.argmax(-1))[0, :-1].double().mean().item()
        assert found.rise[SITE][head].item() == pytest.approx(rise, abs=1e-5)
        assert found.divergence[SITE][head].item() == pytest.approx(divergence, abs=1e-5)
        assert found.changed[SITE][head].item() == pytest.approx(changed)


def test_a_head_that_nothing_reads_changes_nothing() -> None:
    model = writer()
    with torch.no_grad():
        model.decoder.layers[1].attention.w_o.weight[:, 4:8] = 0  # of the second of three heads
    found = knock_outs(model, tokenizer(), TEXT)
    for part in (found.rise, found.divergence, found.changed, found.rewritten):
        assert part[SITE][1].item() == pytest.approx(0, abs=1e-6)
    assert found.divergence[SITE][[0, 2]].min() > 1e-5


def test_a_head_that_is_even_already_is_not_changed_by_being_uniform() -> None:
    model = writer()
    with torch.no_grad():
        model.decoder.layers[0].attention.w_q.weight.zero_()
        model.decoder.layers[0].attention.w_k.weight.zero_()
    found = knock_outs(model, tokenizer(), TEXT, to="uniform", sites="*.0.attention")
    assert {*found.rise} == {"decoder.layers.0.attention"}
    torch.testing.assert_close(
        found.divergence["decoder.layers.0.attention"], torch.zeros(3).double(), atol=1e-6, rtol=0
    )


def test_numbers_are_means_over_the_texts() -> None:
    model, texts = writer(), [TEXT, "you see the big cat", "they help"]
    together = knock_outs(model, tokenizer(), texts)
    alone = [knock_outs(model, tokenizer(), text) for text in texts]
    assert together.texts == 3
    assert together.loss == pytest.approx(sum(each.loss for each in alone) / 3)
    mean = torch.stack([each.rise[SITE] for each in alone]).mean(dim=0)
    torch.testing.assert_close(together.rise[SITE], mean)


@pytest.mark.parametrize("recurrent", [False, True])
def test_a_translation_is_rewritten_where_the_greedy_one_is_another(recurrent: bool) -> None:
    model = translator(recurrent)
    found = knock_outs(model, tokenizer(), TEXT)
    assert found.objective == "generated text"
    ids = tokenizer()(TEXT, return_tensors="pt")["input_ids"]
    plain = model.generate(ids, num_beams=1)[0].tolist()
    for site, heads in found.rewritten.items():
        for head, rewritten in enumerate(heads.tolist()):
            with regard.watch(model, edit=knock_out(site, [head])):
                other = model.generate(ids, num_beams=1)[0].tolist()
            assert rewritten == float(other != plain), (site, head)


def test_a_target_is_what_a_translation_loses_by() -> None:
    found = knock_outs(translator(), tokenizer(), [TEXT, TEXT], target=["you see", "they help us"])
    own = knock_outs(translator(), tokenizer(), TEXT, target="you see")
    assert found.loss != pytest.approx(own.loss)
    assert found.texts == 2


def test_of_a_model_without_logits_only_the_loss_is_known() -> None:
    found = knock_outs(reader(), tokenizer(), TEXT)
    assert (found.objective, found.loss) == ("similarity", pytest.approx(0, abs=1e-6))
    site = "encoder.layers.0.attention"
    assert bool((found.rise[site] > 1e-7).all())
    assert isnan(found.divergence[site][0])


def test_the_only_head_of_a_finder_is_needed() -> None:
    found = knock_outs(Finder(), None, {"input_ids": torch.tensor([[5, tiny_models.SOUGHT, 2]])})
    assert found.rise["Finder"].item() > 1
    assert found.changed["Finder"].item() == 1


def test_many_heads_run_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = knock_outs(writer(), tokenizer(), TEXT)
    monkeypatch.setattr("regard.attribution.clean_run.NUMBERS_HELD", 1)
    monkeypatch.setattr("regard.studies.knockout.LOGITS_AT_ONCE", 1)
    parts = knock_outs(writer(), tokenizer(), TEXT)
    torch.testing.assert_close(whole.rise[SITE], parts.rise[SITE], atol=1e-6, rtol=0)


def test_progress_is_told() -> None:
    heard: list[tuple[int, int]] = []
    knock_outs(writer(), tokenizer(), [TEXT, TEXT], on_progress=lambda *each: heard.append(each))
    assert heard == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_what_cannot_be_knocked_out_is_told() -> None:
    with pytest.raises(InputError, match=r"no site fits 'h\.7'"):
        knock_outs(writer(), tokenizer(), TEXT, sites="h.7")
    with pytest.raises(InputError, match="got 0 inputs and 0 targets"):
        knock_outs(writer(), tokenizer(), [])
    with pytest.raises(InputError, match="got 2 inputs and one text"):
        knock_outs(translator(), tokenizer(), [TEXT, TEXT], target="you see")


@pytest.mark.usefixtures("unchecked")
def test_a_way_that_there_is_not_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'zero'"):
        knock_outs(writer(), tokenizer(), TEXT, to="zeros")  # type: ignore[arg-type]


def test_the_repr_is_short_and_the_table_has_a_row_for_each_head(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=dict))
    found = knock_outs(writer(), tokenizer(), "we love tea")
    assert repr(found).startswith("<KnockOuts of 6 heads at 2 sites over 1 texts: loss of text ")
    table = found.to_pandas()
    assert (len(table["site"]), table["head"]) == (6, [0, 1, 2] * 2)
    assert table["rise"][4] == found.rise[table["site"][4]][1].item()
