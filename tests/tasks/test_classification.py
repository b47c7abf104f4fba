"""`classify` gives what the model itself gives, for texts alone, in batches and in windows."""

import functools

import pytest
import torch

import regard
from regard.errors import InputError
from regard.models import Transformer
from regard.types import Evidence
from tasks.tiny_models import LABELS, SIZES, a_classifier, hf, loaded
from tracing import readers

TEXTS = ["I love you.", "我爱中国。", "I love playing chess, and playing football."]


@pytest.fixture(scope="module")
def model():
    return a_classifier()


def own_probabilities(model, text):
    encoded = model.processor(text, return_tensors="pt")
    with torch.no_grad():
        return model.model(**encoded).logits[0].softmax(-1)


@pytest.mark.parametrize("trace", [True, False])
def test_a_batch_has_the_probabilities_of_each_text_alone(model, trace):
    results = regard.classify(TEXTS, model, trace=trace)
    for text, result in zip(TEXTS, results, strict=True):
        expected = own_probabilities(model, text)
        assert result.inputs == {"text": text}
        assert result.answer == LABELS[int(expected.argmax())]
        scores = torch.tensor([result.scores[label] for label in LABELS])
        torch.testing.assert_close(scores, expected, atol=1e-6, rtol=0)


def test_the_trace_is_that_of_the_same_text(model):
    result = regard.classify(TEXTS, model)[2]
    expected = regard.capture(model.model, model.processor, TEXTS[2])
    site = expected.maps[-1].site
    torch.testing.assert_close(result.trace[site].weights(), expected[site].weights())
    assert result.evidence == Evidence(site, (0,))


def test_a_long_text_is_the_mean_of_its_windows_weighted_by_their_tokens():
    model = a_classifier(positions=17)
    text = " ".join(TEXTS * 3)
    result = regard.classify(text, model)
    counts, parts = [], []
    for window in result.windows:
        part = text[window.start : window.stop]
        counts.append(len(model.processor(part)["input_ids"]) - 2)
        parts.append(own_probabilities(model, part))
    weights = torch.tensor(counts) / sum(counts)
    expected = weights @ torch.stack(parts)
    assert len(parts) > 2
    assert result.to_json()["windows"] == len(parts)
    assert result.score == pytest.approx(float(expected.max()), abs=1e-6)
    best = torch.stack(parts)[:, expected.argmax()].argmax()
    assert result.trace is result.windows[int(best)].trace


def test_labels_that_do_not_exclude_each_other_have_probabilities_of_their_own():
    model = a_classifier(problem_type="multi_label_classification")
    encoded = model.processor(TEXTS[0], return_tensors="pt")
    expected = model.model(**encoded).logits[0].detach().sigmoid().max()
    assert regard.classify(TEXTS[0], model).score == pytest.approx(float(expected), abs=1e-6)


def test_a_folder_of_bert_gives_the_same_by_our_class_and_by_transformers(tmp_path):
    reader = readers.word_piece()
    config = hf.BertConfig(vocab_size=len(reader), id2label=dict(enumerate(LABELS)), **SIZES)
    theirs = hf.BertForSequenceClassification(config).eval()
    theirs.save_pretrained(tmp_path)
    reader.save_pretrained(tmp_path)
    result = regard.classify(TEXTS[0], str(tmp_path), device="cpu")
    with torch.no_grad():
        expected = theirs(**reader(TEXTS[0], return_tensors="pt")).logits[0].softmax(-1)
    scores = torch.tensor([result.scores[label] for label in LABELS])
    torch.testing.assert_close(scores, expected, atol=1e-5, rtol=0)
    assert result.evidence == Evidence("bert.encoder.layer.1.attention.self", (0,))


def test_attentive_pooling_of_our_own_classifier_is_the_evidence(tmp_path):
    tokenizer = regard.models.Tokenizer.train(TEXTS * 5, "bpe", 320)
    model = Transformer(
        kind="encoder", vocab=len(tokenizer), d_model=12, layers=1, heads=3, d_ff=17,
        head="classes", labels=3, label_names=LABELS,
    )  # fmt: skip
    model.tokenizer = tokenizer
    model.save_pretrained(tmp_path)
    result = regard.classify(TEXTS[0], str(tmp_path), device="cpu")
    assert {*result.scores} == {*LABELS}
    assert result.evidence is not None
    assert result.evidence.site.startswith("head.attentive")
    assert result.trace[result.evidence.site].shape[1] == 1


def test_the_class_of_an_encoder_decoder_is_that_of_its_last_row():
    reader = readers.word_piece()
    config = hf.BartConfig(
        vocab_size=len(reader), d_model=24, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=32,
        decoder_ffn_dim=32, max_position_embeddings=64, eos_token_id=reader.sep_token_id,
    )  # fmt: skip
    bart = loaded(hf.BartForSequenceClassification(config), context_length=61, labels=LABELS)
    result = regard.classify(TEXTS[0], bart)
    (row,) = result.evidence.rows
    assert row == result.trace[result.evidence.site].shape[1] - 1


def test_a_model_that_is_padded_on_the_left_reads_each_text_alone(model, monkeypatch):
    monkeypatch.setattr(model.processor, "padding_side", "left")
    sizes = []
    monkeypatch.setattr(model.model, "forward", record_batches(model.model.forward, sizes))
    regard.classify(TEXTS, model, trace=False)
    assert sizes == [1, 1, 1]


def record_batches(forward, sizes):
    """The same function, which notes the sizes of the batches that it is called with."""

    @functools.wraps(forward)
    def recorded(*inputs, **arguments):
        sizes.append(len(arguments["input_ids"]))
        return forward(*inputs, **arguments)

    return recorded


def test_a_list_gives_a_list_and_an_empty_one_none(model):
    assert [type(each).__name__ for each in regard.classify(TEXTS[:1], model)] == ["TaskResult"]
    assert regard.classify([], model) == []


def test_an_empty_text_is_refused(model):
    with pytest.raises(InputError, match="a text is empty"):
        regard.classify(["I love you.", " "], model)


def test_an_error_inside_a_foreign_model_names_the_model(model, monkeypatch):
    def fail(**arguments):
        raise RuntimeError("out of luck")

    monkeypatch.setattr(model.model, "forward", fail)
    with pytest.raises(InputError, match="tiny cannot run on this text"):
        regard.classify("I love you.", model)
