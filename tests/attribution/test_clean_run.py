"""A model with one example that it has read."""

from dataclasses import replace

import pytest
import torch

import regard
from regard.attribution.attention import last_layer_attention
from regard.attribution.clean_run import (
    CleanRun,
    literal_pattern,
    module_path,
    source_tokenizer,
    word_units,
)
from regard.attribution.rollout import rollout, token_rollout
from regard.errors import InputError
from regard.types import Tokens, Trace
from studies.tiny_models import SOUGHT, Finder, reader, tokenizer, translator, writer

TEXT = "we love tea and cats"


def test_the_weight_of_tokens_for_the_next_one_is_that_of_the_last_row() -> None:
    model = writer()
    run = CleanRun.of(model, tokenizer(), TEXT)
    last = regard.capture(model, tokenizer(), TEXT).maps[-1]
    torch.testing.assert_close(last_layer_attention(run), last.weights()[:, -1].mean(0).double())


def test_the_weight_of_tokens_for_a_translation_is_what_they_receive_from_all_rows() -> None:
    run = CleanRun.of(translator(), tokenizer(), TEXT, target="you see")
    cross = run.trace.of("cross")[-1]
    torch.testing.assert_close(last_layer_attention(run), cross.weights().mean((0, 1)).double())


def test_the_weight_of_tokens_for_a_class_is_that_of_a_special_first_token() -> None:
    with_template = tokenizer().with_template("<s> $A </s>")
    run = CleanRun.of(reader(head="classes", labels=5), with_template, TEXT)
    last = run.trace.maps[-1].weights()
    torch.testing.assert_close(last_layer_attention(run), last[:, 0].mean(0).double())


def test_what_a_model_looks_for_has_all_the_weight() -> None:
    inputs = {"input_ids": torch.tensor([[5, 2, SOUGHT, 7]])}
    found = last_layer_attention(CleanRun.of(Finder(), None, inputs))
    torch.testing.assert_close(found, torch.tensor([0.0, 0.0, 1.0, 0.0]).double())


def test_rollout_is_that_of_the_same_rows() -> None:
    run = CleanRun.of(writer(), tokenizer(), TEXT)
    torch.testing.assert_close(token_rollout(run), rollout(run.trace)[-1])
    both = CleanRun.of(translator(), tokenizer(), TEXT, target="you see")
    torch.testing.assert_close(token_rollout(both), rollout(both.trace).mean(dim=0))


def test_a_model_that_is_not_seen_to_attend_has_no_weights() -> None:
    run = replace(CleanRun.of(writer(), tokenizer(), TEXT), trace=Trace({}, ()))
    assert run.input_maps == []
    with pytest.raises(InputError, match="give the importance of each"):
        last_layer_attention(run)


def test_padding_is_refused() -> None:
    inputs = {"input_ids": torch.tensor([[5, 6, 0]]), "attention_mask": torch.tensor([[1, 1, 0]])}
    with pytest.raises(InputError, match="2 real tokens of 3"):
        _ = CleanRun.of(reader(), None, inputs).tokens


def test_what_is_no_text_has_no_tokens() -> None:
    sizes = {"d_model": 12, "layers": 1, "heads": 2, "d_ff": 13, "image_size": 8, "patch": 4}
    model = regard.Transformer(kind="vision", **sizes)
    run = CleanRun.of(model, None, {"pixel_values": torch.rand(1, 3, 8, 8)})
    with pytest.raises(InputError, match="expected an input of tokens"):
        _ = run.tokens


def test_pieces_of_a_word_are_one_unit_and_special_tokens_none() -> None:
    tokens = Tokens(
        ("<s>", "lov", "##ing", ".", "?"),
        words=(None, 0, 0, 1, None),
        special=(True, False, False, False, False),
    )
    assert word_units(tokens) == [[1, 2], [3], [4]]
    assert word_units(tokens, words=False) == [[1], [2], [3], [4]]
    assert word_units(tokens, special=True) == [[0], [1, 2], [3], [4]]
    with pytest.raises(InputError, match="at least one token that is not special"):
        word_units(tokens[:1])


@pytest.mark.parametrize("site", ["h.5", "h.5#1", "h.5@3", "h.5#1@3"])
def test_the_path_of_a_site_is_its_module_s(site: str) -> None:
    assert module_path(site) == "h.5"


def test_a_pattern_fits_one_path_alone() -> None:
    assert literal_pattern("h[0].*") == "h[[]0].[*]"


def test_the_tokenizer_is_the_one_of_what_is_read() -> None:
    class Processor:
        def __init__(self) -> None:
            self.tokenizer = tokenizer()

    assert source_tokenizer(Processor()) is tokenizer()
    assert source_tokenizer(tokenizer()) is tokenizer()
    assert source_tokenizer(None) is None
