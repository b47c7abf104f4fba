from types import SimpleNamespace

import pytest

from regard.configs import context_length, exceeds_context


@pytest.mark.parametrize(
    ("config", "length"),
    [
        ({"max_positions": 37}, 37),
        ({"max_position_embeddings": 512}, 512),
        ({"n_positions": 1024}, 1024),
        ({"max_target_positions": 448}, 448),
        ({"text_config": {"max_position_embeddings": 77}, "vision_config": {}}, 77),
        ({"max_positions": 0}, None),
        ({}, None),
        (None, None),
    ],
)
def test_the_context_length_is_found_under_every_key(config, length):
    assert context_length(config) == length
    if isinstance(config, dict) and "text_config" not in config:
        assert context_length(SimpleNamespace(**config)) == length


def test_the_smaller_limit_of_config_and_tokenizer_counts():
    config = SimpleNamespace(n_positions=1024)
    assert context_length(config, SimpleNamespace(model_max_length=512)) == 512
    assert context_length(config, SimpleNamespace(model_max_length=10**30)) == 1024
    assert context_length(None, SimpleNamespace(model_max_length=29)) == 29


def test_the_part_of_a_config_about_text_is_asked_for_where_transformers_finds_it():
    def ambiguous():
        raise ValueError("several")

    inner = SimpleNamespace(max_position_embeddings=61)
    assert context_length(SimpleNamespace(get_text_config=lambda: inner)) == 61
    assert context_length(SimpleNamespace(get_text_config=ambiguous, text_config=inner)) == 61


@pytest.mark.parametrize(
    ("config", "length"),
    [
        ({"n_positions": 5}, 5),
        ({"max_position_embeddings": 7}, 7),
        ({"text_config": SimpleNamespace(max_positions=11)}, 11),
        ({"n_positions": None}, None),
        ({}, None),
    ],
)
def test_the_length_is_what_a_config_tells(config, length):
    assert context_length(SimpleNamespace(**config)) == length


def test_a_text_beyond_the_context_has_a_sentence_and_one_that_fits_has_none():
    assert exceeds_context("m", 7, 7, "cut it") is None
    assert exceeds_context("m", 10**9, None, "cut it") is None
    sentence = "m expected at most 1,024 tokens, its context, got 1,025; cut it"
    assert exceeds_context("m", 1025, 1024, "cut it") == sentence
