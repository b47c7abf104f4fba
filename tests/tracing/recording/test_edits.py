import pytest
import torch
from torch import nn

import regard
from attention.cases import Case
from regard.attention import AdditiveScore, Mechanism, Sparsemax, catalog
from regard.errors import InputError, ShapeError
from regard.masks import causal
from regard.tracing import Edit, Keep, knock_out, patch, uniform
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
    own_weights,
    with_weights,
)

every_form = pytest.mark.parametrize("form", FORMS)


def watched(model, edit):
    with regard.watch(model, edit=edit):
        return model(an_input())


@every_form
def test_other_weights_are_used_in_place_of_a_head_s_own(form):
    layer, x = Layer(form), an_input()
    given = torch.rand(BATCH, 2, LENGTH, LENGTH)
    weights = own_weights(layer, x)
    weights[:, [2, 0]] = given
    with regard.watch(layer, edit=lambda call: Edit([2, 0], weights=given)) as seen:
        came = layer(x)
    torch.testing.assert_close(came, with_weights(layer, x, weights))
    for example, trace in enumerate(seen):
        torch.testing.assert_close(trace.maps[0].weights(), weights[example])


@every_form
def test_another_context_is_given_in_place_of_a_head_s_own(form):
    layer, x = Layer(form), an_input()
    given = torch.rand(BATCH, 1, LENGTH, HEAD)
    mixed = own_weights(layer, x) @ layer.sides(x)[2]
    mixed[:, [1]] = given
    with regard.watch(layer, edit=lambda call: Edit([1], context=given)) as seen:
        came = layer(x)
    torch.testing.assert_close(came, layer.out(mixed.transpose(1, 2).flatten(2)))
    torch.testing.assert_close(seen[1].maps[0].weights(), own_weights(layer, x)[1])


@every_form
def test_only_the_sites_of_an_edit_are_changed(form):
    model, x = Model(form), an_input()
    with regard.watch(model, edit=knock_out("h.1", heads=[2])) as seen:
        came = model(x)
    first = x + model.h[0](x)
    weights = own_weights(model.h[1], first)
    weights[:, 2] = 0
    torch.testing.assert_close(came, first + with_weights(model.h[1], first, weights))
    torch.testing.assert_close(seen[0]["h.0"].weights(), own_weights(model.h[0], x)[0])
    assert not seen[0]["h.1"].weights(2).any()


@every_form
def test_uniform_heads_look_alike_at_every_key_that_the_mask_allows(form):
    layer, x = Layer(form), an_input()
    mask = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
    with regard.watch(layer, edit=uniform("*", heads=[1])) as seen:
        layer(x, mask)
    torch.testing.assert_close(seen[0].maps[0].weights(1), mask / mask.sum(-1, keepdim=True))
    torch.testing.assert_close(seen[0].maps[0].weights(0), own_weights(layer, x, mask)[0, 0])


@every_form
def test_gradients_flow_through_an_edit(form):
    layer, x = Layer(form), an_input()
    scale = torch.tensor(0.5, requires_grad=True)
    weights = own_weights(layer, x)
    parts = [weights[:, :1] * scale, weights[:, 1:]]
    sources = [scale, *layer.parameters()]
    expected = torch.autograd.grad(with_weights(layer, x, torch.cat(parts, 1)).sum(), sources)
    with regard.watch(layer, edit=lambda call: Edit([0], call.weights()[:, :1] * scale)):
        came = layer(x).sum()
    torch.testing.assert_close(torch.autograd.grad(came, sources), expected)


@every_form
def test_an_edit_sees_the_weights_of_its_call(form):
    layer, x, found = Layer(form), an_input(), []
    with regard.watch(layer, edit=lambda call: found.append(call)):
        layer(x)
    (call,) = found
    assert call.sizes == (BATCH, HEADS, LENGTH, LENGTH)
    torch.testing.assert_close(call.weights(), own_weights(layer, x))
    torch.testing.assert_close(call.value, layer.sides(x)[2])
    assert call.seen().all()


@every_form
def test_a_function_that_gives_nothing_changes_nothing(form):
    layer, x = Layer(form), an_input()
    with regard.watch(layer, edit=lambda call: None):
        came = layer(x)
    torch.testing.assert_close(came, layer(x))


