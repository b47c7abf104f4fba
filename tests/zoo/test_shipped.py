"""What comes with the package: small, with an honest card, and right about love."""

import pytest
import torch

import regard
from regard.models import from_pretrained, shipped_models
from regard.models.checkpoints.locations import ZOO
from regard.studies import SentencePair, word_attention

MOST = 12_000_000  # bytes of one model
ALL = 68_000_000  # and of all together
TRANSLATORS = ["en-zh-rnn", "en-zh-transformer"]


@pytest.fixture(scope="module", params=TRANSLATORS)
def translator(request):
    return from_pretrained(request.param)


def test_the_translators_are_shipped():
    assert {*TRANSLATORS} <= {*shipped_models()}


@pytest.mark.parametrize("name", shipped_models())
def test_a_model_is_small_and_has_a_card(name):
    folder = ZOO / name
    assert sum(each.stat().st_size for each in folder.iterdir()) <= MOST
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
