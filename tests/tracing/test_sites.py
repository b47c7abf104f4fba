"""The running module is told by frames as hooks would tell it, in its own thread only."""

import io
import threading
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules import module as hooks
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint

import regard
from regard.tracing.sites import Sites
from tracing import written

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from tracing import strangers

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.usefixtures("unchecked"),
]


def ids():
    return torch.randint(0, written.VOCABULARY, (written.BATCH, written.LENGTH))


class Compared(TorchFunctionMode):
    """Asks frames and hooks, at every function, which module is running."""

    def __init__(self, model):
        super().__init__()
        self.sites, self.stack, self.count = Sites(model), [], 0
        self.names = {id(each): name for name, each in model.named_modules()}

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if self.stack:
            name = self.names[id(self.stack[-1])] or type(self.stack[-1]).__name__
            assert self.sites.here == name
            self.count += 1
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", ["bert", "gpt2", "t5", "whisper", "gpt-oss"])
@torch.no_grad()
def test_frames_tell_what_hooks_tell(name):
    model = strangers.model(name)
    mode = Compared(model)
    handles = [
        hooks.register_module_forward_pre_hook(lambda module, _: mode.stack.append(module)),
        hooks.register_module_forward_hook(lambda *_: mode.stack.pop() and None, always_call=True),
    ]
    try:
        with mode:
            model(**strangers.inputs(name))
    finally:
        for handle in handles:
            handle.remove()
    assert mode.count > 50


class Odd(nn.Module):
    """Calls of modules in unusual ways, each with attention in a layer of its own."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(written.VOCABULARY, written.WIDTH)
        self.plain, self.hooked, self.twice = (written.Fused() for _ in range(3))
        self.hooked.register_forward_hook(lambda module, _, out: out + 0)
        self.compiled = written.Fused()
        self.compiled.compile(backend="eager")

    def forward(self, read):
        x = self.hooked(self.plain(self.embedding(read)))
        return self.compiled(self.twice(self.twice(x)))


def test_modules_with_hooks_compiled_or_shared_have_their_paths():
    with regard.watch(model := Odd()) as seen:
        model(ids())
    sites = [each.site for each in seen[0]]
    assert sites == ["plain", "hooked", "twice", "twice#1", "compiled"]


def test_a_module_that_is_not_the_model_s_is_named_by_its_class():
    outside = written.Fused()
    with regard.watch(written.Encoder(nn.Identity())) as seen:
        outside(torch.randn(written.BATCH, written.LENGTH, written.WIDTH))
    assert [each.site for each in seen[0]] == ["Fused"]


def test_what_runs_in_another_thread_is_not_mixed_in():
    model, other = written.Encoder(written.Fused()), ids()[:1, :5]
    with regard.watch(model) as seen:
        model.embedding(ids())
        thread = threading.Thread(target=model, args=(other,))
        thread.start()
        thread.join()
        model(ids())
    assert len(seen) == written.BATCH
    assert [each.shape for each in seen[0]] == [(written.HEADS, written.LENGTH, written.LENGTH)]


def test_two_threads_watch_the_same_model_each_for_itself():
    model, found, barrier = written.Encoder(written.Fused()), {}, threading.Barrier(2)

    def run(length):
        read = torch.randint(0, written.VOCABULARY, (written.BATCH, length))
        with regard.watch(model) as seen:
            barrier.wait()
            model(read)
            barrier.wait()
        found[length] = seen[0].maps[0].shape

    threads = [threading.Thread(target=run, args=(length,)) for length in (5, 11)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == {length: (written.HEADS, length, length) for length in (5, 11)}


def tensors_of(model):
    return [*model.parameters(), *model.buffers()]


def left_behind(model, *others):
    """Hooks, modes and marks that are still there."""
    own = [len(each._forward_hooks) + len(each._forward_pre_hooks) for each in model.modules()]
    everywhere = len(hooks._global_forward_hooks) + len(hooks._global_forward_pre_hooks)
    modes = torch.overrides._get_current_function_mode_stack()
    return (
        sum(own) + everywhere + len(modes) + sum(map(len, map(vars, (*tensors_of(model), *others))))
    )


def test_nothing_is_left_on_the_model_its_inputs_and_its_outputs():
    layer = written.Fused()
    model = nn.Sequential(layer, nn.BatchNorm1d(written.LENGTH))
    x = torch.randn(written.BATCH, written.LENGTH, written.WIDTH)
    with regard.watch(model):
        out = model(x)
    assert left_behind(model, x, out, layer.weights) == 0


def test_an_output_is_saved_as_a_plain_tensor():
    with regard.watch(model := written.Encoder(written.Fused())):
        out = model(ids()).detach()
    file = io.BytesIO()
    torch.save(out, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=True), out)


class Failing(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = written.Fused()

    def forward(self, x):
        self.kept = (x @ x.mT).softmax(-1)
        self.layer(x)
        raise ValueError("in mid-forward")


def test_an_error_in_the_middle_leaves_nothing_behind():
    model, x = Failing(), torch.randn(written.BATCH, written.LENGTH, written.WIDTH)
    with pytest.raises(ValueError, match="in mid-forward"), regard.watch(model):
        model(x)
    assert left_behind(model, x, model.kept) == 0
    assert Sites(model).here == "Failing"


def test_an_inner_watcher_takes_nothing_from_the_outer_one():
    model = written.Encoder(written.Fused())
    with regard.watch(model) as outer:
        with regard.watch(model) as inner:
            out = model(ids())
        model.layer(out)
    assert [each.site for each in inner[0]] == ["layer"]
    assert [each.kind for each in outer[0]] == ["encoder"] * 2
    assert left_behind(model, out) == 0


class Checkpointed(nn.Module):
    def __init__(self, form, *, reentrant):
        super().__init__()
        self.embedding = nn.Embedding(written.VOCABULARY, written.WIDTH)
        self.layer, self.reentrant = written.Layer(form), reentrant

    def forward(self, read):
        return checkpoint(self.layer, self.embedding(read), use_reentrant=self.reentrant)


def fused(q, k, v):
    return None, F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])


def gradients(model, loss, how):
    if how == "backward":
        model.zero_grad()
        loss.backward()
        return [each.grad.clone() for each in model.parameters()]
    return torch.autograd.grad(loss, [*model.parameters()])


@pytest.mark.parametrize("form", [written.module_softmax, fused])
@pytest.mark.parametrize(
    ("reentrant", "how"), [(True, "backward"), (False, "backward"), (False, "grad")]
)
def test_a_checkpointed_layer_is_seen_once_and_its_gradients_stay(form, reentrant, how):
    model, read = Checkpointed(form, reentrant=reentrant), ids()
    expected = gradients(model, model(read).sum(), how)
    with regard.watch(model) as seen:
        came = gradients(model, model(read).sum(), how)
    torch.testing.assert_close(came, expected)
    assert [each.site for each in seen[0]] == ["layer"]
    model.zero_grad()
    assert left_behind(model, read) == 0


def test_a_layer_that_runs_again_while_going_backward_is_seen_once():
    model, read = Checkpointed(fused, reentrant=False), ids()
    with regard.watch(model) as seen:
        torch.autograd.backward(model(read).sum())
    assert [each.site for each in seen[0]] == ["layer"]
