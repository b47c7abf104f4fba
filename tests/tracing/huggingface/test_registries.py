"""transformers while watching: masks stay descriptions, for the thread that watches alone."""

import contextlib
import subprocess
import sys
import threading
import types
import warnings

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import regard
from regard.tracing.huggingface.registries import watch_registries
from regard.tracing.mask_reading.lazy import LazyMask

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from transformers import masking_utils, modeling_utils

    from tracing import strangers

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.usefixtures("unchecked"),
]

SLIDING = ("llama", "mistral", "gemma2", "modernbert", "bart")


def watched(model, run):
    with regard.watch(model) as seen, torch.no_grad():
        result = run(model)
    return seen, result


@pytest.fixture
def without(monkeypatch):
    """Watch as if transformers had no registries."""

    def run(*args):
        with monkeypatch.context() as patch:
            module = sys.modules["regard.tracing.open_watchers"]
            patch.setattr(module, "watch_registries", contextlib.nullcontext)
            return watched(*args)

    return run


def assert_same(one, other):
    for each, same in zip(one, other, strict=True):
        for mine, theirs in zip(each, same, strict=True):
            assert (mine.site, mine.kind, mine.shape) == (theirs.site, theirs.kind, theirs.shape)
            torch.testing.assert_close(mine.weights(), theirs.weights(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("padded", [None, "left", "right"])
@pytest.mark.parametrize("name", SLIDING)
def test_weights_are_the_same_as_with_dense_masks(name, padded, without):
    model, feed = strangers.model(name), strangers.inputs(name, padded)
    seen, _ = watched(model, lambda model: model(**feed))
    assert_same(seen, without(model, lambda model: model(**feed))[0])


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("name", ["llama", "mistral", "gemma2"])
def test_weights_of_decoding_are_the_same_as_with_dense_masks(name, cache, without):
    model = strangers.model(name)
    feed = {"input_ids": strangers.tokens(), "attention_mask": strangers.real("left")}
    plan = {"max_new_tokens": 4, "do_sample": False, "cache_implementation": cache}
    seen, text = watched(model, lambda model: model.generate(**feed, **plan))
    dense, same = without(model, lambda model: model.generate(**feed, **plan))
    assert torch.equal(text, same)
    assert_same(seen, dense)


@pytest.mark.parametrize("name", ["llama", "mistral", "gemma2"])
def test_weights_of_a_prompt_in_two_pieces_are_the_same_as_with_dense_masks(name, without):
    model, ids = strangers.model(name), strangers.tokens()

    def pieces(model):
        first = model(input_ids=ids[:, :5], use_cache=True)
        model(input_ids=ids[:, 5:], past_key_values=first.past_key_values)

    assert_same(watched(model, pieces)[0], without(model, pieces)[0])


def registered():
    mapping = masking_utils.ALL_MASK_ATTENTION_FUNCTIONS._global_mapping
    functions = modeling_utils.ALL_ATTENTION_FUNCTIONS._global_mapping
    find = vars(modeling_utils.AttentionInterface).get("get_interface")
    return [*mapping.items(), *functions.items(), ("find", find)]


def assert_identical(before):
    for (name, one), (same, other) in zip(before, registered(), strict=True):
        assert name == same
        assert one is other


def test_everything_is_as_it_was_when_the_block_has_ended():
    before, model = registered(), strangers.model("mistral")
    implementation = model.config._attn_implementation
    watched(model, lambda model: model(**strangers.inputs("mistral")))
    assert_identical(before)
    assert model.config._attn_implementation == implementation


def test_everything_is_as_it_was_after_an_error():
    before, model = registered(), strangers.model("mistral")
    with pytest.raises(IndexError), regard.watch(model):
        model(input_ids=torch.tensor([[strangers.VOCABULARY + 7]]))
    assert_identical(before)


def test_a_function_that_was_registered_meanwhile_stays():
    registry = masking_utils.ALL_MASK_ATTENTION_FUNCTIONS
    before = registry["sdpa"]
    try:
        with watch_registries():
            registry.register("sdpa", len)
        assert registry["sdpa"] is len
    finally:
        registry.register("sdpa", before)


def made(length=7):
    """What a model is given as its mask."""
    config = strangers.model("mistral").config
    embedded = torch.zeros(2, length, config.hidden_size)
    padded = torch.ones(2, length)
    padded[0, :2] = 0
    return masking_utils.create_sliding_window_causal_mask(config, embedded, padded, None)


def elsewhere(run):
    """What a function gives in another thread."""
    found = []
    thread = threading.Thread(target=lambda: found.append(run()))
    thread.start()
    thread.join()
    return found[0]


@strangers.needs_registries
def test_another_thread_meanwhile_gets_the_dense_mask():
    with watch_registries():
        assert isinstance(made(), LazyMask)
        assert type(elsewhere(made)) is torch.Tensor
    assert type(made()) is torch.Tensor


@strangers.needs_registries
def test_the_same_model_in_another_thread_runs_as_it_would_alone():
    model, feed = strangers.model("mistral"), strangers.inputs("mistral", "left")
    masks = []
    attention = model.model.layers[0].self_attn
    take = lambda module, args, kwargs: masks.append(kwargs["attention_mask"])  # noqa: E731
    attention.register_forward_pre_hook(take, with_kwargs=True)
    with torch.no_grad(), regard.watch(model) as seen:
        model(**feed)
        alone = elsewhere(lambda: model(**feed).logits)
    assert [type(each) for each in masks] == [LazyMask, torch.Tensor]
    assert torch.equal(alone, model(**feed).logits)
    assert len(seen[0].maps) == 2


@strangers.needs_registries
def test_watchers_in_several_threads_come_and_go_alone():
    before = registered()
    inside, leave = threading.Event(), threading.Event()

    def stay():
        with watch_registries():
            inside.set()
            leave.wait()
            kinds.append(type(made()))

    kinds = []
    thread = threading.Thread(target=stay)
    with watch_registries():
        thread.start()
        inside.wait()
    assert type(made()) is torch.Tensor
    leave.set()
    thread.join()
    assert kinds == [LazyMask]
    assert_identical(before)


@strangers.needs_registries
def test_watchers_within_watchers_see_the_same():
    with watch_registries():
        with watch_registries():
            assert isinstance(made(), LazyMask)
        assert isinstance(made(), LazyMask)


class Largest(TorchDispatchMode):
    """The size of the largest tensor that any operation gives."""

    most = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **kwargs or {})
        for each in torch.utils._pytree.tree_leaves(result):
            if isinstance(each, torch.Tensor):
                self.most = max(self.most, each.untyped_storage().nbytes())
        return result


@strangers.needs_registries
@pytest.mark.parametrize("name", ["mistral", "gemma2", "modernbert", "llama"])
def test_nothing_of_size_query_x_key_is_made_while_watching(name):
    model, length = strangers.model(name), 4096
    ids, padded = strangers.tokens(length)[:1], strangers.real("left", length)[:1]
    with torch.no_grad(), regard.watch(model, keep="summary", atlas=64), Largest() as largest:
        base = getattr(model, "model", model)  # without scores for a vocabulary
        base(input_ids=ids, attention_mask=padded)
    assert largest.most < length * length


def test_without_transformers_there_is_nothing_to_replace(monkeypatch):
    before = registered()
    monkeypatch.delitem(sys.modules, "transformers.masking_utils")
    monkeypatch.setitem(sys.modules, "transformers.modeling_utils", types.ModuleType("empty"))
    with watch_registries():
        assert_identical(before)
    assert_identical(before)


def test_watching_does_not_import_transformers():
    code = (
        "import sys, torch, regard\n"
        "attention = torch.nn.MultiheadAttention(8, 2)\n"
        "with regard.watch(attention): attention(*[torch.randn(5, 3, 8)] * 3)\n"
        "assert not any(name.startswith('transformers') for name in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
