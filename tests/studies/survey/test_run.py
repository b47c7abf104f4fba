"""A corpus surveyed: the means of the measures, whole, interrupted, and gone on with."""

import pytest
import torch
from torch import nn

from regard.errors import FileError, InputError
from regard.measures.heads import head_numbers
from regard.studies.survey import run as module
from regard.studies.survey.files import to_json
from regard.studies.survey.run import survey
from regard.tracing import capture
from studies.survey.models import PAIRS, TEXTS, reader, tokenizer, translator


@pytest.fixture(autouse=True)
def _small_portions(monkeypatch):
    monkeypatch.setattr(module, "PORTION", 5)


def surveyed(texts=TEXTS * 3, **settings):
    return survey(reader(), tokenizer(), texts, **{"batch": 17, **settings})


def interrupted(path, after):
    """A survey that was stopped when so many texts were done."""
    with pytest.raises(KeyboardInterrupt):
        surveyed(state=path, on_progress=lambda done: done >= after)


def agree(found, traces):
    for site, each in found.sites.items():
        numbers = [head_numbers(trace, site) for trace in traces]
        for name, mean in zip(found.measures, each.moments.means, strict=True):
            values = torch.stack([getattr(one, name) for one in numbers])
            torch.testing.assert_close(mean, values.nanmean(0), equal_nan=True, atol=1e-5, rtol=0)


def test_its_means_are_those_of_the_measures_over_the_same_texts():
    found = surveyed(TEXTS)
    agree(found, [capture(reader(), tokenizer(), text) for text in TEXTS])
    assert (found.examples, len(found.rows), found.cut) == (len(TEXTS), 2 * 7, 0)


def test_a_translator_is_made_to_write_the_target():
    found = survey(translator(), tokenizer(), PAIRS)
    traces = [capture(translator(), tokenizer(), one, target=other) for one, other in PAIRS]
    assert {each.kind for each in found.sites.values()} == {"encoder", "decoder", "cross"}
    agree(found, traces)


def test_its_spreads_are_those_of_examples():
    found = surveyed(TEXTS)
    site = next(iter(found.sites))
    each = [head_numbers(capture(reader(), tokenizer(), t), site).entropy for t in TEXTS]
    spread = found.sites[site].moments.spread[found.measures.index("entropy")]
    torch.testing.assert_close(spread, torch.stack(each).std(dim=0), atol=1e-5, rtol=0)


def test_parts_of_a_corpus_add_up_to_the_whole():
    found, whole = surveyed(TEXTS[:2]) + surveyed(TEXTS[2:]), surveyed(TEXTS)
    for site, each in whole.sites.items():
        moments = found.sites[site].moments
        torch.testing.assert_close(moments.means, each.moments.means, equal_nan=True)
        torch.testing.assert_close(moments.squares, each.moments.squares, atol=1e-6, rtol=1e-5)


def test_it_tells_how_far_it_has_come():
    told = []
    surveyed(on_progress=told.append)
    assert told == sorted({*told})
    assert told[-1] == len(TEXTS * 3)


@pytest.mark.parametrize("after", [1, 5, 6, 11])
def test_it_goes_on_after_an_interruption_to_the_same_digits(tmp_path, after):
    interrupted(tmp_path / "s", after)
    done = []
    found = surveyed(state=tmp_path / "s", on_progress=done.append)
    assert to_json(found) == to_json(surveyed())
    assert done[0] > after


def test_ctrl_c_in_the_midst_of_a_pass_saves_what_was_done_before(tmp_path, monkeypatch):
    tally, calls = module.CorpusRunner.run_group, []

    def broken(self, group):
        calls.append(group)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return tally(self, group)

    monkeypatch.setattr(module.CorpusRunner, "run_group", broken)
    with pytest.raises(KeyboardInterrupt):
        surveyed(state=tmp_path / "s")
    monkeypatch.undo()
    monkeypatch.setattr(module, "PORTION", 5)
    assert to_json(surveyed(state=tmp_path / "s")) == to_json(surveyed())


def test_a_state_is_saved_every_few_seconds(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SECONDS", -1.0)
    saved = []
    surveyed(state=tmp_path / "s", on_progress=lambda done: saved.append((tmp_path / "s").exists()))
    assert saved == [False, *[True] * (len(saved) - 1)]


def test_a_finished_survey_is_not_run_again(tmp_path):
    whole, done = surveyed(state=tmp_path / "s"), []
    assert to_json(surveyed(state=tmp_path / "s", on_progress=done.append)) == to_json(whole)
    assert done == []


def test_texts_that_come_after_those_that_are_done_are_added(tmp_path):
    surveyed(TEXTS[:5], state=tmp_path / "s")
    assert surveyed(TEXTS, state=tmp_path / "s").examples == len(TEXTS)


@pytest.mark.parametrize("texts", [["other"] * 18, TEXTS[:2], TEXTS * 2 + ["other"] * 6])
def test_another_corpus_is_not_gone_on_with(tmp_path, texts):
    interrupted(tmp_path / "s", 13)
    with pytest.raises(FileError, match="was begun with other texts; give the same corpus"):
        surveyed(texts, state=tmp_path / "s")


def test_another_model_or_batch_is_not_gone_on_with(tmp_path):
    interrupted(tmp_path / "s", 1)
    with pytest.raises(FileError, match="was begun with another batch; go on as it was begun"):
        surveyed(state=tmp_path / "s", batch=19)
    with pytest.raises(FileError, match="was begun with another model"):
        survey(translator(), tokenizer(), PAIRS, batch=17, state=tmp_path / "s")


def test_texts_that_were_cut_are_counted():
    assert surveyed(longest=5).cut > 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"texts": []}, "at least one text to survey, got none"),
        ({"batch": 0}, "at least one token, got batch=0"),
        ({"longest": 0}, "longest=0"),
    ],
)
def test_what_cannot_be_surveyed_is_told_in_a_sentence(settings, message):
    with pytest.raises(InputError, match=message):
        surveyed(**settings)


def test_a_model_that_attends_nowhere_is_refused():
    class Blind(nn.Module):
        def forward(self, input_ids):
            return input_ids

    with pytest.raises(InputError, match="Blind attends nowhere that can be seen"):
        survey(Blind(), tokenizer(), TEXTS)