@pytest.mark.parametrize("name", list(catalog))
def test_every_mechanism_of_ours_can_be_edited(name):
    case = Case(name)
    inputs = case.inputs()
    expected = case.context(inputs)
    with regard.watch(case.module, edit=lambda call: Edit(weights=call.weights())):
        torch.testing.assert_close(case.context(inputs), expected)
    with regard.watch(case.module, edit=knock_out("*")) as seen:
        torch.testing.assert_close(case.context(inputs), nothing(case, expected))
    assert not seen[0].maps[0].weights().any()


def nothing(case, context):
    """What a mechanism gives of a context of zeros: the bias of its last projection, if any."""
    last = [each for name, each in case.module.named_modules() if name.endswith("w_o")]
    bias = last[0].bias if last and last[0].bias is not None else torch.zeros(())
    return torch.zeros_like(context) + bias


@pytest.mark.parametrize(
    "parts", [{"score": AdditiveScore(WIDTH, WIDTH)}, {"normalizer": Sparsemax()}, {}]
)
def test_uniform_heads_of_every_mechanism_obey_its_mask(parts):
    module, x = Mechanism(**parts), an_input()
    with regard.watch(module, edit=uniform("*")) as seen:
        module(x, x, x, causal())
    expected = causal().dense(LENGTH, LENGTH)[0, 0].float()
    found = seen[0].maps[0].weights(0)
    torch.testing.assert_close(found, expected / expected.sum(-1, keepdim=True))


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("batched", [False, True])
def test_torch_s_module_returns_the_weights_that_it_used(average, batched):
    attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).eval()
    x = an_input() if batched else an_input()[0]
    ask = {"need_weights": True, "average_attn_weights": average}
    with regard.watch(attention, edit=knock_out("*", heads=[1])) as seen:
        context, weights = attention(x, x, x, **ask)
    used = torch.stack([each.maps[0].weights() for each in seen])
    used = used if batched else used[0]
    torch.testing.assert_close(weights, used.mean(-3) if average else used)
    with regard.watch(attention, edit=knock_out("*", heads=[1])):
        other, _ = attention(x, x, x, need_weights=False)
    torch.testing.assert_close(context, other)


def test_of_two_edits_of_a_head_the_later_one_counts():
    layer, x = Layer(by_fused), an_input()
    edits = [knock_out("*", heads=[0, 1]), uniform("*", heads=[1, 2])]
    with regard.watch(layer, edit=edits) as seen:
        layer(x)
    each = seen[0].maps[0]
    assert not each.weights(0).any()
    torch.testing.assert_close(each.weights()[1:], torch.full((2, LENGTH, LENGTH), 1 / LENGTH))


def test_heads_that_are_dropped_out_are_edited_without_it():
    layer = Mechanism(dropout=0.5).train()
    x = an_input()
    with regard.watch(layer, edit=uniform("*")):
        came = layer(x, x, x)
    torch.testing.assert_close(came, x.mean(1, keepdim=True).expand_as(x))


def test_groups_of_heads_share_values_when_edited():
    query, key = torch.randn(1, 6, LENGTH, HEAD), torch.randn(1, 2, LENGTH, HEAD)
    module = Mechanism()
    with regard.watch(module, edit=uniform("*", heads=[4])):
        came = module(query, key, key)
    torch.testing.assert_close(came[0, 4], key[0, 1].mean(0).expand(LENGTH, -1))


def test_edits_follow_decoding_step_by_step():
    module, states, steps = Mechanism(), torch.randn(1, LENGTH, WIDTH), torch.randn(1, 5, WIDTH)

    def third(call):
        return uniform("*")(call) if torch.equal(call.query[0, 0, 0], steps[0, 2]) else None

    with regard.watch(module, edit=third) as seen:
        for step in steps.split(1, dim=1):
            module(step, states, states)
    expected = regard.weights(steps[0], states[0])
    expected[2] = 1 / LENGTH
    torch.testing.assert_close(seen[0].maps[0].weights(0), expected)


@pytest.mark.parametrize("keep", ["summary", "windows", "dense"])
def test_the_numbers_of_an_edited_map_are_those_of_the_weights_used(keep):
    layer, x = Layer(by_fused), an_input()
    with regard.watch(layer, keep=keep, top=2, edit=uniform("*", heads=[1])) as seen:
        layer(x)
    each, entropy = seen[0].maps[0], torch.tensor(LENGTH).log().expand(LENGTH)
    torch.testing.assert_close(each.statistics.entropy[1], entropy)
    torch.testing.assert_close(each.top.weights[1], torch.full((LENGTH, 2), 1 / LENGTH))
    torch.testing.assert_close(each.atlas.largest[1], torch.full((1, 1), 1 / LENGTH))
    own = own_weights(layer, x)[0]
    torch.testing.assert_close(each.statistics.largest[0], own[0].amax(-1))


