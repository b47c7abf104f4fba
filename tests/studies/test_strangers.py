"""Models that nobody here wrote are studied by the same functions."""

import warnings

import pytest
import torch

from regard.attribution.attention import last_layer_attention
from regard.attribution.clean_run import CleanRun
from regard.attribution.erasure import ErasureOptions
from regard.attribution.objectives import TokenProbability
from regard.studies.faithfulness import Rankings, faithfulness
from regard.studies.knockout import knock_outs
from regard.studies.leaks import causal_leak, padding_leak

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import transformers as hf

    from tracing import readers, strangers

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.usefixtures("unchecked"),
]

JUDGED = {"bert": "similarity", "gpt2": "next token", "llama": "next token", "t5": "generated text"}


def alone(name: str) -> dict[str, torch.Tensor]:
    return {key: each[:1] for key, each in strangers.inputs(name).items()}


def small_bert(make: type) -> torch.nn.Module:
    torch.manual_seed(0)
    sizes = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 3}
    return make(hf.BertConfig(**sizes, intermediate_size=29, vocab_size=101, num_labels=5)).eval()


@pytest.mark.parametrize("name", JUDGED)
@pytest.mark.parametrize("by", ["mask-token", "attention", "delete"])
def test_their_words_are_erased(name: str, by: str) -> None:
    how = {"erasure": ErasureOptions(by, fill=5), "rankings": Rankings(shuffles=2)}
    found = faithfulness(strangers.model(name), None, alone(name), **how)
    assert found.objective == JUDGED[name]
    assert {*found.curves} == {"attention", "rollout", "gradient", "occlusion"}
    most = found.curves["occlusion"].without[0].item()
    assert most == pytest.approx(found.full_value - found.occlusion.effect.max().item())


@pytest.mark.parametrize("name", ["marian", "swin", "gpt2"])
def test_their_heads_are_knocked_out(name: str) -> None:
    found = knock_outs(strangers.model(name), None, alone(name))
    assert all(len(each) >= 2 for each in found.rise.values())
    assert max(each.abs().max().item() for each in found.rise.values()) > 0


@pytest.mark.parametrize("name", ["gpt2", "llama", "bloom", "t5"])
def test_their_decoders_do_not_leak(name: str) -> None:
    assert causal_leak(strangers.model(name), None, alone(name)).largest == 0


@pytest.mark.parametrize("name", ["bert", "gpt2", "t5", "deberta-v2"])
def test_their_padding_makes_no_difference(name: str) -> None:
    assert padding_leak(strangers.model(name), None, alone(name)).largest < 1e-5


def test_what_is_masked_is_what_is_judged_and_stays() -> None:
    model, tokenizer = small_bert(hf.BertForMaskedLM), readers.word_piece()
    text = "i [MASK] you ."
    run = CleanRun.of(model, tokenizer, text)
    place = tokenizer(text)["input_ids"].index(tokenizer.mask_token_id)
    assert isinstance(run.objective, TokenProbability)
    assert (run.objective.name, run.objective.rows) == ("masked tokens", (place,))
    found = faithfulness(model, tokenizer, text, rankings=Rankings({}, shuffles=2))
    assert found.by == "mask-token"
    assert all(place not in unit for unit in found.occlusion.units)


def test_a_classifier_is_judged_by_its_class() -> None:
    model, tokenizer = small_bert(hf.BertForSequenceClassification), readers.word_piece()
    run = CleanRun.of(model, tokenizer, "i love you .")
    logits = model(**tokenizer("i love you .", return_tensors="pt")).logits
    assert run.objective.name == "class"
    assert run.value == pytest.approx(logits.softmax(-1).max().item(), rel=1e-5)
    last = run.trace.maps[-1].weights()[:, 0].mean(0).double()
    torch.testing.assert_close(last_layer_attention(run), last)
