"""Where a translator looks for the words of a reference."""

import pytest
import torch

from regard.errors import InputError
from regard.measures import likeliest, read_gold
from regard.models import Recurrent, Tokenizer
from regard.models.generation import Settings
from regard.studies import Sentence, aligned, diagonal, peaks
from regard.studies.alignment import word_of_pieces
from regard.types import Tokens

LINES = ["I love you.", "she loves tea", "我爱你。", "她爱茶"]
SENTENCES = [
    Sentence(("I", "love", "you", "."), ("我", "爱", "你", "。"), read_gold("0-0 1-1 2-2 3-3")),
    Sentence(("she", "loves", "tea"), ("她", "爱", "茶"), read_gold("0-0 1-1 2-2")),
]


@pytest.fixture
def translator() -> Recurrent:
    torch.manual_seed(5)
    tokenizer = Tokenizer.train(LINES * 9, "bpe", 330, punctuation=True, chinese="character")
    model = Recurrent(vocab=len(tokenizer), d_embed=13, hidden=22, dropout=0.0).eval()
    model.tokenizer = tokenizer
    model.generation = Settings().updated(
        decoder_start_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id
    )
    return model


def test_weights_between_words_have_a_row_for_each_target_word(translator: Recurrent) -> None:
    found = list(aligned(translator, translator.tokenizer, SENTENCES))
    assert [tuple(each.shape) for each in found] == [(4, 4), (3, 3)]
    for each in found:
        # what is missing fell on the end mark
        assert bool((each.sum(dim=1) <= 1 + 1e-6).all())
        assert bool((each.sum(dim=1) > 0.2).all())


def test_a_piece_belongs_to_the_word_whose_characters_it_covers() -> None:
    tokens = Tokens(
        ("▁I", "▁lo", "ve", ".", "</s>"),
        offsets=((0, 1), (1, 4), (4, 6), (6, 7), (0, 0)),
        special=(False, False, False, False, True),
    )
    assert word_of_pieces(tokens, ("I", "love", "."), spaced=False) == [0, 1, 1, None, None]
    spaced = Tokens(("I", " lo", "ve"), offsets=((0, 1), (1, 4), (4, 6)))
    assert word_of_pieces(spaced, ("I", "love"), spaced=True) == [0, 1, 1]


def test_pieces_without_places_are_refused() -> None:
    with pytest.raises(InputError, match="use a fast one"):
        word_of_pieces(Tokens(("a",)), ("a",), spaced=True)


def test_the_diagonal_goes_from_the_first_word_to_the_last() -> None:
    sentence = Sentence(("a", "b", "c", "d"), ("x", "y"))
    assert likeliest(diagonal(sentence)) == {(0, 0), (2, 1)}


def test_peaks_are_right_where_the_largest_weight_is_on_a_linked_word() -> None:
    weights = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]])
    assert peaks([weights], [read_gold("0-0 1-1 1-2")]) == pytest.approx(2 / 3)
    with pytest.raises(InputError, match="at least one linked word"):
        peaks([weights], [read_gold("")])
