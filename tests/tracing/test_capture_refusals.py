"""What `capture` cannot take gets its sentence."""

import functools
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import regard
from regard.errors import InputError, UnknownNameError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from tracing import readers
    from tracing.captured import known

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.usefixtures("unchecked"),
]

BERT, MARIAN = functools.partial(known, "bert"), functools.partial(known, "marian")


@pytest.mark.parametrize(
    ("pair", "inputs", "asked", "message"),
    [
        (BERT, [], {}, "at least one input, got an empty list"),
        (BERT, "", {}, "a text of at least one character, got an empty one"),
        (BERT, ("a", ""), {}, "a text of at least one character"),
        (BERT, 7, {}, "expected a text, a pair of texts, an image.* got int"),
        (BERT, np.zeros((2, 3, 16, 16)), {}, r"or a sound with one, got ndarray of shape \(2, 3"),
        (BERT, np.zeros((16, 16, 3)), {}, "a tokenizer reads texts, got ndarray of shape"),
        (BERT, "I", {"target": "you"}, "BertModel has no decoder to follow a target"),
        (BERT, "I", {"generate": True}, "BertModel has no method generate; leave generate out"),
        (BERT, {"pixel_values": torch.zeros(1, 3)}, {}, "BertModel takes .* none of what it was"),
        (BERT, {"input_ids": torch.ones(5, dtype=int)}, {}, r"the axes \(batch token\), got \(5,"),
        (MARIAN, "I", {"target": "I", "generate": True}, "follows a target or generates, not both"),
        (MARIAN, "I", {"generate": 5}, r"settings such as \{'num_beams': 5\}, got 5"),
        (MARIAN, "I", {"target": ["I", "you"]}, "a target for each of 1 examples, got 2"),
        (MARIAN, ["I", "you"], {"target": "I"}, "a list of 2 targets, .* got one text"),
        (MARIAN, ["I"], {"target": ["I", "you"]}, "a list of 1 targets, .* got 2 of them"),
        (MARIAN, "I", {"target": ""}, "a text of at least one character"),
        (MARIAN, ["I"], {"target": [3]}, "a target text, got int"),
        (
            MARIAN,
            "I",
            {"generate": {"num_beams": 3, "num_return_sequences": 2}},
            "keeps one hypothesis of each example, got 2 for 1; leave num_return_sequences",
        ),
    ],
)
def test_bad_input_gets_its_sentence(pair, inputs, asked, message):
    with pytest.raises(InputError, match=message):
        regard.capture(*pair(), inputs, **asked)


def test_models_and_processors_that_are_none_get_their_sentence():
    model, tokenizer = known("bert")
    with pytest.raises(InputError, match=r"expected a torch.nn.Module to run, got str"):
        regard.capture("bert", tokenizer, "I")
    with pytest.raises(InputError, match=r"a processor that can be called, or None .* got int"):
        regard.capture(model, 5, "I")
    with pytest.raises(InputError, match="expected a processor that reads str; without one"):
        regard.capture(model, None, "I")
    with pytest.raises(InputError, match="Images reads no texts: it has no convert_ids_to_tokens"):
        regard.capture(model, readers.Images(), "I")
    with pytest.raises(InputError, match="expected function to give a mapping of tensors, got int"):
        regard.capture(model, lambda images, return_tensors: 5, np.zeros((3, 3)))
    with pytest.raises(UnknownNameError, match="no option of capture 'kep'; did you mean 'keep'"):
        regard.capture(model, tokenizer, "I", kep="dense")


def test_gradients_need_a_loss():
    keep = SimpleNamespace(gradients=True)
    with pytest.raises(InputError, match="gradients need a loss, and capture has none: run"):
        regard.capture(*known("bert"), "I", keep=keep)


def test_another_error_of_the_model_stays_what_it_is():
    class Broken(torch.nn.Module):
        def forward(self, input_ids):
            return [][5]

    with pytest.raises(IndexError, match="list index out of range"):
        regard.capture(Broken(), readers.word_piece(), "I")


def test_a_target_without_a_tokenizer_gets_its_sentence():
    model, processor = known("whisper")
    with pytest.raises(InputError, match="a target text needs a tokenizer, got WhisperFeature"):
        regard.capture(model, processor.feature_extractor, torch.randn(5003), target="I")


def test_a_text_of_no_tokens_gets_its_sentence():
    model, tokenizer = known("gpt2")
    tokenizer = readers.byte_level.__wrapped__()
    tokenizer.backend_tokenizer.normalizer = readers.normalizers.Strip()
    with pytest.raises(InputError, match="the tokenizer makes no token of ' '; give a longer"):
        regard.capture(model, tokenizer, " ")


@pytest.fixture
def short():
    """A decoder with rotary positions that was built for 8 tokens, and its tokenizer."""
    model, tokenizer = known("llama")
    longest = model.config.max_position_embeddings
    model.config.max_position_embeddings = 8
    yield model, tokenizer
    model.config.max_position_embeddings = longest


BEYOND = r"LlamaForCausalLM expected at most 8 tokens, its context, got {}; cut the text"


def test_a_text_beyond_the_context_is_captured_with_a_warning(short):
    model, tokenizer = short
    text = "I love you " * 5
    count = len(tokenizer(text)["input_ids"])
    with pytest.warns(UserWarning, match=BEYOND.format(count)) as caught:
        trace = regard.capture(model, tokenizer, text)
    assert len(trace.streams["tokens"]) == count > 8
    assert caught[0].filename == __file__


def test_new_tokens_count_for_the_context_too(short):
    model, tokenizer = short
    count = len(tokenizer("I love")["input_ids"])
    regard.capture(model, tokenizer, "I love", generate={"max_new_tokens": 8 - count})
    with pytest.warns(UserWarning, match=BEYOND.format(count + 9)):
        regard.capture(model, tokenizer, "I love", generate={"max_new_tokens": 9})


def test_a_text_as_long_as_the_context_needs_no_warning(short):
    model, tokenizer = short
    model.config.max_position_embeddings = len(tokenizer("I love you")["input_ids"])
    regard.capture(model, tokenizer, "I love you")
