"""Gradients of an objective, by contexts and by tokens, against those that torch takes."""

import pytest
import torch
import transformers as hf
from torch import nn

from attribution.networks import LENGTH, MAKERS, SOURCE, VOCAB, WIDTH, bert, network, traced, used
from regard.attribution.gradients import capture_gradients, gradient_times_input, logit
from regard.attribution.relevance import relevance
from regard.errors import InputError
from regard.models import Recurrent
from regard.tracing import Keep
from regard.types import RecomputableWeights
from tracing.readers import word_piece


def plainly(name, *, embedding):
    """Gradient x input of what an embedding gave first."""
    model, inputs, objective = network(name)
    found = []
    handle = embedding(model).register_forward_hook(
        lambda module, args, output: found.append(output)
    )
    value = objective(model(**inputs))
    handle.remove()
    (slope,) = torch.autograd.grad(value, found[0])
    return (slope * found[0]).sum(-1)[0].detach()


TABLES = {
    "ours": lambda model: model.encoder.embeddings.tokens,
    "bert": lambda model: model.embeddings.word_embeddings,
    "gpt2": lambda model: model.transformer.wte,
    "marian": lambda model: model.model.encoder.embed_tokens,
}


@pytest.mark.parametrize("name", MAKERS)
def test_the_gradient_by_the_weights_is_that_which_torch_takes(name):
    for each, (_, weights, slope) in zip(traced(name).maps, used(name), strict=True):
        torch.testing.assert_close(each.gradient @ each.values.mT, slope)
        torch.testing.assert_close(each.weights(), weights)


@pytest.mark.parametrize("name", MAKERS)
def test_no_parameter_gets_a_gradient_and_the_model_is_left_as_it_was(name):
    model, inputs, objective = network(name)
    hooks = [len(each._forward_hooks) for each in model.modules()]
    model.train()
    try:
        with torch.inference_mode():
            capture_gradients(model, None, inputs, objective=objective)
        assert all(each.training for each in model.modules())
        assert all(each.grad is None for each in model.parameters())
        assert hooks == [len(each._forward_hooks) for each in model.modules()]
    finally:
        model.eval()


@pytest.mark.parametrize("name", TABLES)
def test_saliency_is_the_gradient_times_the_embedding_of_each_token(name):
    model, inputs, objective = network(name)
    found = gradient_times_input(model, None, inputs, objective)
    torch.testing.assert_close(found, plainly(name, embedding=TABLES[name]))
    assert not found.requires_grad


def test_vectors_that_are_given_have_a_saliency_themselves():
    model, inputs, objective = network("torch")
    x = inputs["src"].clone().requires_grad_()
    (slope,) = torch.autograd.grad(objective(model(x)), x)
    found = gradient_times_input(model, None, inputs, objective)
    torch.testing.assert_close(found, (slope * x).sum(-1)[0].detach())


def test_to_first_order_it_is_the_fall_without_the_token():
    table, head = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, 2)
    model, ids = nn.Sequential(table, head), torch.tensor([[5, 7, 11]])
    found = gradient_times_input(model, None, {"input": ids}, lambda output: output[0, :, 1].sum())
    falls = (head(table(ids)) - head.bias)[0, :, 1]
    torch.testing.assert_close(found, falls.detach())


def test_a_text_is_read_by_the_models_own_tokenizer():
    tokenizer = word_piece()
    torch.manual_seed(1)
    config = hf.BertConfig(
        vocab_size=len(tokenizer), hidden_size=WIDTH, num_attention_heads=3, num_hidden_layers=1
    )
    model = hf.BertForSequenceClassification(config)
    trace = capture_gradients(model, tokenizer, "I love you", objective=logit(1))
    tokens = trace.streams["tokens"]
    assert tokens.texts[0] == "[CLS]"
    assert gradient_times_input(model, tokenizer, "I love you", logit(1)).shape == (len(tokens),)


def test_padding_has_no_saliency():
    model, inputs, _ = network("bert")
    mask = torch.ones(1, LENGTH, dtype=torch.long)
    mask[0, 5:] = 0
    found = gradient_times_input(
        model, None, inputs | {"attention_mask": mask}, lambda o: o[0][0, 0, 0]
    )
    assert found.shape == (5,)


def test_a_recurrent_translator_has_both():
    model = Recurrent(vocab=VOCAB, d_embed=13, hidden=22, dropout=0.0).eval()
    ids = {
        name: torch.randint(3, VOCAB, (1, n))
        for name, n in (("input_ids", SOURCE), ("decoder_input_ids", LENGTH))
    }
    trace = capture_gradients(model, None, ids, objective=logit(4, place=2))
    assert trace.of("cross")[0].gradient.shape[1] == LENGTH
    assert not trace.of("cross")[0].gradient[:, 3:].any()
    assert gradient_times_input(model, None, ids, logit(4)).shape == (SOURCE,)


