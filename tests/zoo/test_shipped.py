"""What comes with the package: small, with an honest card, and right about love."""

import json

import pytest
import torch

import regard
from regard.models import from_pretrained, shipped_models
from regard.models.checkpoints.locations import ZOO
from regard.studies import SentencePair, word_attention

MOST = 12_000_000  # bytes of one model
TRUNK, ADAPTED = 24_000_000, 2_500_000  # of a trunk that several share, and of each of those
ALL = 70_000_000  # and of all together
TRANSLATORS = ["en-zh-rnn", "en-zh-transformer"]


@pytest.fixture(scope="module", params=TRANSLATORS)
def translator(request):
    return from_pretrained(request.param)


def test_the_translators_are_shipped():
    assert {*TRANSLATORS} <= {*shipped_models()}


@pytest.mark.parametrize("name", shipped_models())
def test_a_model_is_small_and_has_a_card(name):
    folder = ZOO / name
    most = TRUNK if name.startswith("trunk-") else MOST
    if "base" in json.loads((folder / "config.json").read_text("utf-8")):
        most = ADAPTED
    assert sum(each.stat().st_size for each in folder.iterdir()) <= most
    card = (folder / "README.md").read_text(encoding="utf-8")
    for section in ("## Data and licence", "## Recipe", "## Metrics", "## Limits", "sha256"):
        assert section in card


@pytest.mark.parametrize("beams", [1, 5])
@pytest.mark.parametrize(
    ("text", "wanted"), [("I love you", "我爱你"), ("I love you.", "我爱你。")]
)
def test_i_love_you_is_translated(translator, text, wanted, beams):
    ids = translator.tokenizer.encode(text, return_tensors="pt")
    out = translator.generate(ids, num_beams=beams, max_new_tokens=20)
    assert translator.tokenizer.decode(out[0], skip_special_tokens=True) == wanted


def test_while_it_writes_love_in_chinese_it_looks_at_love(translator):
    trace = regard.capture(translator, translator.tokenizer, "I love you", generate=True)
    layer = getattr(translator.config, "alignment_layer", None)
    cross = trace.of("cross")[-1 if layer is None else layer]
    rows = trace.tokens(cross.produced).texts
    weights = cross.weights().mean(dim=0)[rows.index("爱")]
    columns = trace.tokens(cross.columns).texts
    assert columns[int(weights.argmax())].endswith("love")
    assert weights.max() > 0.5


def test_eight_bits_say_the_same():
    light = from_pretrained("en-zh-transformer", precision="int8")
    ids = light.tokenizer.encode("I love you.", return_tensors="pt")
    out = light.generate(ids, max_new_tokens=20)
    assert light.tokenizer.decode(out[0], skip_special_tokens=True) == "我爱你。"


def test_words_are_aligned_along_a_reference(translator):
    sentence = SentencePair(("I", "love", "you", "."), ("我", "爱", "你", "。"))
    (weights,) = word_attention(translator, translator.tokenizer, [sentence])
    assert weights.shape == (4, 4)
    assert torch.equal(weights.argmax(dim=1)[1:3], torch.tensor([1, 2]))


def test_all_models_together_are_small():
    sizes = [each.stat().st_size for each in ZOO.glob("*/*")]
    assert sum(sizes) <= ALL


def test_the_story_teller_goes_on_with_once_upon_a_time():
    model = from_pretrained("stories")
    ids = model.tokenizer.encode("Once upon a time", return_tensors="pt")
    out = model.generate(ids, max_new_tokens=40)
    told = model.tokenizer.decode(out[0], skip_special_tokens=True)
    assert told.startswith("Once upon a time, there was a")
    assert told.count(".") >= 2


def test_the_story_teller_ends_its_stories():
    model = from_pretrained("stories")
    start = torch.full((5, 1), model.tokenizer.bos_token_id)
    out = model.generate(start, do_sample=True, seed=0, max_new_tokens=500)
    assert all(len(ids) < 400 for ids in out)


@pytest.mark.parametrize(
    ("text", "task", "label"),
    [
        ("This movie is wonderful.", "sentiment", "positive"),
        ("What a waste of time and money.", "sentiment", "negative"),
        ("这家店太坑了,再也不来了", "sentiment", "negative"),
        ("还不错,下次再来", "sentiment", "positive"),
        ("Shares of the chip maker fell after it cut its forecast.", "topic", "Business"),
        ("The striker scored twice in the final of the cup.", "topic", "Sports"),
        ("国足主场不敌韩国队", "topic", "sports"),
        ("央行宣布下调存款准备金率", "topic", "finance"),
    ],
)
def test_the_classifiers_tell_clear_cases(text, task, label):
    assert regard.classify(text, task=task, device="cpu", trace=False).answer == label


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who wrote the first program?", "Ada Lovelace"),
        ("When was the first program written?", "1843"),
        ("Who won the football match?", None),
    ],
)
def test_the_reader_answers_from_the_text_or_says_that_it_has_no_answer(question, answer):
    text = "Ada Lovelace wrote the first program in 1843. The machine was never built."
    assert regard.answer(question, text, device="cpu", trace=False).answer == answer


def test_the_picture_of_a_sentiment_shades_the_word_that_tells_it():
    result = regard.classify("This movie is wonderful.", device="cpu")
    words = regard.view(result).numbers.words
    assert max(words, key=lambda word: word.weight).text.startswith("wonderful")
