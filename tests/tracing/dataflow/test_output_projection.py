"""The matrix that contexts go straight into, found where they do and not where they do not."""

import pytest
import torch
import transformers as hf
from torch import nn

import regard
from regard.attention import MultiHeadAttention
from regard.tracing import Keep, knock_out
from regard.tracing.dataflow.output_projection import (
    OutputProjection,
    PendingProjections,
    ProjectionCopies,
)
from regard.tracing.dataflow.products import product_of
from tracing.hands import (
    BATCH,
    FORMS,
    HEAD,
    HEADS,
    LENGTH,
    WIDTH,
    Layer,
    Model,
    an_input,
    by_fused,
    by_matmul,
    by_sum,
)

OUTPUTS = Keep(outputs=True)
VOCAB = 53
IDS = torch.randint(3, VOCAB, (BATCH, LENGTH), generator=torch.manual_seed(3))


def outputs(model, *inputs, **options):
    with regard.watch(model, keep=OUTPUTS, **options) as seen, torch.no_grad():
        model(*inputs)
    return [each.output_projection for each in seen[1].maps]


def parts(matrix, heads=HEADS):
    """Each head's part of a matrix (in out)."""
    return matrix.detach().unflatten(0, (heads, -1))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("beside", [False, True])
def test_each_head_has_its_part_of_the_matrix(form, beside):
    layer = Layer(form)
    (found,) = outputs(layer, an_input(), beside=beside)
    assert torch.equal(found, parts(layer.out.weight.T))


def test_nothing_is_looked_for_unless_it_is_asked_for():
    layer = Layer(by_fused)
    with regard.watch(layer, keep=Keep(values=True)) as seen:
        layer(an_input())
    assert seen[0].maps[0].output_projection is None


def test_each_layer_has_its_own():
    model = Model(by_matmul)
    found = outputs(model, an_input())
    for each, layer in zip(found, model.h, strict=True):
        assert torch.equal(each, parts(layer.out.weight.T))


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_torchs_own_layer_has_one(need_weights, batch_first):
    layer = nn.MultiheadAttention(WIDTH, HEADS, batch_first=batch_first)
    x = an_input() if batch_first else an_input().transpose(0, 1)
    with regard.watch(layer, keep=OUTPUTS) as seen:
        layer(x, x, x, need_weights=need_weights)
    assert torch.equal(seen[1].maps[0].output_projection, parts(layer.out_proj.weight.T))


def test_ours_has_one_also_where_heads_share_keys():
    layer = MultiHeadAttention(30, 6, key_heads=2)
    (found,) = outputs(layer, torch.randn(BATCH, LENGTH, 30))
    assert torch.equal(found, parts(layer.w_o.weight.T, 6))


def bert():
    sizes = {"num_hidden_layers": 1, "num_attention_heads": HEADS, "intermediate_size": 29}
    model = hf.BertModel(hf.BertConfig(vocab_size=VOCAB, hidden_size=WIDTH, **sizes))
    return model, model.encoder.layer[0].attention.output.dense.weight.T


def gpt2():
    sizes = {"vocab_size": VOCAB, "n_embd": WIDTH, "n_head": HEADS, "n_layer": 1}
    model = hf.GPT2Model(hf.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))
    return model, model.h[0].attn.c_proj.weight


def t5():
    sizes = {"d_kv": 7, "num_layers": 1, "d_ff": 29, "num_heads": HEADS}
    model = hf.T5EncoderModel(hf.T5Config(vocab_size=VOCAB, d_model=WIDTH, **sizes))
    return model, model.encoder.block[0].layer[0].SelfAttention.o.weight.T


def xlnet():
    sizes = {"d_model": 2 * HEADS * 5, "n_head": HEADS, "n_layer": 1, "d_inner": 29}
    model = hf.XLNetModel(hf.XLNetConfig(vocab_size=VOCAB, **sizes))
    return model, model.layer[0].rel_attn.o.permute(1, 2, 0).flatten(0, 1)


@pytest.mark.parametrize("maker", [bert, gpt2, t5, xlnet])
def test_models_of_others_have_one_wherever_it_stands(maker):
    model, matrix = maker()
    (found,) = outputs(model.eval(), IDS)
    assert torch.equal(found, parts(matrix))


