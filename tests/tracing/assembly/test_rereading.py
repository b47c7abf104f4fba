"""Generation without a cache: the last step, which has read everything again, is the map."""

import pytest
import torch

import regard
from regard.tracing.assembly.token_labels import TokenLabels
from tracing.decoders import Decoder
from tracing.strangers import HEADS, WIDTH, hf, needs_registries

pytestmark = pytest.mark.usefixtures("unchecked")

BATCH, PROMPT, LENGTH = 2, 5, 11


def read_again(model, ids, lengths):
    with torch.no_grad(), regard.watch(model.eval()) as seen:
        for length in lengths:
            model(ids[:, :length])
    return seen


def watch_once(model, ids):
    return read_again(model, ids, [ids.shape[1]])


def assert_same_weights(trace, expected):
    assert [each.site for each in trace] == [each.site for each in expected]
    for one, other in zip(trace, expected, strict=True):
        torch.testing.assert_close(one.weights(), other.weights(), atol=1e-5, rtol=1e-4)


def by_hand():
    config = hf.MptConfig(d_model=WIDTH, n_heads=HEADS, n_layers=2, vocab_size=31)
    return hf.MptForCausalLM(config)


def causal_encoder():
    config = hf.OpenAIGPTConfig(n_embd=WIDTH, n_head=HEADS, n_layer=2, vocab_size=31)
    return hf.OpenAIGPTLMHeadModel(config)


@needs_registries
@pytest.mark.parametrize("make", [Decoder, by_hand, causal_encoder])
def test_the_last_step_takes_the_place_of_those_before(make):
    model, ids = make(), torch.randint(31, (BATCH, LENGTH))
    seen = read_again(model, ids, range(PROMPT, LENGTH + 1))
    for trace, expected in zip(seen, watch_once(model, ids), strict=True):
        assert_same_weights(trace, expected)


def test_another_text_or_the_same_once_more_is_a_map_of_its_own():
    model, ids = Decoder().eval(), torch.randint(31, (BATCH, LENGTH))
    with torch.no_grad(), regard.watch(model) as seen:
        model(ids[:, :PROMPT])
        model(ids.roll(1, 1))
        model(ids.roll(1, 1))
    sizes = [each.shape[1] for each in seen[0] if each.site.startswith("layers.0")]
    assert sizes == [PROMPT, LENGTH, LENGTH]


def test_rows_that_have_moved_stay_maps_of_their_own():
    model, ids = Decoder().eval(), torch.randint(31, (BATCH, LENGTH))
    with torch.no_grad(), regard.watch(model) as seen:
        model(ids[:, :PROMPT])
        model(ids.flip(0))
    assert [each.shape[1] for each in seen[0] if each.site.startswith("layers.1")] == [5, 11]


def test_a_hypothesis_that_has_ended_has_no_rows_of_later_steps():
    model, ids = Decoder().eval(), torch.randint(31, (BATCH, LENGTH))
    with torch.no_grad(), regard.watch(model) as seen:
        for length in (PROMPT, PROMPT + 1, PROMPT + 2):
            model(ids[:, :length])
        seen.set_labels(TokenLabels(rows=torch.tensor([[0, 1], [0, 1], [0, -1]])))
    for example, length in enumerate((PROMPT + 2, PROMPT + 1)):
        own = ids[example : example + 1, :length]
        assert_same_weights(seen[example], watch_once(model, own)[0])


def test_tokens_that_see_all_others_have_other_weights_at_each_step():
    model = torch.nn.Sequential(
        torch.nn.Embedding(31, 16), torch.nn.TransformerEncoderLayer(16, 2, 16, batch_first=True)
    )
    seen = read_again(model, torch.randint(31, (BATCH, LENGTH)), [PROMPT, LENGTH])
    assert [each.shape[1] for each in seen[0]] == [PROMPT, LENGTH]


def translator():
    sizes = {"d_model": WIDTH, "vocab_size": 31, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16}
    sizes |= {"encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS}
    config = hf.BartConfig(**sizes, encoder_layers=1, decoder_layers=1)
    config.update({"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2})
    return hf.BartForConditionalGeneration(config).eval()


@needs_registries
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_a_translation_without_a_cache_has_the_maps_of_one_with_a_cache(implementation):
    model, seen = translator(), []
    model.set_attn_implementation(implementation)
    ids = torch.randint(3, 31, (BATCH, PROMPT))
    for has_cache in (False, True):
        with torch.no_grad(), regard.watch(model) as watched:
            model.generate(ids, use_cache=has_cache, max_new_tokens=7, min_new_tokens=7)
        seen.append(watched)
    for trace, expected in zip(*seen, strict=True):
        assert [each.kind for each in trace] == [each.kind for each in expected]
        assert_same_weights(trace, expected)
