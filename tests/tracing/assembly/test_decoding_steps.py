"""Decoding steps that are noted in one native call give the maps of those that are recorded."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

import regard
from regard.tracing.assembly.decoding_runs import DecodingRuns
from regard.tracing.assembly.decoding_steps import DecodingSteps
from regard.tracing.assembly.token_labels import TokenLabels


def a_gpt2():
    torch.manual_seed(0)
    sizes = {"n_layer": 2, "n_head": 3, "n_embd": 15, "vocab_size": 31, "n_positions": 64}
    return GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=None, eos_token_id=None)).eval()


def a_llama():
    torch.manual_seed(0)
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2}
    sizes = {"hidden_size": 24, "intermediate_size": 23, "vocab_size": 31}
    return LlamaForCausalLM(LlamaConfig(**sizes, **heads, eos_token_id=None)).eval()


def generated(model, *, new=11, **options):
    """The ids that a model writes after 7, and its trace."""
    ids = torch.tensor([[3, 1, 4, 1, 5, 9, 2]])
    with regard.watch(model, **options) as seen:
        written = model.generate(
            ids, max_new_tokens=new, do_sample=False, attention_mask=torch.ones_like(ids)
        )
    return written, seen[0]


def assert_same(one, other):
    assert [site.site for site in one.maps] == [site.site for site in other.maps]
    for left, right in zip(one.maps, other.maps, strict=True):
        assert (left.kind, left.shape) == (right.kind, right.shape)
        torch.testing.assert_close(left.weights(), right.weights())
        for name, numbers in vars(right.statistics).items():
            torch.testing.assert_close(getattr(left.statistics, name), numbers, msg=name)


@pytest.fixture
def counted(monkeypatch):
    """How many calls were noted as steps."""
    noted = []

    def observe(self, *args):
        result = whole(self, *args)
        noted.append(result is not None)
        return result

    whole = DecodingSteps.observe
    monkeypatch.setattr(DecodingSteps, "observe", observe)
    return noted


@pytest.mark.parametrize("make", [a_gpt2, a_llama])
@pytest.mark.parametrize("beside", [False, True])
def test_noted_steps_give_the_maps_of_recorded_ones(make, beside, monkeypatch, counted):
    model = make()
    written, trace = generated(model, beside=beside)
    assert sum(counted) == 2 * 10  # all steps of two layers but the prompt
    monkeypatch.setattr(DecodingRuns, "takes_steps", False)
    expected, recorded = generated(model, beside=beside)
    assert torch.equal(written, expected)
    assert_same(trace, recorded)
    with torch.no_grad():
        assert trace.maps[0].shape[1:] == (17, 17)


class Decoder(nn.Module):
    """Attends over the keys of all calls so far; `spoil` may change them between calls."""

    def __init__(self, spoil=lambda keys: keys):
        super().__init__()
        self.embedding, self.spoil, self.keys = nn.Embedding(31, 12), spoil, None

    def forward(self, ids):
        x = self.embedding(ids).unflatten(-1, (2, 6)).transpose(1, 2)
        self.keys = x if self.keys is None else torch.cat([self.spoil(self.keys), x], dim=2)
        is_first = self.keys.shape[2] == x.shape[2]
        return F.scaled_dot_product_attention(x, self.keys, self.keys, is_causal=is_first)


def decoded(model, lengths=(5, 1, 1, 1, 1), **options):
    torch.manual_seed(0)
    with torch.no_grad(), regard.watch(model, **options) as seen:
        outputs = [model(torch.randint(31, (1, length))) for length in lengths]
    return torch.cat(outputs, dim=2), seen


def test_a_step_of_several_queries_comes_between_noted_ones(monkeypatch, counted):
    torch.manual_seed(1)
    weights = Decoder().state_dict()
    results = []
    for takes_steps in (True, False):
        monkeypatch.setattr(DecodingRuns, "takes_steps", takes_steps)
        model = Decoder()
        model.load_state_dict(weights)
        results.append(decoded(model, (5, 1, 1, 3, 1, 1)))
    (output, seen), (expected, _) = results
    assert sum(counted) == 4
    torch.testing.assert_close(output, expected)
    assert seen[0].maps[0].shape == (2, 12, 12)


def test_steps_whose_cache_was_changed_begin_a_new_map(counted):
    _, seen = decoded(Decoder(spoil=lambda keys: keys.flip(2)))
    assert len(seen[0].maps) > 1
    assert not any(counted)


def test_a_row_that_is_undefined_is_recorded(counted):
    model = Decoder()
    with torch.no_grad():
        model.embedding.weight[30] = float("nan")
        with regard.watch(model) as seen:
            for ids in ([[2, 7, 1]], [[4]], [[30]], [[5]]):
                model(torch.tensor(ids))
    assert counted.count(True) == 1
    assert seen[0].maps[0].statistics.entropy[:, -1].isnan().all()


def test_labelled_rows_are_given_by_step():
    model = Decoder()
    torch.manual_seed(0)
    with torch.no_grad(), regard.watch(model) as seen:
        for length in (5, 1, 1, 1):
            model(torch.randint(31, (1, length)))
        seen.set_labels(TokenLabels((), torch.tensor([[0], [0], [0], [-1]])))
    assert seen[0].maps[0].shape == (2, 7, 7)


def test_top_weights_edits_and_gradients_take_the_general_way(counted):
    decoded(Decoder(), top=2)
    decoded(Decoder(), keep=regard.tracing.Keep(values=True))
    decoded(Decoder(), edit=lambda call: None)
    with regard.watch(model := Decoder()):
        model(torch.arange(5)[None])
        model(torch.arange(1)[None])
    assert not any(counted)
