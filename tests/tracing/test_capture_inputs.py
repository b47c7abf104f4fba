"""`capture` takes pictures, tensors, models and tokenizers of every make, and changes none."""

import inspect
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import regard
from regard.errors import InputError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from tracing import readers, strangers
    from tracing.captured import PLAN, TARGETS, TEXTS, close, equal_eager, known

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.usefixtures("unchecked"),
]


@pytest.mark.parametrize("picture", [np.zeros, lambda shape: torch.rand(shape)])
def test_a_picture_is_seen(picture):
    model, processor = known("vit")
    image = picture((16, 16, 3))
    trace = regard.capture(model, processor, image)
    equal_eager(trace, model, **processor(image, "pt"))
    assert len(trace.streams["tokens"]) == 17


def test_what_shows_itself_as_an_array_is_a_picture():
    class Picture:
        __array_interface__ = np.zeros((16, 16, 3)).__array_interface__

    model, processor = known("vit")
    assert len(regard.capture(model, processor, Picture()).streams["tokens"]) == 17


def clip():
    body = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes = body | {"intermediate_size": 64, "projection_dim": 16}
    text = sizes | {"vocab_size": 101, "max_position_embeddings": 31, "eos_token_id": 3}
    from transformers import CLIPConfig, CLIPModel

    vision = sizes | {"image_size": 16, "patch_size": 4}
    return CLIPModel(CLIPConfig(text_config=text, vision_config=vision)).eval()


def test_a_text_and_a_picture_go_in_together():
    tokenizer = readers.word_piece()
    both = {"text": "I love playing chess.", "images": np.zeros((16, 16, 3))}
    trace = regard.capture(clip(), readers.Both(tokenizer), both)
    text = trace.streams["text_model"]
    assert text.texts[:4] == ("[CLS]", "i", "love", "playing")
    assert len(text) == len(tokenizer(both["text"])["input_ids"])
    assert len(trace.streams["vision_model"]) == 17


def test_one_part_of_a_processor_reads_what_is_its_own():
    model, _ = known("bert")
    trace = regard.capture(model, readers.Both(readers.word_piece()), "I love")
    assert trace.streams["tokens"].texts == ("[CLS]", "i", "love", "[SEP]")


def test_texts_and_special_flags_are_in_the_trace():
    model, tokenizer = known("bert")
    _, trace = regard.capture(model, tokenizer, ["I love playing", ("I love", "我爱")])
    tokens = trace.streams["tokens"]
    assert tokens.texts[:5] == ("[CLS]", "i", "love", "[SEP]", "我")
    assert tokens.special[:5] == (True, False, False, True, False)


def test_tensors_go_in_as_they_are():
    model, tokenizer = known("bert")
    feed = tokenizer(TEXTS, padding=True, return_tensors="pt")
    plain, named = (regard.capture(model, each, feed) for each in (None, tokenizer))
    assert len(plain) == len(named) == 3
    assert plain[0].streams["tokens"].texts == tuple(map(str, plain[0].streams["tokens"].ids))
    assert named[0].streams["tokens"].texts[0] == "[CLS]"
    close(plain[2], regard.capture(model, tokenizer, TEXTS[2]))


def test_a_target_goes_in_as_tensors_too():
    model, tokenizer = known("marian")
    feed = tokenizer(TEXTS, padding=True, return_tensors="pt")
    target = tokenizer(TARGETS, padding=True, return_tensors="pt")
    given = {"decoder_input_ids": target["input_ids"], "labels": target["input_ids"]}
    traces = regard.capture(
        model, tokenizer, {**feed, **given, "decoder_attention_mask": target["attention_mask"]}
    )
    for text, trace in zip(TARGETS, traces, strict=True):
        assert trace.streams["target"].ids == tuple(tokenizer(text)["input_ids"])


class Own(torch.nn.Module):
    """A model of one's own, which says little of itself."""

    def __init__(self):
        super().__init__()
        self.source, self.target = (
            torch.nn.Sequential(torch.nn.Embedding(401, 12)) for _ in range(2)
        )
        self.decoder = torch.nn.TransformerDecoderLayer(12, 3, 16, batch_first=True)

    def forward(self, input_ids, decoder_input_ids):
        return self.decoder(self.target(decoder_input_ids), self.source(input_ids))


