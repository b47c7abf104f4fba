"""The same tokens as transformers, from the same weights: an adapter lets its models write here."""

from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from regard.models.generation import GenerationSettings, generate

transformers = pytest.importorskip("transformers")


@dataclass(frozen=True)
class Read:
    """What each row has read, and for each the encoded source."""

    tokens: Tensor
    mask: Tensor | None = None
    source: Tensor | None = None

    def select(self, rows):
        parts = {name: getattr(self, name) for name in ("tokens", "mask", "source")}
        return Read(**{k: None if part is None else part[rows] for k, part in parts.items()})


class Adapter:
    """A model of transformers as a writer; it reads everything again at every step."""

    tokenizer = None

    def __init__(self, model):
        self.model, self.reads_source = model, model.config.is_encoder_decoder
        self.generation = GenerationSettings.from_json(model.generation_config.to_json_string())

    def begin(self, inputs, attention_mask=None):
        mask = torch.ones_like(inputs) if attention_mask is None else attention_mask
        nothing = torch.empty(len(inputs), 0, dtype=torch.long)
        if not self.reads_source:
            return Read(nothing, mask)
        source = self.model.get_encoder()(inputs, attention_mask=mask).last_hidden_state
        return Read(nothing, mask, source)

    def step(self, state, tokens):
        read = torch.cat([state.tokens, tokens], dim=1)
        if self.reads_source:
            logits = self.model(
                encoder_outputs=(state.source,), attention_mask=state.mask, decoder_input_ids=read
            ).logits
            return logits[:, -1].clone(), replace(state, tokens=read)
        new = read.shape[1] - state.mask.shape[1]
        mask = torch.cat([state.mask, torch.ones(len(read), new, dtype=torch.long)], dim=1)
        places = (mask.cumsum(dim=1) - 1).clamp(min=0)
        logits = self.model(read, attention_mask=mask, position_ids=places).logits
        return logits[:, -1].clone(), Read(read, mask)


def marian(seed=7):
    torch.manual_seed(seed)
    config = transformers.MarianConfig(
        vocab_size=53,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=23,
        decoder_ffn_dim=23,
        max_position_embeddings=64,
        pad_token_id=52,
        eos_token_id=0,
        decoder_start_token_id=52,
        forced_eos_token_id=0,
        init_std=0.5,
    )
    model = transformers.MarianMTModel(config).eval()
    model.final_logits_bias[0, 0] = 4.0  # some end soon
    return model


def gpt2(seed=5):
    torch.manual_seed(seed)
    config = transformers.GPT2Config(
        vocab_size=53,
        n_embd=16,
        n_layer=2,
        n_head=2,
        n_positions=64,
        bos_token_id=1,
        eos_token_id=[2, 9, 31, 47],
        pad_token_id=4,
        initializer_range=0.3,
    )
    return transformers.GPT2LMHeadModel(config).eval()


IDS = torch.tensor([[7, 11, 13, 5], [3, 17, 23, 41], [29, 8, 19, 31]])
WAYS = {
    "greedy": {},
    "greedy, penalty": {"repetition_penalty": 1.3},
    "greedy, phrases": {"no_repeat_ngram_size": 2, "min_length": 9},
    "beam": {"num_beams": 4},
    "beam, n-best": {"num_beams": 5, "num_return_sequences": 3},
    "beam, short": {"num_beams": 3, "length_penalty": 0.0},
    "beam, long": {"num_beams": 3, "length_penalty": 2.0},
    "beam, shorter": {"num_beams": 3, "length_penalty": -1.0},
    "beam, early": {"num_beams": 4, "early_stopping": True, "num_return_sequences": 2},
    "beam, never": {"num_beams": 4, "early_stopping": "never", "length_penalty": 0.6},
    "beam, penalty": {"num_beams": 3, "repetition_penalty": 1.5, "num_return_sequences": 2},
    "beam, phrases": {"num_beams": 3, "no_repeat_ngram_size": 2, "min_length": 7},
    "beam, words": {"num_beams": 3, "bad_words_ids": [[7], [41, 3]], "suppress_tokens": [11]},
}


def theirs(model, ids, mask=None, **settings):
    mask = torch.ones_like(ids) if mask is None else mask
    return model.generate(
        ids,
        attention_mask=mask,
        max_length=23,
        do_sample=False,
        return_dict_in_generate=True,
        output_scores=True,
        **settings,
    )


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("make", "seed"), [(marian, 7), (marian, 9), (gpt2, 0), (gpt2, 5)])
def test_the_sequences_and_scores_are_those_of_transformers(make, seed, way):
    model = make(seed)
    expected = theirs(model, IDS, **WAYS[way])
    found = generate(Adapter(model), IDS, max_length=23, **WAYS[way])
    assert torch.equal(found.sequences, expected.sequences)
    if "num_beams" in WAYS[way]:
        torch.testing.assert_close(found.scores, expected.sequences_scores)
        assert torch.equal(found.beam_indices, expected.beam_indices.long())


@pytest.mark.parametrize("beams", [1, 4])
def test_a_padded_batch_gives_what_transformers_gives(beams):
    mask = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1], [0, 1, 1, 1]])
    model = gpt2()
    ids = IDS.masked_fill(mask == 0, 4)
    expected = theirs(model, ids, mask, num_beams=beams).sequences
    found = generate(Adapter(model), ids, mask, max_new_tokens=19, num_beams=beams).sequences
    assert torch.equal(found, expected)


@pytest.mark.parametrize(
    "settings",
    [{"top_k": 7}, {"top_k": 0, "top_p": 0.8}, {"top_k": 0, "min_p": 0.1}, {"temperature": 0.7}],
)
def test_samples_are_spread_as_those_of_transformers(settings):
    model, count = gpt2(), 4001
    asked = {"do_sample": True, "max_new_tokens": 1, **settings}
    torch.manual_seed(5)
    many = IDS[:1].expand(count, -1)
    drawn = model.generate(many, attention_mask=torch.ones_like(many), **asked)[:, -1]
    ours = generate(Adapter(model), IDS[:1], num_return_sequences=count, seed=5, **asked)
    a, b = (torch.bincount(x, minlength=53).double() for x in (drawn, ours.sequences[:, -1]))
    assert torch.equal(a > 40, (b > 0) & (a > 40))
    assert (a - b).abs().sum() / count < 0.15
