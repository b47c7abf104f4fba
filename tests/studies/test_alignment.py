"""Where a translator looks for the words of a reference."""

from pathlib import Path

import pytest
import torch

from regard.errors import InputError
from regard.measures import argmax_links, read_gold_links
from regard.models import Recurrent, Tokenizer, Transformer, from_pretrained
from regard.models.generation import GenerationSettings
from regard.models.tokenizers import TokenizerPair
from regard.studies import (
    SentencePair,
    alignment_by_layer,
    diagonal_baseline,
    evaluate_alignment,
    find_alignment_layer,
    peak_accuracy,
    word_attention,
)
from regard.studies.alignment import unknown_word_share, word_weights, words_of_pieces
from regard.tracing import capture
from regard.types import Tokens

LINES = ["I love you.", "she loves tea", "我爱你。", "她爱茶"]
SENTENCES = [
    SentencePair(
        ("I", "love", "you", "."), ("我", "爱", "你", "。"), read_gold_links("0-0 1-1 2-2 3-3")
    ),
    SentencePair(("she", "loves", "tea"), ("她", "爱", "茶"), read_gold_links("0-0 1-1 2-2")),
]


@pytest.fixture
def translator() -> Recurrent:
    torch.manual_seed(5)
    tokenizer = Tokenizer.train(LINES * 9, "bpe", 330, punctuation=True, chinese="character")
    model = Recurrent(vocab=len(tokenizer), d_embed=13, hidden=22, dropout=0.0).eval()
    model.tokenizer = tokenizer
    model.generation = GenerationSettings().replace(
        decoder_start_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id
    )
    return model


def test_weights_between_words_have_a_row_for_each_target_word(translator: Recurrent) -> None:
    found = list(word_attention(translator, translator.tokenizer, SENTENCES))
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
    assert words_of_pieces(tokens, ("I", "love", "."), spaced=False) == [0, 1, 1, None, None]
    spaced = Tokens(("I", " lo", "ve"), offsets=((0, 1), (1, 4), (4, 6)))
    assert words_of_pieces(spaced, ("I", "love"), spaced=True) == [0, 1, 1]


def test_pieces_without_places_are_refused() -> None:
    with pytest.raises(InputError, match="use a fast one"):
        words_of_pieces(Tokens(("a",)), ("a",), spaced=True)


def test_the_diagonal_goes_from_the_first_word_to_the_last() -> None:
    sentence = SentencePair(("a", "b", "c", "d"), ("x", "y"))
    assert argmax_links(diagonal_baseline(sentence)) == {(0, 0), (2, 1)}


def test_peaks_are_right_where_the_largest_weight_is_on_a_linked_word() -> None:
    weights = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]])
    assert peak_accuracy([weights], [read_gold_links("0-0 1-1 1-2")]) == pytest.approx(2 / 3)
    with pytest.raises(InputError, match="at least one linked word"):
        peak_accuracy([weights], [read_gold_links("")])


def test_targets_of_unequal_lengths_are_read_as_if_each_ran_alone(translator: Recurrent) -> None:
    together = list(word_attention(translator, translator.tokenizer, SENTENCES))
    for sentence, found in zip(SENTENCES, together, strict=True):
        (alone,) = word_attention(translator, translator.tokenizer, [sentence])
        torch.testing.assert_close(found, alone)


def test_words_of_two_vocabularies_keep_their_own_places() -> None:
    source, target = (Tokenizer.train(LINES * 9, kind, 300) for kind in ("word", "character"))
    model = Recurrent(vocab=len(source), target_vocab=len(target), d_embed=13, hidden=22).eval()
    model.tokenizer = TokenizerPair(source, target)
    model.generation = GenerationSettings().replace(decoder_start_token_id=target.bos_token_id)
    trace = capture(model, model.tokenizer, "she loves tea", target="她爱茶")
    assert trace.tokens(trace.of("cross")[0].columns).texts[1].strip("▁ ") == "loves"


def test_agreement_is_told_beside_a_diagonal_and_the_unknown_share(translator: Recurrent) -> None:
    done: list[int] = []
    found = evaluate_alignment(translator, translator.tokenizer, SENTENCES, on_progress=done.append)
    assert (found.sentences, done) == (2, [1, 2])
    assert found.diagonal.error_rate == 0  # these gold links are the diagonal
    assert found.unknown == (0, 0)
    assert 0 <= found.agreement.error_rate <= 1


def test_a_character_that_is_spelled_in_bytes_is_unknown(translator: Recurrent) -> None:
    assert unknown_word_share(translator.tokenizer, ["爱", "龘", "我龘", "茶"]) == 0.5


def test_sentences_without_links_are_refused(translator: Recurrent) -> None:
    with pytest.raises(InputError, match="0 of 1 with them"):
        evaluate_alignment(translator, translator.tokenizer, [SentencePair(("I",), ("我",))])


def test_a_model_that_looks_at_nothing_cannot_be_aligned(translator: Recurrent) -> None:
    blind = Recurrent(translator.config, attention="none").eval()
    blind.generation = translator.generation
    with pytest.raises(InputError, match="atten"):
        evaluate_alignment(blind, translator.tokenizer, SENTENCES)


@pytest.fixture
def layered(translator: Recurrent) -> Transformer:
    sizes = {"d_model": 14, "layers": 1, "decoder_layers": 3, "heads": 2, "d_ff": 17}
    model = Transformer(vocab=len(translator.tokenizer), **sizes).eval()
    model.tokenizer, model.generation = translator.tokenizer, translator.generation
    return model


def test_the_layer_that_the_config_names_is_the_one_that_is_read(layered: Transformer) -> None:
    tokenizer = layered.tokenizer
    trace = capture(layered, tokenizer, "she loves tea", target="她爱茶", keep="dense")
    expected = word_weights(trace, SENTENCES[1], 1)
    layered.config = layered.config.replace(alignment_layer=1)
    (found,) = word_attention(layered, tokenizer, SENTENCES[1:])
    torch.testing.assert_close(found, expected)
    layered.config = layered.config.replace(alignment_layer=None)
    (found,) = word_attention(layered, tokenizer, SENTENCES[1:])
    torch.testing.assert_close(found, word_weights(trace, SENTENCES[1], 2))


def test_a_layer_that_there_is_not_is_refused(layered: Transformer) -> None:
    layered.config = layered.config.replace(alignment_layer=3)
    with pytest.raises(InputError, match="alignment_layer below 3"):
        next(word_attention(layered, layered.tokenizer, SENTENCES))


def test_the_layer_that_is_chosen_is_the_best_of_all(layered: Transformer) -> None:
    every = alignment_by_layer(layered, layered.tokenizer, SENTENCES)
    assert len(every) == 3
    by_peaks = find_alignment_layer(layered, layered.tokenizer, SENTENCES)
    by_error = find_alignment_layer(layered, layered.tokenizer, SENTENCES, by="error rate")
    assert every[by_peaks][0] == max(right for right, _ in every)
    assert every[by_error][1].error_rate == min(links.error_rate for _, links in every)


def test_the_layer_is_saved_with_the_model(layered: Transformer, tmp_path: Path) -> None:
    layered.config = layered.config.replace(alignment_layer=2)
    layered.save_pretrained(tmp_path)
    assert from_pretrained(tmp_path).config.alignment_layer == 2