def test_an_edit_reaches_sites_that_are_not_watched():
    model, x = Model(by_fused), an_input()
    with regard.watch(model, edit=knock_out("h.0")) as both:
        expected = model(x)
    with regard.watch(model, sites="h.1", edit=knock_out("h.0")) as seen:
        came = model(x)
    torch.testing.assert_close(came, expected)
    assert [each.site for each in seen[0]] == ["h.1"]
    torch.testing.assert_close(seen[0]["h.1"].weights(), both[0]["h.1"].weights())


def test_a_patch_brings_what_another_run_had():
    model, x, other = Model(by_fused), an_input(), an_input()
    with regard.watch(model) as seen:
        expected = model(other)
    given = torch.stack([each["h.0"].weights() for each in seen])
    with regard.watch(model, edit=patch("h.0", weights=given)) as again:
        came = model(x)
    torch.testing.assert_close(again[1]["h.0"].weights(), given[1])
    assert not torch.allclose(came, expected)


def test_values_and_gradients_are_kept_of_an_edited_call():
    layer, x = Layer(by_matmul), an_input()
    keep = Keep(values=True, gradients=True)
    with regard.watch(layer, keep=keep, edit=knock_out("*", heads=[0])) as seen:
        layer(x).sum().backward()
    each = seen[0].maps[0]
    torch.testing.assert_close(each.values, layer.sides(x)[2][0])
    assert each.gradient.shape == (HEADS, LENGTH, HEAD)


@every_form
@pytest.mark.parametrize("heads", [[3], [-1], [], [1, 1]])
def test_heads_that_are_not_there_are_refused(form, heads):
    message = r"an edit of some of the heads 0 to 2 of 'Layer', each once, got \["
    layer = Layer(form)
    with pytest.raises(InputError, match=message):
        watched(layer, knock_out("*", heads=heads))


@every_form
def test_weights_of_another_shape_are_refused(form):
    layer, wrong = Layer(form), torch.rand(BATCH, 2, LENGTH, 5)
    message = r"weights of an edit of 'Layer' to broadcast to \(batch head query key\) = \(2, 1, 7"
    with pytest.raises(ShapeError, match=message):
        watched(layer, patch("*", [1], weights=wrong))


@every_form
def test_a_context_of_another_shape_is_refused(form):
    layer, wrong = Layer(form), torch.rand(BATCH, 1, LENGTH, HEAD + 2)
    message = r"context of an edit of 'Layer' to broadcast to \(batch head query value_dim\)"
    with pytest.raises(ShapeError, match=message):
        watched(layer, patch("*", [1], context=wrong))


def test_a_layout_that_cannot_be_told_is_refused():
    layer = Layer(by_sum)
    with pytest.raises(InputError, match="'Layer' is written so that its weights cannot be edit"):
        watched(layer, knock_out("*"))


def test_an_edit_is_of_weights_or_of_a_context():
    with pytest.raises(InputError, match="either weights or a context, got neither; return None"):
        Edit([0])
    with pytest.raises(InputError, match="either weights or a context, got both"):
        Edit([0], torch.zeros(1), torch.zeros(1))


def test_what_is_no_edit_is_refused(unchecked):
    layer = Layer(by_fused)
    with pytest.raises(InputError, match=r"an edit of 'Layer' to be an Edit or None, got tensor"):
        watched(layer, lambda call: torch.zeros(1))
    with pytest.raises(
        InputError, match="edit to be a function of an AttentionCall, or several, got 3"
    ):
        regard.watch(layer, edit=3).__enter__()


def test_an_edit_of_a_site_that_is_not_there_is_refused_with_those_that_are():
    model = Model(by_fused)
    with pytest.raises(InputError, match=r"no site fits 'h.7'; the model attended at h.0, h.1"):
        watched(model, knock_out("h.7"))


def test_outputs_cannot_stay_the_same_and_be_edited():
    with pytest.raises(InputError, match="beside=True keeps outputs as they are and edit changes"):
        regard.watch(nn.Identity(), edit=knock_out("*"), beside=True).__enter__()
