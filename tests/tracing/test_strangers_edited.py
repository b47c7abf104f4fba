"""A stranger's head that is knocked out is one whose share of the last projection is gone."""

import warnings

import pytest
import torch

import regard
from regard.tracing import Keep, knock_out

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from tracing import strangers

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.usefixtures("unchecked"),
]

# where a model attends, and the projection of what its heads give
PLACES = {
    "bert": ("encoder.layer.1.attention.self", "encoder.layer.1.attention.output.dense"),
    "deberta-v2": ("encoder.layer.0.attention.self", "encoder.layer.0.attention.output.dense"),
    "llama": ("model.layers.1.self_attn", "model.layers.1.self_attn.o_proj"),
    "gpt-oss": ("model.layers.0.self_attn", "model.layers.0.self_attn.o_proj"),
    "gptj": ("transformer.h.1.attn", "transformer.h.1.attn.out_proj"),
    "t5": ("decoder.block.1.layer.1.EncDecAttention", "decoder.block.1.layer.1.EncDecAttention.o"),
}
HEAD = 2


def logits(result):
    found = getattr(result, "logits", None)
    return result.last_hidden_state if found is None else found


@pytest.mark.parametrize("name", list(PLACES))
@torch.no_grad()
def test_a_head_that_is_knocked_out_gives_nothing_to_the_model(name):
    model, feed = strangers.model(name), strangers.inputs(name, "right")
    site, last = PLACES[name]
    with regard.watch(model, edit=knock_out(site, heads=[HEAD])) as seen:
        came = logits(model(**feed))
    assert not seen[0][site].weights(HEAD).any()
    weight = model.get_submodule(last).weight
    wide = weight.shape[1] // strangers.HEADS
    weight[:, HEAD * wide : (HEAD + 1) * wide] = 0
    torch.testing.assert_close(came, logits(model(**feed)), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["gpt2", "llama", "gptj"])
@torch.no_grad()
def test_edits_follow_a_cache(name):
    model, feed = strangers.model(name), {"input_ids": strangers.tokens()}
    feed["attention_mask"] = strangers.real(None)
    plan = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False}
    edit, keep = knock_out("*", heads=[1]), Keep(values=True)
    with regard.watch(model, edit=edit, keep=keep) as decoded:
        found = model.generate(**feed, **plan)
    with regard.watch(model, edit=edit, keep=keep) as forced:
        model(input_ids=found[:, :-1])
    for step, whole in zip(decoded[1], forced[1], strict=True):
        torch.testing.assert_close(step.weights(), whole.weights(), atol=1e-5, rtol=0)
        torch.testing.assert_close(step.values, whole.values, atol=1e-5, rtol=0)
