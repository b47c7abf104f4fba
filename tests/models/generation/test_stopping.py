import pytest
import torch

from models.generation.scripted_models import EOS, Letters, Reciter, Scribe
from regard.models.generation import generate
from regard.models.generation.stopping import StopStrings


def text_of(writer, **settings):
    return writer.tokenizer.decode(generate(writer, [[0]], **settings)[0])


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        ("爱", "我爱"),
        ("爱中", "我爱中"),
        ("国。", "我爱中国。"),
        ("🙂", "我爱中国。\n🙂"),
        (["b", "。"], "我爱中国。"),
        ("nowhere", "我爱中国。\n🙂 abc"),
    ],
)
@pytest.mark.parametrize("beams", [1, 3])
def test_a_stop_string_ends_the_text_with_its_last_byte(stop, expected, beams):
    writer = Reciter("我爱中国。\n🙂 abc")
    assert text_of(writer, stop_strings=stop, num_beams=beams, early_stopping=True) == expected


def test_a_stop_string_in_the_prompt_does_not_count():
    scribe, letters = Scribe(vocab=259, seed=2), Letters()
    prompt = letters.encode("stop")
    out = generate(scribe, [prompt], stop_strings=["stop"], tokenizer=letters, max_new_tokens=3)
    assert len(out[0]) == len(prompt) + 3


def test_a_stop_string_is_found_far_behind_the_beginning():
    writer = Reciter("ab" * 60 + "中")
    assert text_of(writer, stop_strings=["b中"]) == "ab" * 60 + "中"


def test_only_the_last_tokens_are_decoded():
    class Counting(Letters):
        longest = 0

        def decode(self, token_ids, *, skip_special_tokens=True):
            self.longest = max(self.longest, len(token_ids))
            return super().decode(token_ids)

    tokenizer = Counting()
    StopStrings(("中",), tokenizer)([[5] * 1000, [7] * 11])
    assert tokenizer.longest == 11


def test_each_of_several_ends_ends():
    scribe = Scribe(vocab=7, seed=2, eos_token_id=(EOS, 4, 5))
    out = generate(scribe, [[2], [3], [6]], max_new_tokens=31)
    for ids in out:
        assert ids[-1] in (EOS, 4, 5)
        assert not torch.isin(ids[1:-1], torch.tensor([EOS, 4, 5])).any()


def test_without_an_end_the_length_ends():
    scribe = Scribe(vocab=7, seed=2, eos_token_id=None)
    assert len(generate(scribe, [[2]], max_new_tokens=31)[0]) == 32
