import pytest

from loading import checkpoints
from regard.errors import InputError
from regard.loading import fit_text, load


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    return load(checkpoints.a_teller(tmp_path_factory.mktemp("fit") / "m", positions=7))


def test_a_text_that_fits_is_left_as_it_is(loaded):
    text, count = fit_text(loaded, "I love you")
    assert (text, count) == ("I love you", len(loaded.tokenizer(text)["input_ids"]))


def test_a_limit_cuts_between_tokens(loaded):
    text, count = fit_text(loaded, "I love you and you and you and tea", limit=3)
    assert "I love you and you".startswith(text)
    assert 0 < count <= 3


def test_a_text_longer_than_the_context_is_refused(loaded):
    with pytest.raises(InputError, match=r"expected at most 7 tokens, its context, got .*limit=7"):
        fit_text(loaded, "I love you " * 9)