def test_a_model_of_one_s_own_follows_a_target_if_it_says_how_to_start():
    model, tokenizer = Own(), readers.byte_fallback()
    with pytest.raises(InputError, match="what the decoder of Own starts with is not known"):
        regard.capture(model, tokenizer, "I love", target="you")
    model.config = SimpleNamespace(decoder_start_token_id=1)
    trace = regard.capture(model, tokenizer, "I love you.", target="I love")
    assert trace.of("cross")[0].shape == (3, 3, len(trace.streams["source"]))
    assert trace.streams["target"].texts == ("<s>", "▁I", "▁love", "</s>")


class Whatever(torch.nn.Module):
    """A model that wraps another."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *args, **kwargs):
        self.taken = {*kwargs}
        return self.model(*args, **kwargs)


def test_a_model_that_wraps_another_is_given_everything():
    model, tokenizer = known("bert")
    trace = regard.capture(Whatever(model), tokenizer, "I love")
    assert trace.maps[0].site.startswith("model.encoder.layer.0")


def test_a_model_that_takes_anything_is_not_given_what_only_labels_tokens():
    model, tokenizer = known("bert")
    wrapper = Whatever(model)
    regard.capture(wrapper, tokenizer, "I love")
    assert wrapper.taken == {"input_ids", "attention_mask"}


def test_a_tokenizer_that_cannot_pad_reads_texts_one_by_one():
    model, _ = known("gpt2")
    plain = regard.capture(model, readers.byte_level(), TEXTS, generate=PLAN)
    padded = regard.capture(model, readers.padded_byte_level(), TEXTS, generate=PLAN)
    for one, other in zip(plain, padded, strict=True):
        assert one.streams == other.streams
        close(one, other)


def test_a_slow_tokenizer_reads_texts_too():
    model, _ = known("bert")
    short, long = regard.capture(model, readers.Slow(), ["ab", "abcde"])
    assert [len(each.streams["tokens"]) for each in (short, long)] == [3, 6]
    assert short.streams["tokens"].texts[-1] == "</s>"


def test_more_texts_than_a_batch_holds_come_back_in_order():
    model, tokenizer = known("bert")
    texts = ["I love " + "you " * (index % 5) for index in range(19)]
    traces = regard.capture(model, tokenizer, texts, keep="summary")
    lengths = [len(tokenizer(text)["input_ids"]) for text in texts]
    assert [len(each.streams["tokens"]) for each in traces] == lengths


def test_the_model_is_left_as_it_was_found():
    model, tokenizer = strangers.model("bert"), readers.word_piece()
    model.train()
    model.encoder.layer[0].eval()
    modes = [each.training for each in model.modules()]
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    first, second = (regard.capture(model, tokenizer, TEXTS[0]) for _ in range(2))
    close(first, second)  # there is no dropout
    assert torch.equal(torch.rand(3), expected)
    assert torch.is_grad_enabled()
    assert [each.training for each in model.modules()] == modes


def test_a_model_goes_back_to_training_also_after_a_failure():
    model, tokenizer = strangers.model("bert").train(), readers.padded_byte_level()
    with pytest.raises(InputError, match="BertModel has no embedding for some of the input"):
        regard.capture(model, tokenizer, "我爱中国")
    assert all(each.training for each in model.modules())


def test_what_the_forward_does_not_take_is_left_out():
    model, tokenizer = known("llama")[0], readers.byte_level.__wrapped__()
    tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    assert "token_type_ids" in tokenizer("I")
    assert "token_type_ids" not in inspect.signature(model.forward).parameters
    seen = []
    handle = model.register_forward_pre_hook(
        lambda _, args, given: seen.append(given), with_kwargs=True
    )
    regard.capture(model, tokenizer, "I love")
    handle.remove()
    assert {*seen[0]} == {"input_ids", "attention_mask"}


def test_numbers_follow_the_model_s_dtype():
    model = strangers.model("vit").to(torch.float64)
    trace = regard.capture(model, readers.Images(), np.zeros((16, 16, 3)))
    assert trace.maps[0].weights().dtype == torch.float64


def test_options_go_to_watch():
    model, tokenizer = known("bert")
    trace = regard.capture(model, tokenizer, TEXTS[0], keep="dense", top=3, beside=True)
    assert type(trace.maps[0].source).__name__ == "DenseWeights"
    assert trace.maps[0].top is not None
