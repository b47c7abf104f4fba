"""Texts in batches of like lengths: each tallied as if it had been alone."""

import functools
import warnings
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import regard
from regard.errors import InputError
from regard.measures.heads import head_numbers
from regard.tracing.statistics.corpus import CorpusRunner
from tracing.statistics.test_texts import KINDS

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from tracing import readers, strangers

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.usefixtures("unchecked"),
]
TEXTS = ["I love you.", "我爱你，你爱我。", "I love playing chess, and you", "I"]
TARGETS = ["我爱你。", "I love you. I", "I", "I love playing chess."]
READERS = {"bert": readers.word_piece, "gpt2": readers.byte_level, "llama": readers.byte_level}


@functools.cache
def known(name):
    model = strangers.model(name)
    model.resize_token_embeddings(401, mean_resizing=False)
    return model, READERS.get(name, readers.byte_fallback)()


def passes(name="bert", tokens=64, longest=None):
    return CorpusRunner(*known(name), KINDS, tokens=tokens, longest=longest)


def total(found, texts):
    tallies = [found.run_group(group) for group in found.groups(texts)]
    sites = dict(tallies[0].sites)
    for each in tallies[1:]:
        sites = {site: sites[site] + each.sites[site] for site in sites}
    return tallies[0].measures, sites


def agree(name, texts, target):
    measures, sites = total(
        passes(name), list(zip(texts, target, strict=True)) if target else texts
    )
    model, tokenizer = known(name)
    pairs = zip(texts, target or [None] * len(texts), strict=True)
    traces = [regard.capture(model, tokenizer, text, target=each) for text, each in pairs]
    for site, each in sites.items():
        numbers = [head_numbers(trace, site) for trace in traces]
        for measure, mean in zip(measures, each.moments.means, strict=True):
            expected = torch.stack([getattr(found, measure) for found in numbers]).nanmean(dim=0)
            torch.testing.assert_close(mean, expected, equal_nan=True, atol=5e-6, rtol=1e-4)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_what_a_reader_does_in_batches_is_what_it_does_with_each_text(name):
    agree(name, TEXTS, None)


@pytest.mark.parametrize("name", ["marian", "t5"])
def test_what_a_translator_does_in_batches_is_what_it_does_with_each_pair(name):
    agree(name, TEXTS, TARGETS)


def test_groups_are_of_like_lengths_and_hold_every_text_once():
    groups = passes(tokens=50).groups(TEXTS * 3)
    texts = [text for each in groups for text in each.batch.examples]
    lengths = {text: len(readers.word_piece()(text)["input_ids"]) for text in TEXTS}
    assert sorted(texts) == sorted(TEXTS * 3)
    assert [lengths[text] for text in texts] == sorted(map(lengths.get, texts), reverse=True)
    assert all(lengths[each.batch.examples[0]] * len(each) <= 50 for each in groups)
    assert len(groups) > 2


def test_a_text_longer_than_a_batch_is_run_alone():
    assert [len(each) for each in passes(tokens=1).groups(TEXTS)] == [1] * len(TEXTS)


def test_a_text_without_a_token_is_left_out():
    found = passes("gpt2").groups(["", *TEXTS])
    assert sum(map(len, found)) == len(TEXTS)


def test_groups_tell_how_many_of_their_texts_were_cut():
    groups = passes(longest=7).groups(TEXTS)
    assert sum(each.cut for each in groups) == 2


def test_a_model_that_cannot_be_told_of_padding_gets_texts_of_one_length():
    class Blind(nn.Module):
        def forward(self, input_ids):
            return input_ids

    found = CorpusRunner(Blind(), readers.word_piece(), KINDS, tokens=1000, longest=None)
    assert [len(each) for each in found.groups(["I love", "I", "love", "you I"])] == [2, 2]


@pytest.mark.parametrize(
    ("name", "texts", "message"),
    [
        ("marian", TEXTS[:1], r"expected pairs \(source, target\), got 'I love you.' among them"),
        ("bert", [TEXTS[0], ("I", "you")], "expected texts, or pairs of them"),
    ],
)
def test_texts_that_are_not_what_the_model_reads_are_refused(name, texts, message):
    with pytest.raises(InputError, match=message):
        passes(name).groups(texts)


def test_pairs_of_texts_are_read_together_where_nothing_is_written():
    (group,) = passes().groups([("I", "love you")])
    assert group.batch.kind == "pair"
    assert "on_special" in total(passes(), [("I", "love you")])[0]


@pytest.mark.parametrize(
    ("limit", "config", "expected"),
    [(512, {"max_position_embeddings": 64}, 64), (7, {}, 7), (int(1e30), {}, None)],
)
def test_texts_end_where_tokenizer_and_model_say_so(limit, config, expected):
    class Named(nn.Module):
        def forward(self, input_ids):
            return input_ids

    model, tokenizer = Named(), readers.word_piece.__wrapped__()
    model.config, tokenizer.model_max_length = SimpleNamespace(**config), limit
    assert CorpusRunner(model, tokenizer, KINDS, tokens=8, longest=None).longest == expected