def test_what_is_kept_can_be_chosen():
    model, inputs, objective = network("bert")
    keep = Keep(half=True, outputs=True)
    options = {"keep": keep, "sites": "*layer.1*"}
    trace = capture_gradients(model, None, inputs, objective=objective, **options)
    (each,) = trace.maps
    assert isinstance(each.source, RecomputableWeights)
    assert not each.source.exact
    assert each.output_projection is not None


LOGITS = torch.tensor([[[1.0, 5.0, 2.0], [4.0, 0.0, 3.0]]])


@pytest.mark.parametrize(
    "output", [LOGITS, (LOGITS, None), hf.modeling_outputs.CausalLMOutput(logits=LOGITS)]
)
def test_a_logit_is_found_in_what_a_model_gives(output):
    assert logit()(output) == 4
    assert logit(2)(output) == 3
    assert logit(place=0)(output) == 5


@pytest.mark.parametrize(
    ("asked", "output", "message"),
    [
        (logit(), torch.zeros(7), r"expected logits .* got a tensor of shape \(7,\); give an obj"),
        (logit(), torch.zeros(2, 3), r"got a tensor of shape \(2, 3\)"),
        (logit(), None, "got NoneType"),
        (logit(3), torch.zeros(1, 3), "expected a choice of 3 logits, got 3"),
        (logit(place=5), torch.zeros(1, 5, 3), "expected a place within the 5 tokens, got 5"),
    ],
)
def test_a_logit_that_there_is_not_is_refused(asked, output, message):
    with pytest.raises(InputError, match=message):
        asked(output)


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        (lambda output: output[0], r"one number .* got a tensor of shape \(1, 7, 15\)"),
        (lambda output: 3.0, "one number of what the model gives, got float"),
        (lambda output: output[0].detach().sum(), "does not depend on the input by gradients"),
    ],
)
def test_an_objective_that_has_no_gradient_is_refused(objective, message):
    model, inputs, _ = network("bert")
    with pytest.raises(InputError, match=message):
        capture_gradients(model, None, inputs, objective=objective)


class OneHot(nn.Module):
    """Embeds by a product of its own."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(VOCAB, WIDTH))
        self.places = nn.Embedding(LENGTH, WIDTH)

    def forward(self, ids, places=None):
        x = nn.functional.one_hot(ids, VOCAB).float() @ self.table
        return x if places is None else x + self.places(places)


def test_ids_that_no_embedding_reads_have_no_gradient():
    ids = torch.arange(3, 3 + LENGTH)[None]
    with pytest.raises(InputError, match=r"OneHot was given ids that no torch.nn.Embedding reads"):
        gradient_times_input(OneHot(), None, {"ids": ids}, lambda output: output.sum())
    given = {"ids": ids, "places": torch.arange(LENGTH)[None]}
    with pytest.raises(InputError, match="OneHot embeds none of its input's ids"):
        gradient_times_input(OneHot(), None, given, lambda output: output.sum())


def test_a_batch_is_refused():
    with pytest.raises(InputError, match="expected one example, got a batch of 2"):
        capture_gradients(bert(), None, {"input_ids": torch.ones(2, LENGTH, dtype=torch.long)})


def test_ids_that_are_copied_on_the_way_are_known_by_what_they_are():
    class Copied(nn.Module):
        def __init__(self):
            super().__init__()
            self.places, self.table = nn.Embedding(LENGTH, 3), nn.Embedding(VOCAB, 3)

        def forward(self, ids):
            places = torch.arange(ids.shape[1])[None]
            return self.places(places) + self.table(ids.clone())

    model, ids = Copied(), torch.tensor([[5, 6, 7]])
    found = gradient_times_input(model, None, {"ids": ids}, lambda output: output.sum())
    torch.testing.assert_close(found, model.table(ids)[0].sum(-1).detach())


def test_an_input_that_makes_no_difference_has_no_saliency():
    class Ignores(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.other = nn.Embedding(VOCAB, 3), nn.Embedding(VOCAB, 3)

        def forward(self, ids):
            self.table(ids)
            return self.other(ids + 1)

    found = gradient_times_input(
        Ignores(), None, {"ids": torch.tensor([[5, 6]])}, lambda o: o.sum()
    )
    assert found.tolist() == [0, 0]


def test_the_whole_road_from_a_translator_to_relevance():
    model, inputs, objective = network("marian")
    trace = capture_gradients(model, None, inputs, objective=objective)
    assert relevance(trace).shape == (LENGTH, SOURCE)