class Between(nn.Module):
    """Something between the contexts and their matrix."""

    def __init__(self, change):
        super().__init__()
        self.layer, self.change = Layer(by_fused), change
        self.adapter = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        context = by_fused(*self.layer.sides(x), None).flatten(2)
        return self.change(self, context)


CHANGES = {
    "a gate": lambda self, x: self.layer.out(x * x.sigmoid()),
    "a gate in place": lambda self, x: self.layer.out(x.mul_(x.sigmoid())),
    "some of the tokens": lambda self, x: self.layer.out(x[:, 1:]),
    "an adapter beside it": lambda self, x: self.layer.out(x) + self.adapter(x),
    "a matrix for each example": lambda self, x: x @ self.adapter.weight.expand(BATCH, -1, -1),
    "no matrix": lambda self, x: x,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("quiet", [torch.no_grad, torch.inference_mode])
def test_where_contexts_do_not_go_straight_into_one_matrix_there_is_none(change, quiet):
    model = Between(CHANGES[change])
    with quiet(), regard.watch(model, keep=OUTPUTS) as seen:
        model(an_input())
    assert seen[0].maps[0].output_projection is None


def test_weights_that_no_product_uses_have_none():
    assert outputs(Layer(by_sum), an_input()) == [None]


def test_dims_before_heads_are_told_apart():
    layer = Layer(by_fused)
    turned = nn.Linear(WIDTH, WIDTH)

    class Turned(nn.Module):
        def forward(self, x):
            return turned(by_fused(*layer.sides(x), None).mT.flatten(2))

    (found,) = outputs(Turned(), an_input())
    expected = turned.weight.T.detach().unflatten(0, (HEAD, HEADS)).transpose(0, 1)
    assert torch.equal(found, expected)


def test_an_edited_head_still_has_its_part():
    layer = Layer(by_fused)
    (found,) = outputs(layer, an_input(), edit=knock_out("*", heads=[1]))
    assert torch.equal(found, parts(layer.out.weight.T))


def test_chosen_heads_keep_their_parts():
    layer = Layer(by_fused)
    (found,) = outputs(layer, an_input(), sites={"*": [2, 0]})
    assert torch.equal(found, parts(layer.out.weight.T)[[2, 0]])


def test_steps_of_decoding_have_it_once():
    layer, x = MultiHeadAttention(WIDTH, HEADS), an_input()
    with regard.watch(layer, keep=OUTPUTS) as seen, torch.no_grad():
        _, past = layer.step(x[:, :5])
        layer.step(x[:, 5:], past)
    assert torch.equal(seen[0].maps[0].output_projection, parts(layer.w_o.weight.T))


def test_steps_of_decoding_share_one_copy():
    layer, copies = MultiHeadAttention(WIDTH, HEADS), ProjectionCopies()
    matrix = layer.w_o.weight.T
    first = copies.copy(matrix, parts(matrix))
    assert copies.copy(layer.w_o.weight.T, parts(layer.w_o.weight.T)) is first
    with torch.no_grad():
        layer.w_o.weight.zero_()
    assert not copies.copy(matrix, parts(matrix)).any()
    assert first.any()


def test_it_stays_as_it_was_when_the_model_learns_on():
    layer = Layer(by_fused)
    before = layer.out.weight.detach().clone()
    (found,) = outputs(layer, an_input())
    with torch.no_grad():
        layer.out.weight.zero_()
    assert torch.equal(found, parts(before.T))


def test_a_context_that_waited_too_long_is_let_go():
    pending, first = PendingProjections(), OutputProjection(torch.randn(1, HEADS, LENGTH, HEAD))
    pending.add(first)
    for _ in range(4):
        pending.add(OutputProjection(), torch.randn(1, HEADS, LENGTH, HEAD))
    assert first._context is None
    product = product_of("linear", (torch.zeros(1, LENGTH, WIDTH), torch.zeros(2, WIDTH)))
    pending.check(product)
    pending.close()
    assert first.head_parts is None
