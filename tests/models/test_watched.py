"""Our own models come in by the same door as anyone's: what they write can be watched."""

import pytest
import torch

import regard
from regard.models import Recurrent, Transformer
from regard.models.generation import GenerationSettings
from regard.models.tokenizers import Tokenizer
from regard.types import Trace

SENTENCES = ["we love tea", "you see the big cat", "they help"]
LINES = ["we love tea and cats", "you see the big cat", "they help us", "she knows him well"]


def tokenizer() -> Tokenizer:
    return Tokenizer.train(LINES * 3, "word", 60)


def transformer(words: int) -> Transformer:
    return Transformer(vocab=words, d_model=24, layers=2, heads=3, d_ff=41, dropout=0.0)


def recurrent(words: int) -> Recurrent:
    return Recurrent(vocab=words, d_embed=17, hidden=22, dropout=0.0, attention="additive")


def luong(words: int) -> Recurrent:
    settings = {"style": "luong", "attention": "general", "input_feeding": True}
    return Recurrent(vocab=words, d_embed=17, hidden=22, dropout=0.0, **settings)


BUILDERS = {"transformer": transformer, "bahdanau": recurrent, "luong": luong}


def model_of(name: str) -> Transformer | Recurrent:
    torch.manual_seed(3)
    reader = tokenizer()
    model = BUILDERS[name](len(reader)).eval()
    with torch.no_grad():
        for each in model.parameters():
            each.mul_(2.5)  # sharper, so that beams differ
    model.tokenizer = reader
    model.generation = GenerationSettings().replace(
        decoder_start_token_id=reader.bos_token_id,
        eos_token_id=reader.eos_token_id,
        pad_token_id=reader.pad_token_id,
    )
    return model


def along(model: Transformer | Recurrent, sentence: str, ids: torch.Tensor) -> Trace:
    """The trace of a pass along what was written."""
    source = model.tokenizer(sentence, return_tensors="pt")
    with torch.no_grad(), regard.watch(model) as seen:
        model(source["input_ids"], ids[None])
    return seen[0]


@pytest.mark.parametrize("beams", [1, 5])
@pytest.mark.parametrize("name", BUILDERS)
def test_a_watched_search_over_three_sentences_gives_the_maps_of_the_kept_hypotheses(
    name: str, beams: int, unchecked: None
) -> None:
    model = model_of(name).double()  # its scores are large: in single precision they differ by CPU
    plan = {"num_beams": beams, "max_new_tokens": 11}
    traces = regard.capture(model, model.tokenizer, SENTENCES, generate=plan)
    batch = model.tokenizer(SENTENCES, return_tensors="pt", padding=True)
    written = model.generate(batch["input_ids"], batch["attention_mask"], **plan)
    for trace, sentence, ids in zip(traces, SENTENCES, written, strict=True):
        expected = along(model, sentence, ids[:-1])
        assert [each.shape for each in trace] == [each.shape for each in expected]
        for mine, theirs in zip(trace, expected, strict=True):
            torch.testing.assert_close(mine.weights(), theirs.weights(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", BUILDERS)
def test_a_cross_row_is_labelled_by_the_token_that_it_produced(name: str, unchecked: None) -> None:
    model = model_of(name)
    plan = {"num_beams": 3, "max_new_tokens": 7}
    trace = regard.capture(model, model.tokenizer, SENTENCES[1], generate=plan)
    ids = model.tokenizer.encode(SENTENCES[1], return_tensors="pt")
    written = model.generate(ids, **plan)[0].tolist()
    cross = trace.of("cross")[-1]
    assert cross.produced is not None
    assert list(trace.tokens(cross.produced).ids or ()) == written[1:]
    assert list(trace.tokens(cross.rows).ids or ()) == written[:-1]
